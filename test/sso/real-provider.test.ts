// Single sign-on with oidc-provider, a certified OpenID Connect provider, and the requests that are sent to an issuer.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { Provider } from "oidc-provider";
import { createPublicFetch } from "../../src/base/network/public-fetch.ts";
import { createHttpBrowser } from "../support/browser/http-browser.ts";
import { type SsoFixture, startSsoFixture } from "./sso-fixture.ts";

const CLIENT = { id: "postern", secret: "a secret: of / the + client" };

let fixture: SsoFixture;
let server: Server;
beforeAll(async () => {
  fixture = await startSsoFixture();
  server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
afterAll(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await fixture.close();
});

test("signs in with oidc-provider: PKCE, client secret, and the email from userinfo", async () => {
  const { gateway } = fixture;
  const workspace = await fixture.newWorkspace();
  await workspace.verify("acme.example");
  const id = workspace.account.id;
  // Safe because a listening TCP server has such an address.
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: CLIENT.id,
        client_secret: CLIENT.secret,
        redirect_uris: [`${gateway.url}/signin/sso/${id}/callback`],
        grant_types: ["authorization_code"],
        response_types: ["code"],
      },
    ],
    pkce: { required: () => true },
    claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name"] },
    findAccount: (_context, subject) => ({
      accountId: subject,
      claims: () => ({
        sub: subject,
        email: `${subject}@acme.example`,
        email_verified: true,
        name: "Ada",
      }),
    }),
  });
  server.on("request", provider.callback());
  const saved = await workspace.change({
    do: "save",
    issuer,
    client_id: CLIENT.id,
    client_secret: CLIENT.secret,
    default_role: "viewer",
  });
  expect(saved.status).toBe(303);
  const browser = createHttpBrowser();
  const login = await browser.visit(`${gateway.url}/signin/sso/${id}`);
  const consent = await browser.submit(login, { login: "ada", password: "any" });
  const page = await browser.submit(consent, {});
  expect([page.status, page.url.pathname]).toEqual([200, `/console/${id}`]);
  expect(page.text).toContain("ada@acme.example");
});

describe("requests to an issuer", () => {
  const fetchPublic = createPublicFetch({
    allowLoopback: false,
    resolve: (name) => Promise.resolve(name === "rebound.example" ? ["10.0.0.7"] : ["127.0.0.1"]),
  });

  test.each([
    "http://idp.example/token",
    "https://127.0.0.1/token",
    "https://169.254.169.254/latest/meta-data",
    "https://idp.internal/jwks",
    "https://idp.example:22/jwks",
    "https://rebound.example/token",
    "https://resolves-to-loopback.example/token",
  ])("do not go to %s, whatever its discovery document says", async (url) => {
    const request = fetchPublic(url, { method: "POST", body: new URLSearchParams({ a: "b" }) });
    expect(
      await request.then(
        () => "sent",
        () => "refused",
      ),
    ).toBe("refused");
  });
});
