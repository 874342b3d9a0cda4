// Regressions that the fuzzer found: each request once caused a 500.

import { afterAll, expect, test } from "bun:test";
import { call, type Json } from "../spec/api-client.ts";
import { registerAccount, startGateway } from "../support/gateway.ts";

/** `String` throws for such an object. */
const NO_TEXT = { toString: 1 };
const RESPONSE = { model: "sim/reason", max_output_tokens: 20, input: "hi" };
const CALL = { model: "sim/echo", max_tokens: 20, messages: [{ role: "user", content: "hi" }] };

const gateway = await startGateway();
const account = await registerAccount(gateway);
afterAll(() => gateway.stop());

test.each<[string, Json]>([
  ["POST /v1/responses", { ...RESPONSE, include: [NO_TEXT] }],
  [
    "POST /v1/messages",
    { ...CALL, tools: [{ type: "advisor_20260301", name: "advisor", model: NO_TEXT }] },
  ],
])("%s with an object that has no text is no 500", async (line, body) => {
  const { status, text } = await call(gateway, line, { key: account.key, body });
  expect({ text, isServerError: status >= 500 }).toEqual({ text, isServerError: false });
});
