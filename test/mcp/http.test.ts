// The MCP server over HTTP, message by message: what each revision demands, and what bad input gets.

import { afterAll, describe, expect, test } from "bun:test";
import { call, expectNoInternals, listAt, textAt, valueAt } from "../spec/api-client.ts";
import { eventually } from "../support/eventually.ts";
import { registerAccount, startGateway } from "../support/gateway.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";
import { MODERN, postLegacy, postModern } from "./raw-mcp.ts";

const gateway = await startGateway();
const account = await registerAccount(gateway);
afterAll(async () => {
  expect(gateway.logLines.filter((line) => line.includes('"level":"error"'))).toEqual([]);
  await gateway.stop();
});

const countAccounts = async (): Promise<number> => {
  const row = await gateway.server.db.get("select count(*) as n from account", []);
  return Number(row?.["n"]);
};
const callTool = async (name: string, args: Readonly<Record<string, unknown>>) => {
  const params = { name, arguments: args };
  return (await postModern(gateway, { method: "tools/call", params, key: account.key })).body;
};
const createAccount = { method: "tools/call", params: { name: "create_account", arguments: {} } };

describe("revision 2026-07-28", () => {
  test("server/discover names both revisions and the instructions", async () => {
    const response = await postModern(gateway, { method: "server/discover" });
    expectStatus("callMcp", 200, response);
    expect(valueAt(response.body, "result")).toMatchObject({
      resultType: "complete",
      supportedVersions: expect.arrayContaining([MODERN]),
      capabilities: { tools: {}, resources: {} },
      instructions: expect.stringContaining("create_account"),
      ttlMs: 3_600_000,
      cacheScope: "public",
    });
  });

  test("lists the same tools in the same order each time", async () => {
    const first = await postModern(gateway, { method: "tools/list" });
    const second = await postModern(gateway, { method: "tools/list", key: account.key });
    expect(second.text).toBe(first.text);
    expect(listAt(first.body, "result.tools").map(({ name }) => name)).toEqual([
      "create_account",
      "list_models",
      "quote",
      "send_message",
      "create_response",
      "get_response",
      "get_balance",
      "get_ledger_proof",
      "list_service_credits",
      "reopen_account",
      "get_usage",
      "list_sessions",
      "stop_session",
      "list_keys",
      "create_key",
      "revoke_key",
      "add_provider_key",
      "set_budget",
      "create_invoice",
      "get_invoice",
      "start_claim",
      "poll_claim",
    ]);
  });

  test("writes schemas in the subset of JSON Schema that clients can pass to any model", async () => {
    const { body } = await postModern(gateway, { method: "tools/list" });
    const tools = listAt(body, "result.tools");
    const text = JSON.stringify(tools.map(({ inputSchema }) => inputSchema));
    expect(text).not.toContain('"type":[');
    expect(text).not.toContain('"additionalProperties":{}');
    const tool = tools.find(({ name }) => name === "create_key");
    expect(valueAt(tool, "inputSchema.properties.limit_usd")).toMatchObject({
      anyOf: [{ type: "number" }, { type: "string" }],
    });
  });

  test("takes null for an argument that is left out, and booleans", async () => {
    const key = await callTool("create_key", { name: "null", limit_usd: null, scopes: null });
    expect(valueAt(key, "result.structuredContent.limit_usd")).toBeNull();
    const models = await callTool("list_models", { available: true, q: null });
    expect(valueAt(models, "result.isError")).not.toBe(true);
  });

  test("says that tools for models take further fields, and passes them on", async () => {
    const { body } = await postModern(gateway, { method: "tools/list" });
    const open = listAt(body, "result.tools")
      .filter((tool) => valueAt(tool, "inputSchema.additionalProperties") === true)
      .map(({ name }) => name);
    expect(open).toEqual(["quote", "send_message", "create_response", "create_key", "poll_claim"]);
    const wrong = { model: "sim/echo", prompt: "hi", max_tokens: 9, temperature: "hot" };
    const refused = await callTool("send_message", wrong);
    expect(textAt(refused, "result.content.0.text")).toContain("temperature");
  });

  test("creates, continues and reads responses", async () => {
    const args = { model: "sim/echo", input: "hello", max_output_tokens: 30 };
    const created = await callTool("create_response", args);
    expect(valueAt(created, "result.structuredContent")).toMatchObject({
      status: "completed",
      text: expect.stringContaining("hello"),
      cost_usd: expect.any(Number),
    });
    const id = textAt(created, "result.structuredContent.id");
    const read = await callTool("get_response", { id });
    expect(textAt(read, "result.structuredContent.text")).toContain("hello");
    const next = await callTool("create_response", { ...args, previous_response_id: id });
    expect(textAt(next, "result.structuredContent.status")).toBe("completed");
    const background = await callTool("create_response", { ...args, background: true });
    const queued = textAt(background, "result.structuredContent.id");
    await eventually(async () => {
      const polled = await callTool("get_response", { id: queued });
      return valueAt(polled, "result.structuredContent.status") === "completed";
    });
    const unknown = await callTool("get_response", { id: "resp_unknown" });
    expect(valueAt(unknown, "result.isError")).toBe(true);
  });

  test("adds a provider key, which no result shows", async () => {
    const secretKey = `sk-${"x".repeat(40)}`;
    const args = { provider: "sim", provider_api_key: secretKey, name: "mine" };
    const added = await callTool("add_provider_key", args);
    expect(JSON.stringify(added)).not.toContain(secretKey);
    const { provider } = Object(valueAt(added, "result.structuredContent")) as Record<
      string,
      unknown
    >;
    expect(provider).toBe("sim");
    const wrong = await callTool("add_provider_key", { ...args, provider: "no-such" });
    expect(textAt(wrong, "result.content.0.text")).toContain("provider");
  });

  test("reads an invoice and the keys", async () => {
    const invoice = await callTool("create_invoice", { amount_usd: 10 });
    const id = textAt(invoice, "result.structuredContent.id");
    const read = await callTool("get_invoice", { id });
    expect(valueAt(read, "result.structuredContent.status")).toBe("open");
    const keys = await callTool("list_keys", {});
    expect(listAt(keys, "result.structuredContent.data").length).toBeGreaterThan(0);
  });

  test("says of each tool whether it only reads, destroys or may be repeated", async () => {
    const { body } = await postModern(gateway, { method: "tools/list" });
    const annotations = listAt(body, "result.tools").map((tool) => [
      tool["name"],
      ["readOnlyHint", "destructiveHint", "idempotentHint"].filter(
        (hint) => valueAt(tool, `annotations.${hint}`) === true,
      ),
    ]);
    const reads = ["readOnlyHint", "idempotentHint"];
    const changes = ["destructiveHint", "idempotentHint"];
    expect(Object.fromEntries(annotations)).toEqual({
      create_account: [],
      list_models: reads,
      quote: reads,
      send_message: [],
      create_response: [],
      get_response: reads,
      get_balance: reads,
      get_ledger_proof: reads,
      list_service_credits: reads,
      reopen_account: ["idempotentHint"],
      get_usage: reads,
      list_sessions: reads,
      stop_session: changes,
      list_keys: reads,
      create_key: [],
      revoke_key: changes,
      add_provider_key: [],
      set_budget: changes,
      create_invoice: [],
      get_invoice: reads,
      start_claim: [],
      poll_claim: reads,
    });
  });

  test.each([
    ["Mcp-Method", { "mcp-method": "tools/list" }],
    ["Mcp-Name", { "mcp-name": "get_balance" }],
    ["MCP-Protocol-Version", { "mcp-protocol-version": "2025-11-25" }],
  ])("refuses a message whose %s header differs from its body", async (_name, headers) => {
    const before = await countAccounts();
    const response = await postModern(gateway, { ...createAccount, headers });
    expectStatus("callMcp", 400, response);
    expect(valueAt(response.body, "error.code")).toBe(-32_020);
    expect(await countAccounts()).toBe(before);
  });

  test("refuses an unknown revision and lists the supported ones", async () => {
    const response = await postModern(gateway, { ...createAccount, revision: "2031-01-01" });
    expect(response.status).toBe(400);
    expect(valueAt(response.body, "error.data.supported")).toContain(MODERN);
  });

  test("answers an unknown method with 404 and JSON-RPC's code", async () => {
    const response = await postModern(gateway, { method: "tools/destroy" });
    expectStatus("callMcp", 404, response);
    expect(valueAt(response.body, "error.code")).toBe(-32_601);
  });

  test("has no initialize, which earlier revisions begin with", async () => {
    const response = await postModern(gateway, { method: "initialize" });
    expectStatus("callMcp", 404, response);
    expect(valueAt(response.body, "error.code")).toBe(-32_601);
  });

  test("offers no subscriptions, because nothing changes while it runs", async () => {
    const response = await postModern(gateway, {
      method: "subscriptions/listen",
      params: { notifications: { toolsListChanged: true } },
    });
    expectStatus("callMcp", 404, response);
    expect(valueAt(response.body, "error.code")).toBe(-32_601);
  });

  test.each([
    ["tools/call", {}, "name", "is required"],
    ["tools/call", { name: 5 }, "name", "must be a string"],
    ["tools/call", { name: "list_models", arguments: "x" }, "arguments", "must be an object"],
    ["resources/read", {}, "uri", "is required"],
    ["resources/read", { uri: 5 }, "uri", "must be a string"],
    ["tools/list", { cursor: 5 }, "cursor", "must be a string"],
    ["resources/list", { cursor: {} }, "cursor", "must be a string"],
    ["resources/templates/list", { cursor: {} }, "cursor", "must be a string"],
    ["initialize", {}, "protocolVersion", "is required"],
    ["initialize", { protocolVersion: "1", capabilities: {} }, "clientInfo", "is required"],
    ["ping", { _meta: { progressToken: {} } }, "_meta.progressToken", "must"],
  ] as const)("names a wrong parameter of %s: %j", async (method, params, param, problem) => {
    const legacy = { jsonrpc: "2.0", id: 7, method, params };
    for (const response of [
      await postLegacy(gateway, legacy),
      ...(method === "initialize" || method === "ping"
        ? []
        : [await postModern(gateway, { method, params: { ...params } })]),
    ]) {
      expectStatus("callMcp", 200, response);
      expect(valueAt(response.body, "error")).toMatchObject({ code: -32_602, data: { param } });
      expect(valueAt(response.body, "error.message")).toStartWith(`\`${param}\` ${problem}`);
      expect(response.text).not.toContain("invalid_type");
    }
  });

  test("names the tools when a tool does not exist", async () => {
    const response = await postModern(gateway, {
      method: "tools/call",
      params: { name: "delete_everything", arguments: {} },
    });
    expect(valueAt(response.body, "error.code")).toBe(-32_602);
    expect(valueAt(response.body, "error.data.tools")).toContain("create_account");
  });

  test("refuses a cursor that it never gave out", async () => {
    const response = await postModern(gateway, { method: "tools/list", params: { cursor: "x" } });
    expect(valueAt(response.body, "error.code")).toBe(-32_602);
  });
});

describe("earlier revisions", () => {
  test.each(["2025-11-25", "2025-06-18", "2025-03-26"])("initialize of %s", async (revision) => {
    const response = await postLegacy(gateway, {
      jsonrpc: "2.0",
      id: 1,
      method: "initialize",
      params: {
        protocolVersion: revision,
        capabilities: {},
        clientInfo: { name: "test", version: "1" },
      },
    });
    expect(response.status).toBe(200);
    expect(response.text).toContain(`"protocolVersion":"${revision}"`);
    expect(response.headers.get("mcp-session-id")).toMatch(/^[A-Za-z0-9]{43}$/);
  });

  test("a notification is accepted without a body", async () => {
    const response = await postLegacy(gateway, {
      jsonrpc: "2.0",
      method: "notifications/initialized",
    });
    expectStatus("callMcp", 202, response);
    expect(response.text).toBe("");
  });

  test("has no stream to open, and its sessions end by themselves", async () => {
    for (const method of ["GET", "DELETE"]) {
      const response = await call(gateway, `${method} /mcp`);
      expect(response.status).toBe(405);
      expect(response.headers.get("allow")).toBe("POST");
    }
  });

  test("refuses a batch: one request must not become thousands", async () => {
    const message = { jsonrpc: "2.0", id: 1, method: "tools/call", params: createAccount.params };
    const before = await countAccounts();
    const response = await postLegacy(gateway, [message, { ...message, id: 2 }]);
    expectStatus("callMcp", 400, response);
    expect(valueAt(response.body, "error.code")).toBe(-32_600);
    expect(await countAccounts()).toBe(before);
  });
});

describe("access", () => {
  test("refuses a web page of another origin, and writes nothing", async () => {
    const before = await countAccounts();
    for (const origin of ["https://evil.example", "null", "http://127.0.0.1:1"]) {
      const response = await postModern(gateway, { ...createAccount, headers: { origin } });
      expectStatus("callMcp", 403, response);
      expect(valueAt(response.body, "error.data.code")).toBe("forbidden");
      expect(listAt(response.body, "error.data.next")).not.toBeEmpty();
      expect(response.headers.get("access-control-allow-origin")).toBeNull();
    }
    expect(await countAccounts()).toBe(before);
    const own = await postModern(gateway, {
      method: "tools/list",
      headers: { origin: gateway.url },
    });
    expect(own.status).toBe(200);
  });

  test("refuses a wrong key with the metadata of this resource", async () => {
    const response = await postModern(gateway, { method: "tools/list", key: "pst-rt-wrong" });
    expectStatus("callMcp", 401, response);
    expect(response.headers.get("www-authenticate")).toStartWith(
      `Bearer error="invalid_token", resource_metadata="${gateway.url}/.well-known/oauth-protected-resource/mcp", scope="`,
    );
    expect(listAt(response.body, "error.data.next")[0]).toMatchObject({ url: "/v1/accounts" });
  });

  test("a tool that needs a key names create_account", async () => {
    const error = await toolError("get_balance", {}, undefined);
    expect(error).toMatchObject({ code: "invalid_api_key", next: [{ tool: "create_account" }] });
    expect(textAt(error, "message")).toContain("as `api_key`");
  });

  test("a revoked key can no longer call tools", async () => {
    const other = await registerAccount(gateway);
    const { body } = await call(gateway, "GET /v1/account", { key: other.key });
    const revoked = await postModern(gateway, {
      method: "tools/call",
      key: other.key,
      params: { name: "revoke_key", arguments: { id: textAt(body, "key.id") } },
    });
    expect(textAt(revoked.body, "result.structuredContent.revoked_at")).toBeString();
    const error = await toolError("get_balance", { api_key: other.key }, undefined);
    expect(error).toMatchObject({ code: "invalid_api_key" });
  });

  test("a key without the scope gets the same error as over HTTP", async () => {
    const { body } = await call(gateway, "POST /v1/keys", {
      key: account.key,
      body: { scopes: ["usage:read"] },
    });
    const error = await toolError("create_key", { name: "x" }, textAt(body, "api_key"));
    expect(error).toMatchObject({ code: "forbidden", required_scope: "keys:write" });
  });
});

describe("bad input", () => {
  test("an invalid argument names its field", async () => {
    const error = await toolError("create_key", { limit_usd: "much" }, account.key);
    expect(error).toMatchObject({ code: "invalid_request", param: "limit_usd" });
    const missing = await toolError("revoke_key", {}, account.key);
    expect(missing).toMatchObject({ code: "invalid_request", param: "id" });
    const surplus = await toolError("list_models", { providers: "sim" }, undefined);
    expect(surplus["message"]).toContain("`provider`");
    const neither = await toolError("send_message", { model: "sim/echo" }, account.key);
    expect(neither).toMatchObject({ param: "prompt" });
    const page = await toolError("list_models", { cursor: "no-such-model" }, undefined);
    expect(page).toMatchObject({ param: "cursor" });
  });

  test("an argument cannot smuggle a header or leave its path", async () => {
    const header = await toolError("get_balance", { api_key: "x\r\ny: z" }, undefined);
    expect(header).toMatchObject({ param: "api_key" });
    const path = await toolError("revoke_key", { id: "../account/budgets" }, account.key);
    expect(path).toMatchObject({ code: "not_found" });
    for (const id of [".", ".."])
      expect(await toolError("revoke_key", { id }, account.key)).toMatchObject({
        code: "invalid_request",
        param: "id",
      });
    for (const uri of ["v1/models/..", "v1/models/../keys", "v1/models/.", "docs/a/../keys.md"]) {
      const message = { method: "resources/read", params: { uri: `${gateway.url}/${uri}` } };
      const response = await postModern(gateway, { ...message, key: account.key });
      expect([uri, valueAt(response.body, "error.code")]).toEqual([uri, expect.any(Number)]);
    }
  });

  test("is refused before anything is read", async () => {
    const text = await call(gateway, "POST /mcp", {
      raw: "{}",
      headers: { "content-type": "text/plain" },
    });
    expectStatus("callMcp", 415, text);
    const large = await call(gateway, "POST /mcp", {
      raw: JSON.stringify({ jsonrpc: "2.0", method: "x".repeat(4_300_000) }),
      headers: { "content-type": "application/json" },
    });
    expectStatus("callMcp", 413, large);
    for (const raw of ["{", "[]", '{"jsonrpc":"1.0","method":"x"}', "[".repeat(60_000)]) {
      const response = await call(gateway, "POST /mcp", {
        raw,
        headers: { "content-type": "application/json" },
      });
      expect(response.status).toBe(400);
      expect(valueAt(response.body, "error.code")).toBe(-32_600);
      expectNoInternals(response);
    }
  });
});

describe("a broken store", () => {
  test("is an internal error in JSON-RPC's form, without internals", async () => {
    const broken = await startGateway();
    const { key } = await registerAccount(broken);
    const rename = (from: string, to: string): Promise<unknown> =>
      broken.server.db.write((tx) => tx.run(`alter table ${from} rename to ${to}`));
    await rename("api_key", "gone_api_key");
    const response = await postModern(broken, { method: "tools/list", key });
    expectStatus("callMcp", 500, response);
    expect(valueAt(response.body, "error.code")).toBe(-32_603);
    expect(response.text).not.toMatch(/table|sql|column|relation|\.ts|select|insert/i);
    await rename("gone_api_key", "api_key");
    await broken.stop();
  });
});

async function toolError(
  name: string,
  args: Readonly<Record<string, unknown>>,
  key: string | undefined,
): Promise<Readonly<Record<string, unknown>>> {
  const response = await postModern(gateway, {
    method: "tools/call",
    ...(key === undefined ? {} : { key }),
    params: { name, arguments: args },
  });
  expect(valueAt(response.body, "result.isError")).toBe(true);
  const { error } = JSON.parse(textAt(response.body, "result.content.0.text")) as {
    error: Readonly<Record<string, unknown>>;
  };
  return error;
}
