// Authorization codes at the token endpoint of the development identity provider: a code is redeemed once, by its client, with
// the redirect URI and the verifier of its request (RFC 6749 §4.1.3, RFC 7636 §4.6).

import { afterAll, describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { startDevIdentity } from "../../src/people/dev-identity.ts";
import { createHttpBrowser } from "../support/browser/http-browser.ts";

const VERIFIER = "v".repeat(43);
const CHALLENGE = createHash("sha256").update(VERIFIER).digest("base64url");

let printedLine = "";
/** The query of the last redirect to the gateway. */
let returned = new URLSearchParams();
const gateway = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  fetch: ({ url }) => {
    returned = new URL(url).searchParams;
    return new Response("signed in");
  },
});
const base = `http://127.0.0.1:${gateway.port}`;
const CALLBACK = `${base}/signin/callback`;

const print = (line: string) => void (printedLine = line);
const identity = await startDevIdentity({ baseUrl: base, port: 0, print });
afterAll(async () => {
  await identity.close();
  await gateway.stop(true);
});

/** Signs a person in, and returns the code that the gateway got. */
async function newCode(): Promise<string> {
  const query = new URLSearchParams({
    client_id: identity.settings.clientId,
    response_type: "code",
    scope: "openid email",
    redirect_uri: CALLBACK,
    state: "s".repeat(43),
    code_challenge: CHALLENGE,
    code_challenge_method: "S256",
  });
  const browser = createHttpBrowser();
  const page = await browser.visit(`${identity.settings.issuer}/auth?${query.toString()}`);
  const asked = await browser.submit(page, { email: "you@example.com" });
  await browser.submit(asked, { code: printedLine.slice(-6) });
  return returned.get("code") ?? "";
}

async function redeem(code: string, change: Readonly<Record<string, string | undefined>> = {}) {
  const { issuer, clientId, clientSecret } = identity.settings;
  const fields = Object.entries({
    grant_type: "authorization_code",
    client_id: clientId,
    client_secret: clientSecret?.reveal(),
    redirect_uri: CALLBACK,
    code_verifier: VERIFIER,
    code,
    ...change,
  }).filter((entry): entry is [string, string] => entry[1] !== undefined);
  const { client_id = "", client_secret = "", ...body } = Object.fromEntries(fields);
  const response = await fetch(`${issuer}/token`, {
    method: "POST",
    headers: { authorization: `Basic ${btoa(`${client_id}:${client_secret}`)}` },
    body: new URLSearchParams(body),
  });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

describe("the token endpoint of the development identity provider", () => {
  test("redeems a code with the redirect URI and the verifier of its request", async () => {
    const { status, body } = await redeem(await newCode());
    expect(status).toBe(200);
    expect(body["id_token"]).toBeString();
  });

  test.each([
    ["the operator's callback, which is registered too", `${base}/operator/signin/callback`],
    ["another host", "https://evil.example/signin/callback"],
    ["another port", "http://127.0.0.1:1/signin/callback"],
    ["a slash at the end", `${CALLBACK}/`],
    ["a query", `${CALLBACK}?next=1`],
    ["another case", `${base}/Signin/Callback`],
    ["an encoded path", `${base}/signin%2Fcallback`],
    ["none", undefined],
  ])("rejects a redirect URI: %s", async (_, redirectUri) => {
    const { status, body } = await redeem(await newCode(), { redirect_uri: redirectUri });
    expect(status).toBe(400);
    expect(body["error"]).toBeOneOf(["invalid_grant", "invalid_request"]);
    expect(body).not.toHaveProperty("id_token");
  });

  test.each([
    ["another verifier", { code_verifier: "w".repeat(43) }, 400, "invalid_grant"],
    ["the challenge as the verifier", { code_verifier: CHALLENGE }, 400, "invalid_grant"],
    ["no verifier", { code_verifier: undefined }, 400, "invalid_grant"],
    ["another secret", { client_secret: "x".repeat(43) }, 401, "invalid_client"],
    ["another client", { client_id: "other" }, 401, "invalid_client"],
    ["another grant type", { grant_type: "client_credentials" }, 400, "unsupported_grant_type"],
  ] as const)("rejects %s", async (_, change, status, error) => {
    const response = await redeem(await newCode(), change);
    expect(response.status).toBe(status);
    expect(response.body).toMatchObject({ error });
    expect(response.body).not.toHaveProperty("id_token");
  });

  test("rejects a code that was redeemed, and one that never was issued", async () => {
    const code = await newCode();
    expect((await redeem(code)).status).toBe(200);
    for (const used of [code, `${code}x`, "x".repeat(43)])
      expect(await redeem(used)).toMatchObject({ status: 400, body: { error: "invalid_grant" } });
  });
});
