// A policy or a list of scopes that is narrowed applies to the next call, in every process that shares the store.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type ApiResponse, call, type Json, textAt, valueAt } from "../spec/api-client.ts";
import { eventually } from "../support/eventually.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { migratedPostgres } from "../support/stores/postgres.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";

const MESSAGES = [{ role: "user", content: "hello" }];
const CALLS: readonly (readonly [path: string, body: Json])[] = [
  ["/v1/chat/completions", { messages: MESSAGES, max_tokens: 8 }],
  ["/v1/chat/completions", { messages: MESSAGES, max_tokens: 8, stream: true }],
  ["/v1/messages", { messages: MESSAGES, max_tokens: 8 }],
  ["/v1/responses", { input: "hello", max_output_tokens: 16 }],
  ["/v1/responses", { input: "hello", max_output_tokens: 16, stream: true }],
  ["/v1/responses", { input: "hello", max_output_tokens: 16, background: true }],
];

describe.each(STORE_KINDS)("a key that was narrowed on %s", (store) => {
  let first: Gateway;
  let second: Gateway;
  let account: TestAccount;
  let stoppedAt: number | undefined;
  const now = (): number => stoppedAt ?? Date.now();
  beforeAll(async () => {
    const env = { POSTERN_SECRET: "the master secret of both processes" };
    const databaseUrl = store === "postgres" ? await migratedPostgres() : undefined;
    const options = databaseUrl === undefined ? { store, env, now } : { databaseUrl, env, now };
    first = await startGateway(options);
    // SQLite has one process, whose own cache of keys is as old.
    second = databaseUrl === undefined ? first : await startGateway(options);
    account = await registerAccount(first);
  });
  afterAll(async () => {
    await second.stop();
    if (first !== second) await first.stop();
  });

  const createKey = async (body: Json): Promise<{ id: string; key: string }> => {
    const created = await call(first, "POST /v1/keys", { key: account.key, body });
    return { id: textAt(created.body, "id"), key: textAt(created.body, "api_key") };
  };
  const change = async (id: string, body: Json): Promise<void> => {
    const changed = await call(first, `PATCH /v1/keys/${id}`, { key: account.key, body });
    expect(changed.status).toBe(200);
  };
  const send = (key: string, path: string, body: Json): Promise<ApiResponse> =>
    call(second, `POST ${path}`, { key, body: { model: "sim/echo", ...body } });

  test.each(CALLS)("calls no model outside of its new policy with %s %j", async (path, body) => {
    const { id, key } = await createKey({});
    expect((await send(key, path, body)).status).toBe(200);
    await change(id, { allowed_models: ["none/*"] });
    const refused = await send(key, path, body);
    expect(refused.status).toBe(403);
    expect(valueAt(refused.body, "error.policy")).toBe("allowed_models");
    // A process that has read the narrower policy meanwhile keeps it for some seconds.
    const isServed = async (): Promise<boolean> => (await send(key, path, body)).status === 200;
    await change(id, { allowed_models: ["sim/*"], requests_per_minute: 60_000 });
    await eventually(isServed);
    await change(id, { allowed_models: null });
    await eventually(isServed);
  });

  test.each(CALLS)("calls no model without its scope with %s %j", async (path, body) => {
    const { id, key } = await createKey({});
    expect((await send(key, path, body)).status).toBe(200);
    await change(id, { scopes: ["usage:read"] });
    const refused = await send(key, path, body);
    expect(refused.status).toBe(403);
    expect(valueAt(refused.body, "error.required_scope")).toBe("models:write");
  });

  test("has its new rate at once", async () => {
    const { id, key } = await createKey({});
    const [[path, body] = ["", {}]] = CALLS;
    expect((await send(key, path, body)).status).toBe(200);
    // The burst does not refill.
    stoppedAt = Date.now();
    await change(id, { requests_per_minute: 6 });
    const statuses = [await send(key, path, body), await send(key, path, body)];
    expect(statuses.map(({ status }) => status)).toEqual([200, 429]);
  });
});
