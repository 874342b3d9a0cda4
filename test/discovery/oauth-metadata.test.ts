import { describe, expect, test } from "bun:test";
import { processDiscoveryResponse } from "oauth4webapi";
import { claimRoutes, coreRoutes, sampleRoutes, settings } from "./sample-routes.ts";
import { createSite } from "./harness.ts";

const RESOURCE = "/.well-known/oauth-protected-resource";
const SERVER = "/.well-known/oauth-authorization-server";

async function read(site: ReturnType<typeof createSite>, path: string): Promise<unknown> {
  const answer = await site.get(path);
  expect(answer.headers.get("content-type")).toBe("application/json");
  return answer.json();
}

describe("the protected-resource metadata", () => {
  test("has exactly these fields, and `resource` is the base URL", async () => {
    expect(await read(createSite(sampleRoutes), RESOURCE)).toEqual({
      resource: settings.baseUrl,
      resource_name: "Postern",
      authorization_servers: [settings.baseUrl],
      bearer_methods_supported: ["header"],
      resource_documentation: settings.docsUrl,
    });
  });
});

describe("the authorization-server metadata", () => {
  test("names what is mounted, by the old and the new names of the fields", async () => {
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

  test("leaves out what is not mounted", async () => {
    const text = JSON.stringify(await read(createSite(coreRoutes), SERVER));
    expect(text).not.toMatch(/claim|token|grant/);
    expect(JSON.stringify(await read(createSite(claimRoutes), SERVER))).not.toContain(
      "register_uri",
    );
  });

  test("is read by an OAuth client that is not ours", async () => {
    const answer = await createSite(sampleRoutes).get(SERVER);
    const server = await processDiscoveryResponse(new URL(settings.baseUrl), answer);
    expect(server.token_endpoint).toBe(`${settings.baseUrl}/oauth2/token`);
  });
});

test("no metadata document has an empty array", async () => {
  for (const routes of [sampleRoutes, coreRoutes, []]) {
    const site = createSite(routes);
    for (const path of [RESOURCE, SERVER]) expect(await site.text(path)).not.toContain("[]");
  }
});
