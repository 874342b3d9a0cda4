// How a client finds the sign-in: the metadata documents, the challenges of /mcp, and what a gateway without sign-in says.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { processDiscoveryResponse } from "oauth4webapi";
import { postLegacy, postModern } from "../mcp/raw-mcp.ts";
import { call, listAt, textAt, valueAt } from "../spec/api-client.ts";
import { type Gateway, registerAccount, startGateway } from "../support/gateway.ts";

const SCOPES = ["models:write", "usage:read", "claim:read", "keys:read"];
const CALL = { method: "tools/call", params: { name: "get_balance", arguments: {} } };
const INITIALIZE = {
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: {
    protocolVersion: "2025-11-25",
    capabilities: {},
    clientInfo: { name: "test", version: "1" },
  },
};

async function json(gateway: Gateway, path: string): Promise<unknown> {
  const { status, body } = await call(gateway, `GET ${path}`);
  expect(status).toBe(200);
  return body;
}

describe("with sign-in", () => {
  let gateway: Gateway;
  beforeAll(async () => {
    gateway = await startGateway();
  });
  afterAll(() => gateway.stop());

  test("the metadata lead from the server to its endpoints", async () => {
    const base = gateway.url;
    expect(await json(gateway, "/.well-known/oauth-protected-resource/mcp")).toMatchObject({
      resource: `${base}/mcp`,
      authorization_servers: [`${base}/mcp`],
      scopes_supported: SCOPES,
    });
    const url = `${base}/.well-known/oauth-authorization-server/mcp`;
    const server = await processDiscoveryResponse(new URL(`${base}/mcp`), await fetch(url));
    expect(server).toMatchObject({
      issuer: `${base}/mcp`,
      authorization_endpoint: `${base}/mcp/authorize`,
      token_endpoint: `${base}/mcp/token`,
      registration_endpoint: `${base}/mcp/register`,
      response_types_supported: ["code"],
      grant_types_supported: ["authorization_code"],
      code_challenge_methods_supported: ["S256"],
      token_endpoint_auth_methods_supported: ["none"],
      client_id_metadata_document_supported: true,
      authorization_response_iss_parameter_supported: true,
    });
  });

  test("claims keep their token endpoint, with their grant alone", async () => {
    expect(await json(gateway, "/.well-known/oauth-authorization-server")).toMatchObject({
      issuer: gateway.url,
      token_endpoint: `${gateway.url}/oauth2/token`,
      grant_types_supported: [expect.stringContaining("agent-auth:grant-type:claim")],
    });
  });

  test("a tool that needs a key says how to sign in, and has the challenge", async () => {
    const { status, body } = await postModern(gateway, CALL);
    expect(status).toBe(200);
    expect(textAt(body, "result.content.0.text")).toContain("Sign in at this server");
    expect(valueAt(body, "result._meta")).toMatchObject({
      "mcp/www_authenticate": [
        `Bearer resource_metadata="${gateway.url}/.well-known/oauth-protected-resource/mcp", scope="${SCOPES.join(" ")}"`,
      ],
    });
  });

  test("asks for the sign-in at once if the URL says so", async () => {
    const connect = (path: string, key?: string) =>
      call(gateway, `POST ${path}`, {
        body: INITIALIZE,
        headers: { accept: "application/json, text/event-stream" },
        ...(key === undefined ? {} : { key }),
      });
    const refused = await connect("/mcp?sign_in=required");
    expect(refused.status).toBe(401);
    expect(refused.headers.get("www-authenticate")).toStartWith("Bearer resource_metadata=");
    const { key } = await registerAccount(gateway);
    expect((await connect("/mcp?sign_in=required", key)).status).toBe(200);
    expect((await connect("/mcp")).status).toBe(200);
  });

  test("the root metadata of the API name the API", async () => {
    expect(await json(gateway, "/.well-known/oauth-protected-resource")).toMatchObject({
      authorization_servers: [gateway.url],
    });
  });
});

describe("without sign-in", () => {
  let gateway: Gateway;
  beforeAll(async () => {
    gateway = await startGateway({
      env: { POSTERN_BASE_URL: "https://gateway.example", POSTERN_SECRET: "s".repeat(40) },
      providers: ["sim"],
    });
  });
  afterAll(() => gateway.stop());

  test("no document names an authorization server", async () => {
    const metadata = await json(gateway, "/.well-known/oauth-protected-resource/mcp");
    expect(metadata).not.toHaveProperty("authorization_servers");
    for (const path of [
      "GET /.well-known/oauth-authorization-server/mcp",
      "GET /mcp/authorize",
      "POST /mcp/token",
      "POST /mcp/register",
    ])
      expect((await call(gateway, path)).status).toBe(404);
    const { text } = await call(gateway, "GET /openapi.yaml");
    expect(text).not.toContain("/mcp/token");
  });

  test("a dead key gets a readable error from each tool, and no 401", async () => {
    const { key } = await registerAccount(gateway);
    const { body: own } = await call(gateway, "GET /v1/keys/self", { key });
    await call(gateway, `DELETE /v1/keys/${textAt(own, "id")}`, { key, body: { confirm: true } });
    const deadKeys = [
      [key, "was revoked"],
      ["pst-rt-wrong", "incomplete or contains a typo"],
      ["sk-other", "not an API key of this gateway"],
    ] as const;
    for (const [dead, reason] of deadKeys) {
      const headers = { authorization: `Bearer ${dead}` };
      expect((await postLegacy(gateway, INITIALIZE, headers)).status).toBe(200);
      expect(
        listAt(
          (await postModern(gateway, { method: "tools/list", key: dead })).body,
          "result.tools",
        ),
      ).not.toBeEmpty();
      const { status, body } = await postModern(gateway, { ...CALL, key: dead });
      expect([status, valueAt(body, "result.isError")]).toEqual([200, true]);
      expect(textAt(body, "result.content.0.text")).toContain(reason);
      expect(valueAt(body, "result._meta")).not.toHaveProperty("mcp/www_authenticate");
    }
  });
});
