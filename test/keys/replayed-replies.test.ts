// The reply that one key paid for is not replayed to another key of the account, which may not be allowed to make the call.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { postModern } from "../mcp/raw-mcp.ts";
import { type ApiResponse, call, type Json, textAt } from "../spec/api-client.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";

const SECRET = "the reply that another key paid for";
const MESSAGES = [{ role: "user", content: SECRET }];
const CALLS: readonly (readonly [path: string, body: Json])[] = [
  ["/v1/chat/completions", { messages: MESSAGES, max_tokens: 50 }],
  ["/v1/chat/completions", { messages: MESSAGES, max_tokens: 50, stream: true }],
  ["/v1/messages", { messages: MESSAGES, max_tokens: 50 }],
  ["/v1/messages", { messages: MESSAGES, max_tokens: 50, stream: true }],
  ["/v1/responses", { input: SECRET, max_output_tokens: 50 }],
  ["/v1/responses", { input: SECRET, max_output_tokens: 50, stream: true }],
  ["/v1/responses", { input: SECRET, max_output_tokens: 50, background: true }],
];

describe.each(STORE_KINDS)("the Idempotency-Key of another API key on %s", (store) => {
  let gateway: Gateway;
  let account: TestAccount;
  let number = 0;
  beforeAll(async () => {
    gateway = await startGateway({ store });
    account = await registerAccount(gateway);
  });
  afterAll(() => gateway.stop());

  const createKey = async (body: Json): Promise<string> => {
    const created = await call(gateway, "POST /v1/keys", { key: account.key, body });
    return textAt(created.body, "api_key");
  };
  const send = (key: string, path: string, body: Json, repetition: string): Promise<ApiResponse> =>
    call(gateway, `POST ${path}`, {
      key,
      body: { model: "sim/echo", ...body },
      headers: { "idempotency-key": repetition },
    });

  test.each(CALLS)("replays no reply of %s %j", async (path, body) => {
    const repetition = `shared-${(number += 1)}`;
    const first = await send(account.key, path, body, repetition);
    expect(first.status).toBe(200);
    const own = await send(account.key, path, body, repetition);
    expect([own.text, own.headers.get("idempotent-replayed")]).toEqual([first.text, "true"]);
    for (const restriction of [{ limit_usd: 0 }, { allowed_models: ["none/*"] }]) {
      const other = await send(await createKey(restriction), path, body, repetition);
      expect([restriction, other.status]).toEqual([restriction, 403]);
      expect(other.text).not.toContain(SECRET);
    }
    const free = await send(await createKey({}), path, body, repetition);
    expect([free.status, free.headers.get("idempotent-replayed")]).toEqual([200, null]);
  });

  test("replays no reply through MCP", async () => {
    const args = { model: "sim/echo", prompt: SECRET, max_tokens: 50, idempotency_key: "mcp" };
    const params = { name: "send_message", arguments: args };
    const request = { method: "tools/call", params };
    const first = await postModern(gateway, { ...request, key: account.key });
    expect(first.text).toContain(SECRET);
    const limited = await createKey({ limit_usd: 0 });
    const other = await postModern(gateway, { ...request, key: limited });
    expect(other.text).toContain("key_limit_reached");
    expect(other.text).not.toContain(SECRET);
  });
});
