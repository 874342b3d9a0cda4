// Errors of tools speak MCP: each step of `next` is a tool with its arguments, a resource, or a page for the human, and none
// of them ends in another error.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createUser, makeOwner } from "../billing/console-user.ts";
import { call, type Json, listAt, textAt, valueAt } from "../spec/api-client.ts";
import { type Gateway, registerAccount, startGateway } from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import { postModern } from "./raw-mcp.ts";

const HUMAN = "human@example.com";
const ENDPOINT = /\b(GET|POST|PATCH|DELETE) \//;
const MESSAGE = { model: "sim/echo", prompt: "hello", max_tokens: 20 };
const EXPENSIVE = { ...MESSAGE, max_tokens: 16_000, n: 8 };

interface Refusal {
  readonly tool: string;
  readonly args: Json;
  readonly key?: string;
}

describe.each(STORE_KINDS)("errors of tools on %s", (store) => {
  let gateway: Gateway;
  let people = 0;
  beforeAll(async () => {
    gateway = await startGateway({ store, providers: ["sim", "openai"] });
  });
  afterAll(() => gateway.stop());

  const register = async (): Promise<string> => (await registerAccount(gateway)).key;
  const createKey = async (key: string, body: Json): Promise<string> =>
    textAt((await call(gateway, "POST /v1/keys", { key, body })).body, "api_key");
  const run = async ({ tool, args, key }: Refusal): Promise<Json> => {
    const sent = { ...args, ...(key === undefined ? {} : { api_key: key }) };
    const params = { name: tool, arguments: sent };
    const { body } = await postModern(gateway, { method: "tools/call", params });
    return valueAt(body, "result") as Json;
  };
  const claim = async (key: string): Promise<string> => {
    people += 1;
    const account = textAt((await call(gateway, "GET /v1/account", { key })).body, "account.id");
    await makeOwner(gateway, account, await createUser(gateway, `person${people}`));
    return account;
  };

  /** Does what the step says, with an email in place of the placeholder. */
  async function take(step: Json, { key }: Refusal): Promise<void> {
    const { tool, resource } = step;
    if (resource !== undefined) {
      const params = { uri: resource };
      const { body } = await postModern(gateway, { method: "resources/read", params });
      expect(textAt(body, "result.contents.0.text").length).toBeGreaterThan(100);
      return;
    }
    const given = (step["arguments"] ?? {}) as Json;
    const args = given["email"] === undefined ? given : { ...given, email: HUMAN };
    const withKey = key === undefined ? {} : { key };
    const result = await run({ tool: String(tool), args, ...withKey });
    expect([step, result["isError"] === true ? textAt(result, "content.0.text") : ""]).toEqual([
      step,
      "",
    ]);
  }

  /** Returns the tools, resources and pages of the steps, and takes them. */
  async function follow(refusal: Refusal, code: string): Promise<readonly string[]> {
    const result = await run(refusal);
    expect(result["isError"]).toBe(true);
    const body = JSON.parse(textAt(result, "content.0.text")) as Json;
    const error = (typeof body["error"] === "string" ? body : body["error"]) as Json;
    expect(error["code"]).toBe(code);
    const text = String(error["message"] ?? error["error_description"]);
    const { next = [] } = error;
    const steps = listAt({ next }, "next");
    expect(
      [text, ...steps.map(({ why }) => String(why))].filter((one) => ENDPOINT.test(one)),
    ).toEqual([]);
    for (const step of steps) if (step["url"] === undefined) await take(step, refusal);
    return steps.map((step) => String(step["url"] ?? step["resource"] ?? step["tool"]));
  }

  const page = (name: string): string => `${gateway.url}/docs/api/${name}.md`;

  test("without a key lead to create_account", async () => {
    for (const tool of ["get_balance", "send_message", "list_sessions", "create_invoice"])
      expect(await follow({ tool, args: MESSAGE }, "invalid_api_key")).toEqual(["create_account"]);
  });

  test("of a revoked key lead to the page about keys", async () => {
    const key = await register();
    const child = await createKey(key, {});
    const { body } = await call(gateway, "GET /v1/keys/self", { key: child });
    await run({ tool: "revoke_key", args: { id: body["id"] }, key });
    const refusal = { tool: "get_balance", args: {}, key: child };
    expect(await follow(refusal, "invalid_api_key")).toEqual([`${gateway.url}/docs/keys.md`]);
  });

  test("of a model name the tool that lists models", async () => {
    const key = await register();
    const missing = { ...MESSAGE, model: "openai/no-such" };
    for (const tool of ["send_message", "quote"])
      expect(await follow({ tool, args: missing, key }, "model_not_found")).toEqual([
        "list_models",
      ]);
    const variant = { ...MESSAGE, model: "sim/echo:batch" };
    expect(await follow({ tool: "send_message", args: variant, key }, "model_not_found")).toEqual([
      "list_models",
    ]);
  });

  test("of an argument name the tool again, with the page of its fields", async () => {
    const key = await register();
    const cases = [
      ["send_message", { ...MESSAGE, max_tokens: 0.5 }, "create-chat-completion"],
      ["create_key", { limit_usd: -1 }, "create-key"],
      ["start_claim", { email: "none" }, "start-claim"],
      ["get_usage", { limit: 1_000_000 }, "list-usage"],
    ] as const;
    for (const [tool, args, name] of cases) {
      expect(await follow({ tool, args, key }, "invalid_request")).toEqual([page(name)]);
      const body = JSON.parse(textAt(await run({ tool, args, key }), "content.0.text")) as Json;
      expect(valueAt(body, "error.next.0.tool") ?? valueAt(body, "next.0.tool")).toBe(tool);
    }
  });

  test("of records lead to the tool that lists them", async () => {
    const key = await register();
    const cases = [
      [
        "get_usage",
        { request_id: "req_none", from: "no" },
        "invalid_request",
        [page("list-usage")],
      ],
      ["list_sessions", { id: "none" }, "not_found", ["list_sessions"]],
      ["stop_session", { id: "none" }, "not_found", ["list_sessions"]],
      ["get_invoice", { id: "inv_none" }, "not_found", ["get_invoice"]],
    ] as const;
    for (const [tool, args, code, steps] of cases)
      expect(await follow({ tool, args, key }, code)).toEqual([...steps]);
  });

  test("for a lack of credits lead to an invoice and a claim", async () => {
    const key = await register();
    const refusal = { tool: "send_message", args: EXPENSIVE, key };
    expect(await follow(refusal, "insufficient_credits")).toEqual([
      "create_invoice",
      "start_claim",
    ]);
  });

  test("for limits of a key lead to the key, and for scopes, too", async () => {
    const parent = await register();
    const limited = await createKey(parent, { limit_usd: 0.001 });
    const expensive = { tool: "send_message", args: { ...MESSAGE, max_tokens: 16_000 } };
    expect(await follow({ ...expensive, key: limited }, "key_limit_reached")).toContain(
      "list_keys",
    );
    const scoped = await createKey(parent, { scopes: ["models:write"] });
    for (const tool of ["get_usage", "list_sessions", "get_invoice"])
      expect(await follow({ tool, args: {}, key: scoped }, "forbidden")).toEqual(["list_keys"]);
    const account = await claim(parent);
    expect(await follow({ tool: "get_usage", args: {}, key: scoped }, "forbidden")).toEqual([
      "list_keys",
      `${gateway.url}/console/${account}/keys`,
    ]);
  });

  test("for a budget lead to the balance, which has the budgets", async () => {
    const key = await register();
    await run({ tool: "set_budget", args: { daily_usd: 0.000001 }, key });
    const refusal = { tool: "send_message", args: MESSAGE, key };
    expect(await follow(refusal, "workspace_budget_reached")).toEqual(["get_balance"]);
  });

  test("for a claim lead to the tool that begins one", async () => {
    const key = await register();
    const refusal = { tool: "poll_claim", args: {}, key };
    expect(await follow(refusal, "claim_not_found")).toEqual(["start_claim"]);
  });

  test("of an account that closes lead to the tool that reopens it", async () => {
    const key = await register();
    await call(gateway, "DELETE /v1/account", { key });
    const refusal = { tool: "send_message", args: MESSAGE, key };
    expect(await follow(refusal, "workspace_frozen")).toEqual(["reopen_account"]);
    expect((await run(refusal))["isError"]).toBeUndefined();
  });

  test("results name tools for what comes next, too", async () => {
    const created = (await run({ tool: "create_account", args: {} }))["structuredContent"];
    const key = textAt(created, "api_key");
    const first = valueAt(created, "first_call") as Json;
    expect(first["tool"]).toBe("send_message");
    await take(first, { tool: "", args: {}, key });
    const start = valueAt(created, "claim.start") as Json;
    expect(start["tool"]).toBe("start_claim");
    const args = { email: HUMAN };
    const started = (await run({ tool: "start_claim", args, key }))["structuredContent"];
    expect(valueAt(started, "next")).toMatchObject([{ tool: "poll_claim" }]);
  });
});

test("a session of an agent is listed, read and stopped with tools", async () => {
  const gateway = await startGateway();
  const { key } = await registerAccount(gateway);
  const headers = { "x-postern-session": "s1" };
  const body = {
    model: "sim/echo",
    messages: [{ role: "user", content: "hello" }],
    max_tokens: 20,
  };
  await call(gateway, "POST /v1/chat/completions", { key, headers, body });
  const run = async (name: string, args: Json): Promise<unknown> => {
    const params = { name, arguments: { ...args, api_key: key } };
    const reply = await postModern(gateway, { method: "tools/call", params });
    return valueAt(reply.body, "result.structuredContent");
  };
  expect(valueAt(await run("list_sessions", {}), "data.0.id")).toBe("s1");
  expect(valueAt(await run("list_sessions", { id: "s1" }), "agents")).toBeArray();
  expect(valueAt(await run("stop_session", { id: "s1" }), "stopped_at")).toBeString();
  const refused = await call(gateway, "POST /v1/chat/completions", { key, headers, body });
  expect(valueAt(refused.body, "error.code")).toBe("session_stopped");
  await gateway.stop();
});
