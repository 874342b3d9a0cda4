// Code containers are in the gateway's account at the provider: an account may use only those of its own stored replies.

import { afterAll, expect, test } from "bun:test";
import {
  errorOf,
  expectSettledLedger,
  grantCredits,
  type Json,
  USD,
} from "../inference/support/harness.ts";
import { startRawProvider } from "../inference/support/raw-provider.ts";
import { registerAccount, startGateway } from "../support/gateway.ts";
import { call, createResponse } from "./harness.ts";

const CONTAINER = "cntr_0123456789";
const CODE_INTERPRETER_CALL = {
  id: "ci_1",
  type: "code_interpreter_call",
  status: "completed",
  code: "1 + 1",
  container_id: CONTAINER,
  outputs: null,
};
const MODEL = "openai/gpt-5-mini";
const tools = [{ type: "code_interpreter", container: { type: "auto" } }];

const usage = { input_tokens: 10, output_tokens: 5, total_tokens: 15 };
const reply = { id: "resp_1", object: "response", status: "completed", model: "gpt-5-mini" };
const body = JSON.stringify({ ...reply, output: [CODE_INTERPRETER_CALL], usage });
const provider = await startRawProvider(() => ({ body }));
const env = { OPENAI_BASE_URL: provider.url, OPENAI_API_KEY: "sk-gateway-0123456789abcdef" };
const gateway = await startGateway({ providers: [], env });
const account = await registerAccount(gateway);
await grantCredits(gateway, account, 10n * USD);
afterAll(async () => {
  await expectSettledLedger(gateway.server.db);
  await gateway.stop();
  await provider.stop();
});

const lastProviderRequest = (): Json => JSON.parse(provider.requests.at(-1)?.body ?? "{}") as Json;

test("a container of a stored reply can be used again, by response id or item reference", async () => {
  const first = await createResponse(gateway, account, {
    model: MODEL,
    input: "run",
    tools,
    store: true,
  });
  for (const fields of [
    { previous_response_id: first["id"], input: "again" },
    { input: [{ type: "item_reference", id: "ci_1" }] },
  ]) {
    await createResponse(gateway, account, { model: MODEL, tools, ...fields });
    expect(lastProviderRequest()["input"]).toContainEqual(CODE_INTERPRETER_CALL);
  }
});

test("a container from request input is rejected, also after the request was stored", async () => {
  const foreign = { ...CODE_INTERPRETER_CALL, id: "ci_2", container_id: "cntr_foreign" };
  const stored = await createResponse(gateway, account, {
    model: MODEL,
    input: [foreign],
    store: true,
  });
  const requestsBefore = provider.requests.length;
  const response = await call(gateway, account, "POST /v1/responses", {
    body: { model: MODEL, tools, previous_response_id: stored["id"], input: "again" },
  });
  expect([response.status, errorOf(response.json)["param"]]).toEqual([400, "previous_response_id"]);
  expect(provider.requests.length).toBe(requestsBefore);
});

test("a rejected reference is named by its path in the caller's request", async () => {
  const first = await createResponse(gateway, account, { model: MODEL, input: "one", store: true });
  const content = [{ type: "input_file", file_id: "file-1" }];
  const response = await call(gateway, account, "POST /v1/responses", {
    body: { model: MODEL, previous_response_id: first["id"], input: [{ role: "user", content }] },
  });
  const error = errorOf(response.json);
  expect([response.status, error["param"]]).toEqual([400, "input[0].content[0].file_id"]);
  expect(error["message"]).toStartWith("`input[0].content[0].file_id` refers");
});
