// Sessions over HTTP: the tools of a session use the account that it created, on both stores.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as TransportV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { type ApiResponse, call, textAt, valueAt } from "../spec/api-client.ts";
import { type Gateway, registerAccount, startGateway } from "../support/gateway.ts";
import { postLegacy } from "./raw-mcp.ts";

const DAY_MS = 86_400_000;

describe.each(["sqlite", "postgres"] as const)("a session on %s", (store) => {
  let gateway: Gateway;
  let clock = Date.now();
  beforeAll(async () => {
    gateway = await startGateway({ store, now: () => clock });
  });
  afterAll(() => gateway.stop());

  async function initialize(headers: Record<string, string> = {}): Promise<string | null> {
    const params = {
      protocolVersion: "2025-11-25",
      capabilities: {},
      clientInfo: { name: "test", version: "1" },
    };
    const message = { jsonrpc: "2.0", id: 1, method: "initialize", params };
    const response = await postLegacy(gateway, message, headers);
    expect(response.status).toBe(200);
    return response.headers.get("mcp-session-id");
  }

  function callTool(
    session: string | null,
    name: string,
    args: Record<string, unknown> = {},
  ): Promise<ApiResponse> {
    const message = {
      jsonrpc: "2.0",
      id: 2,
      method: "tools/call",
      params: { name, arguments: args },
    };
    return postLegacy(gateway, message, session === null ? {} : { "mcp-session-id": session });
  }

  /** The result of a tool, which the SDK sends as an event. */
  const resultOf = ({ text }: ApiResponse): unknown => {
    const [, data = "null"] = /^data: (\{.*)$/m.exec(text) ?? [];
    const message: unknown = JSON.parse(text.startsWith("{") ? text : data);
    return valueAt(message, "result");
  };

  async function accountOf(session: string | null): Promise<unknown> {
    return valueAt(
      resultOf(await callTool(session, "get_balance")),
      "structuredContent.account.id",
    );
  }

  test("uses the account that it created, without a key as an argument", async () => {
    const session = await initialize();
    expect(await accountOf(session)).toBeUndefined();
    const created = resultOf(await callTool(session, "create_account"));
    const id = textAt(created, "structuredContent.account.id");
    expect(await accountOf(session)).toBe(id);
    const sent = { model: "sim/echo", prompt: "hello", max_tokens: 20 };
    const reply = resultOf(await callTool(session, "send_message", sent));
    expect(textAt(reply, "structuredContent.text")).toContain("hello");
  });

  test("keeps its first account when it creates a second one, whose key is an argument", async () => {
    const session = await initialize();
    const first = resultOf(await callTool(session, "create_account"));
    const second = resultOf(await callTool(session, "create_account"));
    expect(await accountOf(session)).toBe(textAt(first, "structuredContent.account.id"));
    const api_key = textAt(second, "structuredContent.api_key");
    const balance = resultOf(await callTool(session, "get_balance", { api_key }));
    expect(valueAt(balance, "structuredContent.account.id")).toBe(
      textAt(second, "structuredContent.account.id"),
    );
  });

  test("gives its account to no other session, and to none without its id", async () => {
    const session = await initialize();
    await callTool(session, "create_account");
    for (const other of [
      await initialize(),
      null,
      `${session}x`,
      session?.toLowerCase() ?? "",
      "%",
    ])
      expect(await accountOf(other)).toBeUndefined();
  });

  test("has its key in no other request than that of a tool", async () => {
    const session = await initialize();
    await callTool(session, "create_account");
    const headers = { "mcp-session-id": session ?? "" };
    expect((await call(gateway, "GET /v1/account", { headers })).status).toBe(401);
  });

  test("is not stored before it creates an account, and neither is its id or the key", async () => {
    const count = async (): Promise<number> => {
      const row = await gateway.server.db.get("select count(*) as n from mcp_session", []);
      return Number(row?.["n"]);
    };
    const before = await count();
    const session = await initialize();
    await accountOf(session);
    expect(await count()).toBe(before);
    const created = resultOf(await callTool(session, "create_account"));
    expect(await count()).toBe(before + 1);
    const rows = await gateway.server.db.all("select id_hash, key_id from mcp_session", []);
    expect(JSON.stringify(rows)).not.toContain(session ?? "");
    expect(JSON.stringify(rows)).not.toContain(textAt(created, "structuredContent.api_key"));
  });

  test("ends with the key, and after a day", async () => {
    const [session, other] = [await initialize(), await initialize()];
    await callTool(session, "create_account");
    await callTool(other, "create_account");
    const own = await callTool(session, "get_balance");
    const id = textAt(resultOf(own), "structuredContent.key.id");
    await callTool(session, "revoke_key", { id, confirm: true });
    expect(await accountOf(session)).toBeUndefined();
    expect(await accountOf(other)).toBeString();
    clock += DAY_MS;
    expect(await accountOf(other)).toBeUndefined();
  });

  test("does not begin for a connection with a key, whose key counts", async () => {
    const { key, id } = await registerAccount(gateway);
    const headers = { authorization: `Bearer ${key}` };
    expect(await initialize(headers)).toBeNull();
    const session = await initialize();
    await callTool(session, "create_account");
    const params = { name: "get_balance", arguments: {} };
    const message = { jsonrpc: "2.0", id: 3, method: "tools/call", params };
    const both = await postLegacy(gateway, message, {
      ...headers,
      "mcp-session-id": session ?? "",
    });
    expect(valueAt(resultOf(both), "structuredContent.account.id")).toBe(id);
  });

  test("works with the official SDK", async () => {
    const client = new ClientV1({ name: "test", version: "1" });
    await client.connect(new TransportV1(new URL(`${gateway.url}/mcp`)));
    const created = await client.callTool({ name: "create_account", arguments: {} });
    const balance = await client.callTool({ name: "get_balance", arguments: {} });
    expect(valueAt(balance, "structuredContent.account.id")).toBe(
      textAt(created, "structuredContent.account.id"),
    );
    await client.close();
  });
});
