// The official SDKs sign in by themselves: they find the metadata, register, send the person to the page, and call tools with
// the key that they get. A dead key leads to another sign-in.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  Client,
  type OAuthDiscoveryState,
  StreamableHTTPClientTransport,
  UnauthorizedError,
} from "@modelcontextprotocol/client";
import { UnauthorizedError as UnauthorizedErrorV1 } from "@modelcontextprotocol/sdk/client/auth.js";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as TransportV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { createUser, makeOwner, type TestUser, visitPage } from "../billing/console-user.ts";
import { MODERN } from "../mcp/raw-mcp.ts";
import { hiddenFields } from "../operator/harness.ts";
import { call, listAt, textAt, valueAt } from "../spec/api-client.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { rejectionMessage } from "../support/rejection.ts";

const REDIRECT = "http://127.0.0.1:52100/callback";

interface Tokens {
  readonly access_token: string;
  readonly token_type: string;
}

/** What a client keeps, and the browser that it opens. */
function createProvider() {
  let client: { client_id: string } | undefined;
  let tokens: Tokens | undefined;
  let verifier = "";
  let discovery: OAuthDiscoveryState | undefined;
  const visited: URL[] = [];
  return {
    visited,
    redirectUrl: REDIRECT,
    clientMetadata: {
      client_name: "SDK test",
      redirect_uris: [REDIRECT],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
    },
    state: () => "state-1",
    clientInformation: () => client,
    saveClientInformation: (saved: { client_id: string }) => void (client = saved),
    tokens: () => tokens,
    saveTokens: (saved: Tokens) => void (tokens = saved),
    redirectToAuthorization: (url: URL) => void visited.push(url),
    saveCodeVerifier: (saved: string) => void (verifier = saved),
    codeVerifier: () => verifier,
    saveDiscoveryState: (saved: OAuthDiscoveryState) => void (discovery = saved),
    discoveryState: () => discovery,
  };
}

type Provider = ReturnType<typeof createProvider>;

interface Connection {
  readonly connect: () => Promise<unknown>;
  readonly finish: (parameters: URLSearchParams) => Promise<void>;
  readonly balance: () => Promise<unknown>;
  readonly close: () => Promise<void>;
}

function modern(
  url: URL,
  provider: Provider,
  mode: "legacy" | { readonly pin: string },
): Connection {
  const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode } });
  const transport = new StreamableHTTPClientTransport(url, { authProvider: provider });
  return {
    connect: () => client.connect(transport),
    finish: (parameters) => transport.finishAuth(parameters),
    balance: () => client.callTool({ name: "get_balance", arguments: {} }),
    close: () => client.close(),
  };
}

function first(url: URL, provider: Provider): Connection {
  const client = new ClientV1({ name: "test", version: "1" });
  const transport = new TransportV1(url, { authProvider: provider });
  return {
    connect: () => client.connect(transport),
    finish: (parameters) => transport.finishAuth(parameters.get("code") ?? ""),
    balance: () => client.callTool({ name: "get_balance", arguments: {} }),
    close: () => client.close(),
  };
}

const CLIENTS = [
  [
    `SDK 2, revision ${MODERN}`,
    (url: URL, provider: Provider) => modern(url, provider, { pin: MODERN }),
  ],
  ["SDK 2, revision 2025-11-25", (url: URL, provider: Provider) => modern(url, provider, "legacy")],
  ["SDK 1", first],
] as const;

describe.each(CLIENTS)("%s", (_name, connectionTo) => {
  let gateway: Gateway;
  let account: TestAccount;
  let owner: TestUser;
  let clock = Date.now();
  beforeAll(async () => {
    gateway = await startGateway({ now: () => clock });
    account = await registerAccount(gateway);
    owner = await createUser(gateway, "owner");
    await makeOwner(gateway, account.id, owner);
  });
  afterAll(() => gateway.stop());

  /** The person opens the client's URL and approves. */
  async function approve({ visited }: Provider): Promise<URLSearchParams> {
    const url = visited.at(-1);
    expect(url?.origin).toBe(gateway.url);
    const page = await visitPage(gateway, `${url?.pathname}${url?.search}`, owner);
    const { request = "" } = hiddenFields(page, "approve");
    const form = { request, do: "approve", account: account.id, limit_usd: "5", limit_window: "" };
    const { location } = await visitPage(gateway, "/mcp/authorize", owner, form);
    const { searchParams } = new URL(location ?? "");
    expect(searchParams.get("state")).toBe("state-1");
    return searchParams;
  }

  /** Connects without a key, signs in, and connects again as a client does after the redirect. */
  async function signIn(provider: Provider, path: string): Promise<Connection> {
    const url = new URL(`${gateway.url}${path}`);
    const before = connectionTo(url, provider);
    const refused: unknown = await before.connect().then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(refused instanceof UnauthorizedError || refused instanceof UnauthorizedErrorV1).toBe(
      true,
    );
    await before.finish(await approve(provider));
    await before.close();
    const after = connectionTo(url, provider);
    await after.connect();
    return after;
  }

  test("signs in when it connects, and calls a tool with the key that it gets", async () => {
    const provider = createProvider();
    const connection = await signIn(provider, "/mcp?sign_in=required");
    const asked = provider.visited[0]?.searchParams;
    expect(asked?.get("resource")).toBe(`${gateway.url}/mcp`);
    expect(asked?.get("scope")).toBe("models:write usage:read claim:read keys:read");
    const result = await connection.balance();
    expect(valueAt(result, "structuredContent.account.id")).toBe(account.id);
    await connection.close();
  });

  test("signs in again after its key was revoked", async () => {
    const provider = createProvider();
    await (await signIn(provider, "/mcp?sign_in=required")).close();
    const { body } = await call(gateway, "GET /v1/keys", { key: account.key });
    for (const { id, name } of listAt(body, "data"))
      if (name === "SDK test (MCP sign-in)")
        await call(gateway, `DELETE /v1/keys/${String(id)}`, { key: account.key });
    // As long as a process may take a key from its cache.
    clock += 6_000;
    const connection = await signIn(provider, "/mcp");
    const result = await connection.balance();
    expect(valueAt(result, "structuredContent.account.id")).toBe(account.id);
    await connection.close();
  });

  test("shows the reason of a dead key if it has no way to sign in", async () => {
    const url = new URL(`${gateway.url}/mcp`);
    const transport = { requestInit: { headers: { authorization: "Bearer pst-rt-wrong" } } };
    for (const connect of [
      () =>
        new Client({ name: "t", version: "1" }).connect(
          new StreamableHTTPClientTransport(url, transport),
        ),
      () => new ClientV1({ name: "t", version: "1" }).connect(new TransportV1(url, transport)),
    ])
      expect(await rejectionMessage(connect())).toContain("incomplete or contains a typo");
  });

  test("starts without a key, and a tool says how to sign in", async () => {
    const connection = connectionTo(new URL(`${gateway.url}/mcp`), createProvider());
    await connection.connect();
    const result = await connection.balance();
    expect(textAt(result, "content.0.text")).toContain("Sign in at this server");
    await connection.close();
  });
});
