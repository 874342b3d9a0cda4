// Clients whose id is the URL of a metadata document: what the gateway fetches, and what it refuses.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import {
  createUser,
  type PageResponse,
  textOf,
  type TestUser,
  visitPage,
} from "../billing/console-user.ts";
import { type FileServer, startFileServer } from "../support/file-server.ts";
import { type Gateway, startGateway } from "../support/gateway.ts";

const CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
const REDIRECT = "http://127.0.0.1:5000/callback";
const PROTECTED = "private value";

describe("a client with a metadata document", () => {
  let gateway: Gateway;
  let files: FileServer;
  let user: TestUser;
  let document: (url: URL) => Response;
  beforeAll(async () => {
    gateway = await startGateway();
    files = startFileServer((url) => document(url));
    user = await createUser(gateway, "documents");
  });
  afterAll(async () => {
    await gateway.stop();
    await files.close();
  });
  beforeEach(() => {
    document = (url) => Response.json(metadataOf(url));
  });

  function metadataOf(url: URL): Record<string, unknown> {
    return {
      client_id: `${files.url}${url.pathname}`,
      client_name: "Agent Studio",
      redirect_uris: [REDIRECT],
      token_endpoint_auth_method: "none",
    };
  }

  function open(clientId: string, redirectUri = REDIRECT): Promise<PageResponse> {
    const query = new URLSearchParams({
      response_type: "code",
      client_id: clientId,
      redirect_uri: redirectUri,
      code_challenge: CHALLENGE,
      code_challenge_method: "S256",
    });
    return visitPage(gateway, `/mcp/authorize?${query.toString()}`, user);
  }

  test("is shown with the host of its document", async () => {
    const page = await open(`${files.url}/client.json`);
    expect([page.status, textOf(page)]).toEqual([
      200,
      expect.stringContaining("Connect Agent Studio?"),
    ]);
    expect(textOf(page)).toContain(`Agent Studio, by ${new URL(files.url).host}`);
    expect(files.requested).toContain("/client.json");
  });

  test("registers instead, if the gateway cannot reach the Internet", async () => {
    const closed = await startGateway({ env: { POSTERN_CLIENT_DOCUMENTS: "off" } });
    const metadata = await fetch(`${closed.url}/.well-known/oauth-authorization-server/mcp`);
    expect(await metadata.json()).toMatchObject({ client_id_metadata_document_supported: false });
    const visitor = await createUser(closed, "visitor");
    const requests = files.requested.length;
    const query = new URLSearchParams({ client_id: `${files.url}/client.json` });
    const page = await visitPage(closed, `/mcp/authorize?${query.toString()}`, visitor);
    expect([page.status, textOf(page)]).toEqual([400, expect.stringContaining("not registered")]);
    expect(files.requested).toHaveLength(requests);
    await closed.stop();
  });

  test("uses only the redirect URIs of its document", async () => {
    for (const uri of ["http://127.0.0.1:5000/other", "https://evil.example/callback"]) {
      const page = await open(`${files.url}/client.json`, uri);
      expect([page.status, page.location]).toEqual([400, null]);
    }
    document = (url) =>
      Response.json({ ...metadataOf(url), redirect_uris: ["javascript:alert(1)"] });
    expect((await open(`${files.url}/client.json`, "javascript:alert(1)")).status).toBe(400);
  });

  test.each<[what: string, document: (url: URL) => Response]>([
    [
      "another client_id",
      (url) => Response.json({ ...metadataOf(url), client_id: "https://x.example/y" }),
    ],
    ["no name", (url) => Response.json({ ...metadataOf(url), client_name: undefined })],
    ["no redirect URIs", (url) => Response.json({ ...metadataOf(url), redirect_uris: [] })],
    ["a secret", (url) => Response.json({ ...metadataOf(url), client_secret: "x" })],
    ["no JSON", () => new Response(PROTECTED)],
    ["an error", () => new Response(PROTECTED, { status: 500 })],
    ["more than 64 KiB", (url) => Response.json({ ...metadataOf(url), x: "x".repeat(70_000) })],
  ])("is refused with %s, and nothing of the document is shown", async (_what, respond) => {
    document = respond;
    const page = await open(`${files.url}/client.json`);
    expect([page.status, page.location]).toEqual([400, null]);
    expect(page.text).not.toContain(PROTECTED);
    expect(page.text).not.toContain('name="request"');
  });

  test("is not fetched by way of a redirect", async () => {
    document = (url) =>
      url.pathname === "/client.json"
        ? Response.redirect(`${files.url}/moved.json`)
        : Response.json(metadataOf(new URL("/client.json", url)));
    expect((await open(`${files.url}/client.json`)).status).toBe(400);
    expect(files.requested).not.toContain("/moved.json");
  });

  test.each([
    "https://10.0.0.1/client.json",
    "https://169.254.169.254/latest/meta-data/",
    "https://[fd00::1]/client.json",
    "https://metadata.google.internal/client.json",
    "https://postgres/client.json",
    "https://gateway.local/client.json",
    "http://app.example/client.json",
    "https://app.example:5432/client.json",
    "https://user:password@app.example/client.json",
    "https://app.example/client.json#x",
    "https://app.example/",
    "https://app.example/a/../client.json",
    "HTTPS://app.example/client.json",
    "ftp://app.example/client.json",
  ])("is never fetched from %s", async (clientId) => {
    const page = await open(clientId);
    expect([page.status, page.location]).toEqual([400, null]);
    expect(textOf(page)).toMatch(/client_id|not registered here/);
  });

  test("says the same of a private host and of one that does not exist", async () => {
    const [first, second] = [
      await open("https://does-not-exist.invalid-name.example/client.json"),
      await open("https://localtest.invalid-name.example/client.json"),
    ].map((page) => textOf(page).replaceAll(/[\w-]+\.invalid-name\.example/g, "host"));
    expect(first).toContain("could not be read");
    expect(second).toBe(first ?? "");
  });
});
