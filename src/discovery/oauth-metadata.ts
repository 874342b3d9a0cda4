// OAuth metadata: of the protected resource (RFC 9728), to which a 401 points, and of the authorization server (RFC 8414)
// with the `agent_auth` block. Endpoints that are not mounted are left out.

import { isScopeOfLimitedKeys, SCOPE_NAMES } from "../http/scopes.ts";
import { claimGrantType, PRODUCT_NAME } from "./discovery-settings.ts";
import type { RouteKey, DocContext } from "./doc-context.ts";
import {
  START_CLAIM_ROUTE,
  CLAIM_TOKEN_ROUTE,
  DEVICE_AUTHORIZATION_ROUTE,
  DEVICE_TOKEN_ROUTE,
  MCP_REGISTER_ROUTE,
  MCP_TOKEN_ROUTE,
  REGISTER_ROUTE,
} from "./route-keys.ts";

type Metadata = Readonly<Record<string, unknown>>;

export function protectedResourceMetadata(context: DocContext): Metadata {
  const { settings } = context;
  return {
    resource: settings.baseUrl,
    resource_name: PRODUCT_NAME,
    authorization_servers: [settings.baseUrl],
    bearer_methods_supported: ["header"],
    scopes_supported: SCOPE_NAMES,
    resource_documentation: settings.docsUrl,
    ...(settings.privacyUrl === undefined ? {} : { resource_policy_uri: settings.privacyUrl }),
    ...(settings.termsUrl === undefined ? {} : { resource_tos_uri: settings.termsUrl }),
  };
}

/** There is no authorization endpoint and so no response types; RFC 8414 omits empty arrays. */
export function authorizationServerMetadata(context: DocContext): Metadata {
  const { settings } = context;
  const token = endpointUrl(context, CLAIM_TOKEN_ROUTE);
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
    agent_auth: agentAuthMetadata(context),
  };
}

/**
 * For programs that sign a person in with a browser. The metadata of a server have one token endpoint, and that of claims has
 * no other grant, so these programs get metadata of their own.
 */
export function deviceServerMetadata(context: DocContext): Metadata {
  const { settings } = context;
  const authorization = endpointUrl(context, DEVICE_AUTHORIZATION_ROUTE);
  return {
    issuer: settings.baseUrl,
    ...(authorization === undefined
      ? {}
      : {
          device_authorization_endpoint: authorization,
          token_endpoint: endpointUrl(context, DEVICE_TOKEN_ROUTE),
          token_endpoint_auth_methods_supported: ["none"],
          grant_types_supported: ["urn:ietf:params:oauth:grant-type:device_code"],
        }),
    service_documentation: settings.docsUrl,
    agent_auth: agentAuthMetadata(context),
  };
}

/**
 * For clients of the MCP server, which is an issuer of its own: metadata have one token endpoint. Undefined if no person can
 * sign in.
 */
export function mcpAuthorizationServerMetadata(context: DocContext): Metadata | undefined {
  const { baseUrl, docsUrl, hasClientDocuments = true } = context.settings;
  if (!context.isMounted(MCP_TOKEN_ROUTE)) return undefined;
  return {
    issuer: `${baseUrl}/mcp`,
    authorization_endpoint: `${baseUrl}/mcp/authorize`,
    token_endpoint: endpointUrl(context, MCP_TOKEN_ROUTE),
    registration_endpoint: endpointUrl(context, MCP_REGISTER_ROUTE),
    scopes_supported: SCOPE_NAMES.filter(isScopeOfLimitedKeys),
    response_types_supported: ["code"],
    response_modes_supported: ["query"],
    grant_types_supported: ["authorization_code"],
    token_endpoint_auth_methods_supported: ["none"],
    code_challenge_methods_supported: ["S256"],
    client_id_metadata_document_supported: hasClientDocuments,
    authorization_response_iss_parameter_supported: true,
    service_documentation: docsUrl,
  };
}

/** The fields of the auth.md protocol, with the names of its first version and of later ones. */
function agentAuthMetadata(context: DocContext): Metadata {
  const register = endpointUrl(context, REGISTER_ROUTE);
  const claim = endpointUrl(context, START_CLAIM_ROUTE);
  return {
    skill: `${context.settings.baseUrl}/auth.md`,
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

function endpointUrl(context: DocContext, routeKey: RouteKey): string | undefined {
  return context.isMounted(routeKey)
    ? `${context.settings.baseUrl}${routeKey.slice(routeKey.indexOf("/"))}`
    : undefined;
}
