// An authorization request (RFC 6749, section 4.1.1, with RFC 7636 and RFC 8707): its parameters, and what they ask for.

import { z } from "zod";
import { isCodeChallenge } from "../base/crypto/pkce.ts";
import {
  isListableScope,
  isScopeOfLimitedKeys,
  type ListableScope,
  MCP_SIGN_IN_SCOPES,
} from "../http/scopes.ts";
import type { McpClient, McpClients } from "./mcp-clients.ts";
import { isRegisteredRedirectUri } from "./redirect-uris.ts";

export const AUTHORIZE_PATH = "/mcp/authorize";
const STATE_MAX_CHARACTERS = 1_000;
const parameter = z.string().max(1_000).optional();

// RFC 6749: unknown parameters are ignored, and an empty one counts as omitted.
export const AuthorizeQuery = z.looseObject({
  response_type: parameter,
  client_id: z.string().max(2_048).optional(),
  redirect_uri: parameter,
  state: z.string().optional(),
  scope: z.string().optional(),
  resource: parameter,
  code_challenge: parameter,
  code_challenge_method: parameter,
});
export type AuthorizeQuery = Readonly<z.infer<typeof AuthorizeQuery>>;

export interface AuthorizationRequest {
  readonly clientId: string;
  readonly clientName: string;
  readonly clientHost: string | undefined;
  readonly redirectUri: string;
  readonly state: string | undefined;
  readonly resource: string;
  readonly codeChallenge: string;
  readonly scopes: readonly ListableScope[];
}

export interface RequestError {
  /** A code of RFC 6749, section 4.1.2.1, or of RFC 8707. */
  readonly error: string;
  readonly description: string;
  /** Where the client may be told; undefined if the redirect URI itself is not one of the client's. */
  readonly redirectUri: string | undefined;
  readonly state: string | undefined;
}

export async function readAuthorizationRequest(
  query: AuthorizeQuery,
  clients: McpClients,
  baseUrl: string,
): Promise<AuthorizationRequest | RequestError> {
  const unsafe = { redirectUri: undefined, state: undefined };
  const { client_id: clientId = "", redirect_uri: redirectUri = "", state } = query;
  const client = await clients.find(clientId);
  if (typeof client === "string")
    return { error: "invalid_client", description: client, ...unsafe };
  if (!isRegisteredRedirectUri(client.redirectUris, redirectUri))
    return {
      error: "invalid_request",
      description: `The \`redirect_uri\` is not one that ${client.name} registered.`,
      ...unsafe,
    };
  const problem = problemOf(query, baseUrl);
  if (problem !== undefined) return { ...problem, redirectUri, state: shortState(state) };
  return requestOf(query, client, { redirectUri, baseUrl });
}

function problemOf(
  query: AuthorizeQuery,
  baseUrl: string,
): Pick<RequestError, "error" | "description"> | undefined {
  const { response_type: type, code_challenge_method: method, code_challenge: challenge } = query;
  if (type !== "code")
    return { error: "unsupported_response_type", description: "`response_type` must be `code`." };
  if (method !== "S256" || !isCodeChallenge(challenge ?? ""))
    return {
      error: "invalid_request",
      description: "PKCE is required: send `code_challenge` with `code_challenge_method=S256`.",
    };
  if ((query.state ?? "").length > STATE_MAX_CHARACTERS)
    return {
      error: "invalid_request",
      description: `\`state\` can have at most ${STATE_MAX_CHARACTERS} characters.`,
    };
  if (resourceOf(query.resource, baseUrl) === undefined)
    return { error: "invalid_target", description: `\`resource\` must be ${baseUrl}/mcp.` };
  return undefined;
}

function requestOf(
  { state, scope, resource, code_challenge: codeChallenge = "" }: AuthorizeQuery,
  { id, name, host }: McpClient,
  { redirectUri, baseUrl }: { readonly redirectUri: string; readonly baseUrl: string },
): AuthorizationRequest {
  return {
    clientId: id,
    clientName: name,
    clientHost: host,
    redirectUri,
    state,
    resource: resourceOf(resource, baseUrl) ?? baseUrl,
    codeChallenge,
    scopes: scopesOf(scope),
  };
}

/** The MCP server, or the whole gateway, of which it is a part; undefined for any other. Clients of older revisions name none. */
export function resourceOf(resource: string | undefined, baseUrl: string): string | undefined {
  const mcp = `${baseUrl}/mcp`;
  if (resource === undefined || resource === "") return mcp;
  if (!URL.canParse(resource) || resource.includes("#")) return undefined;
  const { origin, pathname } = new URL(resource);
  const named = `${origin}${pathname}`.replace(/\/$/, "");
  return [mcp, baseUrl].find((known) => known === named);
}

/** The named scopes that a key with a limit can have; others are ignored, as RFC 6749, section 3.3 allows. */
function scopesOf(scope: string | undefined): readonly ListableScope[] {
  const named = (scope ?? "").split(" ").filter(isListableScope).filter(isScopeOfLimitedKeys);
  return named.length === 0 ? MCP_SIGN_IN_SCOPES : [...new Set(named)];
}

function shortState(state: string | undefined): string | undefined {
  return state === undefined || state.length > STATE_MAX_CHARACTERS ? undefined : state;
}
