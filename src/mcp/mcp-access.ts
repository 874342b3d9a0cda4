// With which key a message to /mcp may call tools: that of the connection, or of the account that its session created. Says what
// a client can do without one.

import { Fault } from "../base/fault.ts";
import { parseObject, stringIn } from "../base/json.ts";
import { MCP_RESOURCE_METADATA_PATH } from "../discovery/agents/mcp-card.ts";
import { readApiKey } from "../http/request/api-key-header.ts";
import { hashOfBody } from "../http/request/body-hash.ts";
import type { AuthenticatedKey } from "../http/route.ts";
import { MCP_SIGN_IN_SCOPES } from "../http/scopes.ts";
import {
  type KeyRejection,
  rejectedKeyFault,
  type SignedRequestDeps,
} from "../http/steps/authenticate.ts";
import type { Db } from "../store/db.ts";
import type { McpSessions } from "./mcp-sessions.ts";

export const SESSION_HEADER = "mcp-session-id";
const ACCOUNTS_PATH = "/v1/accounts";

export interface McpAccessDeps {
  readonly db: Db;
  readonly sessions: McpSessions;
  readonly findKey: (rawKey: string, now: number) => Promise<AuthenticatedKey | undefined>;
  readonly signedRequests: SignedRequestDeps;
  /** Undefined if the key no longer works. */
  readonly findKeyById: (id: string, now: number) => Promise<AuthenticatedKey | undefined>;
  /** Why a key that is not live is rejected. */
  readonly explainRejectedKey: (rawKey: string, now: number) => Promise<KeyRejection | undefined>;
  /** True without an identity provider: no person could sign in. */
  readonly isSignInDisabled: boolean;
  readonly baseUrl: string;
}

export interface McpAccess {
  readonly apiKey: string | undefined;
  readonly sessionId: string | undefined;
  readonly sessionKey: AuthenticatedKey | undefined;
  /** Why the key that was sent does not work. */
  readonly keyFault: Fault | undefined;
  /** The challenge with which a client can sign in; undefined if no person can. */
  readonly signIn: string | undefined;
}

interface AccessRequest {
  readonly request: Request;
  readonly headers: Headers;
  readonly bodyText: string;
  readonly isSignInRequired: boolean;
  readonly now: number;
}

/** Without a sign-in, a 401 would send clients on a search for an authorization server, so the tools say what is wrong. */
export async function readAccess(
  deps: McpAccessDeps,
  { request, headers, bodyText, isSignInRequired, now }: AccessRequest,
): Promise<McpAccess> {
  const { baseUrl, isSignInDisabled } = deps;
  const sent = readApiKey({ headers }, "openai");
  const signer =
    sent === undefined ? await findSigner(deps, { request, headers, bodyText, now }) : undefined;
  const isLive = sent !== undefined && (await deps.findKey(sent, now)) !== undefined;
  const keyFault = sent === undefined || isLive ? undefined : await rejection(deps, sent, now);
  if (keyFault !== undefined && !isSignInDisabled) throw keyFault;
  const isAnonymous = sent === undefined && signer === undefined;
  if (isAnonymous && isSignInRequired && !isSignInDisabled) throw signInFault(baseUrl);
  const sessionId = headers.get(SESSION_HEADER) ?? undefined;
  return {
    apiKey: isLive ? sent : undefined,
    sessionId,
    sessionKey: isAnonymous ? await findSessionKey(deps, sessionId, now) : signer,
    keyFault,
    signIn: isSignInDisabled ? undefined : challengeOf(baseUrl),
  };
}

/** The key of a signed message: its tools are called with it, as with that of a session. */
async function findSigner(
  { signedRequests: { findCaller, requireContentDigest } }: McpAccessDeps,
  { request, headers, bodyText, now }: Omit<AccessRequest, "isSignInRequired">,
): Promise<AuthenticatedKey | undefined> {
  if (!headers.has("signature-input")) return undefined;
  const { pathname: path, search } = new URL(request.url);
  const signed = { method: request.method, path, query: search.slice(1), headers };
  const caller = await findCaller(signed, now, "cache");
  if (caller !== undefined)
    requireContentDigest(caller.contentDigest, hashOfBody(Buffer.from(bodyText)));
  return caller?.key;
}

async function rejection(deps: McpAccessDeps, sent: string, now: number): Promise<Fault> {
  const challenge = challengeOf(deps.baseUrl, 'error="invalid_token"');
  const headers = deps.isSignInDisabled ? {} : { "www-authenticate": challenge };
  return await rejectedKeyFault(deps.explainRejectedKey, sent, now, headers);
}

async function findSessionKey(
  { db, sessions, findKeyById }: McpAccessDeps,
  sessionId: string | undefined,
  now: number,
): Promise<AuthenticatedKey | undefined> {
  const keyId = sessionId === undefined ? undefined : await sessions.findKeyId(db, sessionId, now);
  return keyId === undefined ? undefined : await findKeyById(keyId, now);
}

interface Answered {
  readonly inner: Request;
  readonly response: Response;
  readonly now: number;
}

/** The session uses the account that it created from its next request on. */
export async function keepNewAccount(
  { db, sessions, findKey }: McpAccessDeps,
  { apiKey, sessionId, keyFault }: McpAccess,
  { inner: { method, url }, response, now }: Answered,
): Promise<void> {
  if (sessionId === undefined || apiKey !== undefined || keyFault !== undefined) return;
  const isCreation = method === "POST" && new URL(url).pathname === ACCOUNTS_PATH;
  if (!isCreation || response.status !== 201) return;
  const rawKey = stringIn(parseObject(await response.clone().text())?.["api_key"]);
  const key = rawKey === undefined ? undefined : await findKey(rawKey, now);
  if (key !== undefined) await db.write((tx) => sessions.keep(tx, sessionId, key.keyId, now));
}

function signInFault(baseUrl: string): Fault {
  return new Fault("invalid_api_key", "sign-in required by the URL", {
    message: `This URL asks MCP clients to sign in. Sign in with your client, or leave out \`?sign_in=required\` and call create_account.`,
    headers: { "www-authenticate": challengeOf(baseUrl) },
  });
}

/** RFC 6750, section 3, with RFC 9728, section 5.1. The scopes are those that clients then ask for. */
function challengeOf(baseUrl: string, error?: string): string {
  const metadata = `resource_metadata="${baseUrl}${MCP_RESOURCE_METADATA_PATH}"`;
  const scope = `scope="${MCP_SIGN_IN_SCOPES.join(" ")}"`;
  return `Bearer ${[error, metadata, scope].filter((part) => part !== undefined).join(", ")}`;
}
