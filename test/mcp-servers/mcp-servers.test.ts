// The MCP servers of a workspace: their routes, and what is stored of their secrets.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { deriveKey } from "../../examples/derived-keys/derive-key.ts";
import { secret } from "../../src/base/crypto/secret.ts";
import { findCallServers, MCP_SERVER_HEADERS } from "../../src/mcp-servers/mcp-servers.ts";
import { reencryptRows } from "../../src/store/reencrypt-rows.ts";
import { call, expectError, textAt, valueAt } from "../spec/api-client.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";

const SECRET = "Bearer sk-docs-0123456789";
const SERVER = {
  url: "https://mcp.example.com/mcp",
  allowed_tools: ["search"],
  headers: { Authorization: SECRET, "X-Team": "docs" },
};
const MASTER = "a secret of these tests, and of nothing else";

describe.each(STORE_KINDS)("MCP servers on %s", (store) => {
  let gateway: Gateway;
  let account: TestAccount;
  beforeAll(async () => {
    gateway = await startGateway({ store, env: { POSTERN_SECRET: MASTER } });
    account = await registerAccount(gateway);
  });
  afterAll(() => gateway.stop());

  const send = (route: `${string} /${string}`, body?: object, key = account.key) =>
    call(gateway, route, { key, ...(body === undefined ? {} : { body }) });

  test("saves, replaces, lists and deletes a server, and never shows its headers", async () => {
    const saved = await send("POST /v1/mcp-servers/docs", SERVER);
    expectStatus("saveMcpServer", 200, saved);
    expect(saved.body).toMatchObject({
      object: "mcp_server",
      name: "docs",
      url: SERVER.url,
      allowed_tools: ["search"],
      header_names: ["authorization", "x-team"],
    });
    const got = await send("GET /v1/mcp-servers/docs");
    expectStatus("getMcpServer", 200, got);
    expect(got.body).toEqual(saved.body);
    const replaced = await send("POST /v1/mcp-servers/docs", { url: SERVER.url, headers: {} });
    expect(replaced.body).toMatchObject({ allowed_tools: null, header_names: [] });
    const listed = await send("GET /v1/mcp-servers");
    expectStatus("listMcpServers", 200, listed);
    expect(valueAt(listed.body, "data")).toEqual([replaced.body]);
    const audit = await send("GET /v1/audit");
    for (const seen of [saved, got, listed, audit])
      expect(JSON.stringify(seen.body)).not.toContain("sk-docs");
    const deleted = await send("DELETE /v1/mcp-servers/docs");
    expectStatus("deleteMcpServer", 200, deleted);
    expectStatus("deleteMcpServer", 404, await send("DELETE /v1/mcp-servers/docs"));
    expectStatus("getMcpServer", 404, await send("GET /v1/mcp-servers/docs"));
  });

  test("stores the headers encrypted, for their own account and name, also after a rotation", async () => {
    await send("POST /v1/mcp-servers/sealed", SERVER);
    const { db } = gateway.server;
    const rows = await db.all("select * from mcp_server where account_id = ?", [account.id]);
    expect(rows.flatMap((row) => Object.values(row).map(String)).join()).not.toContain("sk-docs");
    const only = secret("another secret of these tests, and of nothing else");
    const both = { ...only, previous: secret(MASTER) };
    expect((await reencryptRows(db, both, MCP_SERVER_HEADERS)).moved).toBe(1);
    const [server] = await findCallServers(db, account.id, only);
    expect(server?.readHeaders()).toEqual({ authorization: SECRET, "x-team": "docs" });
    await db.write((tx) =>
      tx.run("update mcp_server set name = 'moved' where account_id = ?", [account.id]),
    );
    const [moved] = await findCallServers(db, account.id, only);
    expect(() => moved?.readHeaders()).toThrow();
    await send("DELETE /v1/mcp-servers/moved");
  });

  test("keeps the headers that are left out, but sends them to no other URL", async () => {
    const { url, headers } = SERVER;
    const { db } = gateway.server;
    const headersOf = async (): Promise<unknown> =>
      (await findCallServers(db, account.id, secret(MASTER)))
        .find(({ name }) => name === "kept")
        ?.readHeaders();
    await send("POST /v1/mcp-servers/kept", SERVER);
    const saved = await headersOf();
    expect(saved).toEqual({ authorization: SECRET, "x-team": "docs" });
    const kept = await send("POST /v1/mcp-servers/kept", { url, allowed_tools: ["read"] });
    expect(kept.body).toMatchObject({
      allowed_tools: ["read"],
      header_names: ["authorization", "x-team"],
    });
    expect(await headersOf()).toEqual(saved);
    const moved = { url: "https://other.example.com/mcp" };
    const refused = await send("POST /v1/mcp-servers/kept", moved);
    expectError(refused, { status: 400, code: "invalid_request" });
    expect(textAt(refused.body, "error.param")).toBe("headers");
    expect(await headersOf()).toEqual(saved);
    const bare = await send("POST /v1/mcp-servers/kept", { ...moved, headers: {} });
    expect(bare.body).toMatchObject({ ...moved, header_names: [] });
    expect(await headersOf()).toEqual({});
    expect((await send("POST /v1/mcp-servers/kept", { url })).body).toMatchObject({
      header_names: [],
    });
    await send("POST /v1/mcp-servers/kept", { url, headers });
    expect(await headersOf()).toEqual(saved);
    await send("DELETE /v1/mcp-servers/kept");
  });

  test.each([
    ["url", { url: "http://mcp.example.com/mcp" }],
    ["url", { url: "https://169.254.169.254/latest" }],
    ["url", { url: "https://10.0.0.1/mcp" }],
    ["url", { url: "https://db.internal/mcp" }],
    ["url", { url: "https://mcp.example.com:6379/" }],
    ["url", { url: "https://user:password@mcp.example.com/mcp" }],
    ["headers", { headers: { host: "other.example" } }],
    ["headers", { headers: { "Transfer-Encoding": "chunked" } }],
    ["headers", { headers: { "x-a": "b\r\nhost: other.example" } }],
    ["allowed_tools", { allowed_tools: [] }],
  ])("refuses a bad %s", async (param, more) => {
    const body = { ...SERVER, url: "https://mcp.example.com/bad", ...more };
    const response = await send("POST /v1/mcp-servers/bad", body);
    expectError(response, { status: 400, code: "invalid_request" });
    expect(textAt(response.body, "error.param")).toStartWith(param);
  });

  test("refuses a bad name, and an unknown parameter", async () => {
    expectStatus("listMcpServers", 400, await send("GET /v1/mcp-servers?by=name"));
    expectStatus("getMcpServer", 400, await send("GET /v1/mcp-servers/Docs"));
    expectStatus("deleteMcpServer", 400, await send("DELETE /v1/mcp-servers/Docs"));
  });

  test("has at most 20 servers, each with a URL of its own", async () => {
    const other = await registerAccount(gateway);
    for (let index = 0; index < 20; index++) {
      const body = { url: `https://mcp.example.com/${index}` };
      expect((await send(`POST /v1/mcp-servers/s${index}`, body, other.key)).status).toBe(200);
    }
    const same = await send(
      "POST /v1/mcp-servers/s0",
      { url: "https://mcp.example.com/1" },
      other.key,
    );
    expectStatus("saveMcpServer", 409, same);
    const more = await send("POST /v1/mcp-servers/s20", SERVER, other.key);
    expect(more.status).toBe(409);
    expect(JSON.stringify((await send("GET /v1/mcp-servers")).body)).not.toContain("s0");
  });

  test("a key for model calls cannot change the list", async () => {
    const { body } = await send("POST /v1/keys", { scopes: ["models:write"] });
    const key = textAt(body, "api_key");
    expect((await send("POST /v1/mcp-servers/docs", SERVER, key)).status).toBe(403);
    expect((await send("DELETE /v1/mcp-servers/docs", undefined, key)).status).toBe(403);
  });

  test("a derived key gets no more servers than its parent", async () => {
    const { body } = await send("POST /v1/keys", { allowed_mcp_servers: ["docs"] });
    const parent = textAt(body, "api_key");
    const self = (key: string) => send("GET /v1/keys/self", undefined, key);
    const none = await self(deriveKey(parent, { mcp_servers: [] }));
    expect(none.body).toMatchObject({ allowed_mcp_servers: [] });
    const same = await self(deriveKey(parent, {}));
    expect(same.body).toMatchObject({ allowed_mcp_servers: ["docs"] });
    const barred = deriveKey(parent, { mcp_servers: [] });
    for (const wider of [
      deriveKey(parent, { mcp_servers: ["other"] }),
      deriveKey(parent, { mcp_servers: ["docs", "*"] }),
      deriveKey(barred, { mcp_servers: ["docs"] }),
    ])
      expect((await self(wider)).status).toBe(403);
  });
});
