// The two metadata documents of OAuth that an agent meets: RFC 9728's for the resource, which a 401 points to, and
// RFC 8414's for the authorization server, with the `agent_auth` block. Only what is mounted is named.

import { CLAIM_START, CLAIM_TOKEN, REGISTER } from "./addresses.ts";
import type { Address, Desk } from "./desk.ts";
import { claimGrantType, NAME } from "./settings.ts";

type Metadata = Readonly<Record<string, unknown>>;

export function protectedResource(desk: Desk): Metadata {
  const { settings } = desk;
  return {
    resource: settings.baseUrl,
    resource_name: NAME,
    authorization_servers: [settings.baseUrl],
    bearer_methods_supported: ["header"],
    resource_documentation: settings.docsUrl,
    ...(settings.privacyUrl === undefined ? {} : { resource_policy_uri: settings.privacyUrl }),
    ...(settings.termsUrl === undefined ? {} : { resource_tos_uri: settings.termsUrl }),
  };
}

/** Without an authorization endpoint there are no response types; RFC 8414 leaves out what has no elements. */
export function authorizationServer(desk: Desk): Metadata {
  const { settings } = desk;
  const token = urlOf(desk, CLAIM_TOKEN);
  return {
    issuer: settings.baseUrl,
    ...(token === undefined
      ? {}
      : {
          token_endpoint: token,
          token_endpoint_auth_methods_supported: ["none"],
          grant_types_supported: [claimGrantType(settings)],
        }),
    service_documentation: settings.docsUrl,
    agent_auth: agentAuth(desk),
  };
}

/** The names of the auth.md protocol, those of its first version and those of the later ones. */
function agentAuth(desk: Desk): Metadata {
  const register = urlOf(desk, REGISTER);
  const claim = urlOf(desk, CLAIM_START);
  return {
    skill: `${desk.settings.baseUrl}/auth.md`,
    ...(register === undefined
      ? {}
      : {
          register_uri: register,
          identity_endpoint: register,
          identity_types_supported: ["anonymous"],
          credential_types_supported: ["api_key"],
          anonymous: { credential_types_supported: ["api_key"] },
        }),
    ...(claim === undefined ? {} : { claim_uri: claim, claim_endpoint: claim }),
  };
}

function urlOf(desk: Desk, address: Address): string | undefined {
  return desk.has(address)
    ? `${desk.settings.baseUrl}${address.slice(address.indexOf("/"))}`
    : undefined;
}
