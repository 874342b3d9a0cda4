import { describe, expect, test } from "bun:test";
import { processDiscoveryResponse } from "oauth4webapi";
import { SCOPE_NAMES } from "../../src/http/scopes.ts";
import { createSite } from "./harness.ts";
import { claimRoutes, coreRoutes, sampleRoutes, settings } from "./sample-routes.ts";

const RESOURCE = "/.well-known/oauth-protected-resource";
const SERVER = "/.well-known/oauth-authorization-server";

async function read(site: ReturnType<typeof createSite>, path: string): Promise<unknown> {
  const response = await site.get(path);
  expect(response.headers.get("content-type")).toBe("application/json");
  return response.json();
}

describe("protected resource metadata", () => {
  test("has the base URL as its resource and authorization server", async () => {
    expect(await read(createSite(sampleRoutes), RESOURCE)).toEqual({
      resource: settings.baseUrl,
      resource_name: "Postern",
      authorization_servers: [settings.baseUrl],
      bearer_methods_supported: ["header"],
      scopes_supported: SCOPE_NAMES,
      resource_documentation: settings.docsUrl,
    });
  });
});

describe("authorization server metadata", () => {
  test("lists the mounted endpoints under the old and new field names", async () => {
    const base = settings.baseUrl;
    expect(await read(createSite(sampleRoutes), SERVER)).toEqual({
      issuer: base,
      token_endpoint: `${base}/oauth2/token`,
      token_endpoint_auth_methods_supported: ["none"],
      grant_types_supported: ["urn:acme:agent-auth:grant-type:claim"],
      service_documentation: settings.docsUrl,
      agent_auth: {
        skill: `${base}/auth.md`,
        register_uri: `${base}/v1/accounts`,
        identity_endpoint: `${base}/v1/accounts`,
        identity_types_supported: ["anonymous"],
        credential_types_supported: ["api_key"],
        anonymous: { credential_types_supported: ["api_key"] },
        claim_uri: `${base}/agent/identity/claim`,
        claim_endpoint: `${base}/agent/identity/claim`,
      },
    });
  });

  test("leaves out endpoints that are not mounted", async () => {
    const text = JSON.stringify(await read(createSite(coreRoutes), SERVER));
    expect(text).not.toMatch(/claim|token|grant/);
    expect(JSON.stringify(await read(createSite(claimRoutes), SERVER))).not.toContain(
      "register_uri",
    );
  });

  test("is accepted by an independent OAuth client", async () => {
    const response = await createSite(sampleRoutes).get(SERVER);
    const server = await processDiscoveryResponse(new URL(settings.baseUrl), response);
    expect(server.token_endpoint).toBe(`${settings.baseUrl}/oauth2/token`);
  });
});

test("metadata documents have no empty arrays", async () => {
  for (const routes of [sampleRoutes, coreRoutes, []]) {
    const site = createSite(routes);
    for (const path of [RESOURCE, SERVER]) expect(await site.text(path)).not.toContain("[]");
  }
});
