// Top-level fields that the gateway does not know, on its own accounts at providers: their text could name something stored.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import { errorOf, grantCredits, type Json, postCall, USD } from "../support/harness.ts";

let gateway: Gateway;
let account: TestAccount;
beforeAll(async () => {
  gateway = await startGateway({ providers: ["openai", "anthropic"] });
  account = await registerAccount(gateway);
  await grantCredits(gateway, account, USD);
});
afterAll(() => gateway.stop());

const MESSAGES = { messages: [{ role: "user", content: "hi" }], max_tokens: 20 };
const CALLS = [
  ["chat", { model: "openai/gpt-4.1", ...MESSAGES }],
  ["responses", { model: "openai/gpt-4.1", input: "hi", store: false }],
  ["messages", { model: "anthropic/claude-haiku-4-5", ...MESSAGES }],
] as const;

async function send(api: (typeof CALLS)[number][0], body: Json): Promise<[number, Json]> {
  const response = await postCall(gateway, account, api, body);
  const json = (await response.json()) as Json;
  return [response.status, response.status === 200 ? {} : errorOf(json)];
}

describe.each(CALLS)("an unknown field of %s", (api, body) => {
  test.each([
    ["stored-4711"],
    [{ id: "stored-4711" }],
    [["stored-4711"]],
    [{ "stored-4711": true }],
  ])("with the text of %j is refused with the field and the next step", async (value) => {
    const [status, error] = await send(api, { ...body, unknown_memory: value });
    expect([status, error]).toEqual([
      400,
      expect.objectContaining({
        message: expect.stringMatching(
          /`unknown_memory`.* Remove it, or add your own provider key/,
        ),
      }),
    ]);
  });

  test("that names a credit of the account is refused", async () => {
    const [status] = await send(api, { ...body, fallback_credit_token: "fct_4711" });
    expect(status).toBe(400);
  });

  test.each([[true], [false], [3], [0.5], [null], [""], [[]], [{}]])(
    "with %j names nothing and is sent",
    async (value) => {
      const [status, error] = await send(api, { ...body, unknown_setting: value });
      expect([status, error]).toEqual([200, {}]);
    },
  );
});
