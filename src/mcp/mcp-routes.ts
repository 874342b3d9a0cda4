// POST /mcp: the MCP server over Streamable HTTP. Each tool call is a request to a route of the HTTP API, which the gateway's
// own request handler runs in this process.

import { z } from "zod";
import { Fault } from "../base/fault.ts";
import { parseObject, stringIn } from "../base/json.ts";
import { lazy } from "../base/lazy.ts";
import { MCP_PATH, MCP_RESOURCE_METADATA_PATH } from "../discovery/agents/mcp-card.ts";
import type { Peer } from "../http/request-context.ts";
import { readApiKey } from "../http/request/api-key-header.ts";
import { type AuthenticatedKey, publicRoute, type Route } from "../http/route.ts";
import { MCP_SIGN_IN_SCOPES } from "../http/scopes.ts";
import { type KeyRejection, rejectedKeyFault } from "../http/steps/authenticate.ts";
import type { Db } from "../store/db.ts";
import { rejectedMessage } from "./check-params.ts";
import { withNestedMeta } from "./machine-payments.ts";
import type { McpConnection } from "./mcp-server.ts";
import type { McpSessions } from "./mcp-sessions.ts";

export interface McpRouteDeps {
  /** The gateway's request handler. */
  readonly handle: (request: Request, peer: Peer) => Promise<Response>;
  /** Why a key that is not live is rejected. */
  readonly explainRejectedKey: (rawKey: string, now: number) => Promise<KeyRejection | undefined>;
  readonly db: Db;
  readonly sessions: McpSessions;
  /** Undefined if the key no longer works. */
  readonly findKeyById: (id: string, now: number) => Promise<AuthenticatedKey | undefined>;
  readonly findKey: (rawKey: string, now: number) => Promise<AuthenticatedKey | undefined>;
  /** True without an identity provider: no person could sign in. */
  readonly isSignInDisabled: boolean;
  readonly baseUrl: string;
  readonly version: string;
  /** The payment methods of a 402. */
  readonly paymentMethods: readonly string[];
}

const ACCOUNTS_PATH = "/v1/accounts";
/** Larger conversations go to the HTTP API. */
const MESSAGE_MAX_BYTES = 4 * 1_048_576;

/** A request or a notification. */
const Message = z.looseObject({
  jsonrpc: z.literal("2.0"),
  id: z.union([z.string(), z.number()]).optional(),
  method: z.string(),
  params: z.looseObject({}).optional(),
});

const SignInQuery = z.object({
  sign_in: z.enum(["required"]).optional().meta({
    description:
      "`required`: a request without a key is a 401, so that clients sign a person in when they connect.",
  }),
});

const Reply = z.looseObject({
  jsonrpc: z.literal("2.0"),
  id: z.union([z.string(), z.number()]).optional(),
  result: z.looseObject({}).optional(),
  error: z.looseObject({ code: z.int(), message: z.string() }).optional(),
});

/** `routes` returns the routes of all modules, the documents included. */
export function mcpRoutes(deps: McpRouteDeps, routes: () => readonly Route[]): readonly Route[] {
  const { baseUrl } = deps;
  // Loaded on the first request, to keep startup fast.
  const load = lazy(async () => {
    const { createTools } = await import("./tools.ts");
    const { loadMcpDeps, serveMcp } = await import("./mcp-server.ts");
    const mcpDeps = await loadMcpDeps(routes(), createTools(routes(), baseUrl), deps);
    return (connection: McpConnection, message: Request) => serveMcp(mcpDeps, connection, message);
  });
  return [
    publicRoute({
      method: "POST",
      path: MCP_PATH,
      id: "callMcp",
      tag: "Agents",
      summary: "Call the MCP server",
      description:
        "The Model Context Protocol over Streamable HTTP: revisions 2026-07-28 and 2025-11-25, and `initialize` of older clients, whose session uses the account that it creates. Send the API key as `authorization: Bearer <API_KEY>`, or sign in (`/.well-known/oauth-authorization-server/mcp`); `create_account`, `list_models` and the resources need none. Requests from web pages of other origins are refused.",
      dialect: "jsonrpc",
      query: SignInQuery,
      body: Message,
      isLongRunning: true,
      bodyLimitBytes: MESSAGE_MAX_BYTES,
      requestExample: {
        jsonrpc: "2.0",
        id: 1,
        method: "tools/call",
        params: { name: "list_models", arguments: { available: "true" } },
      },
      responses: {
        200: {
          description: "The JSON-RPC response, alone or at the end of a stream of notifications.",
          schema: Reply,
          example: { jsonrpc: "2.0", id: 1, result: { content: [{ type: "text", text: "…" }] } },
          alternatives: [{ contentType: "text/event-stream" }],
        },
        202: { description: "A notification was received." },
      },
      faults: ["forbidden", "invalid_api_key", "not_found", "invalid_request"],
      run: async ({ request, headers, query, body, bodyText, clientIp, now, requestId }) => {
        requireOwnOrigin(headers, baseUrl);
        const { apiKey, keyFault } = await checkKey(deps, headers, now);
        // Without a sign-in, a 401 would send clients on a search for an authorization server. The tools say what is wrong.
        const isRefused = keyFault !== undefined || query.sign_in === "required";
        if (isRefused && apiKey === undefined && !deps.isSignInDisabled)
          throw keyFault ?? signInFault(baseUrl);
        const rejected = rejectedMessage(body);
        if (rejected !== undefined) return rejected;
        const sessionId = headers.get(SESSION_HEADER) ?? undefined;
        const sessionKey =
          apiKey === undefined ? await findSessionKey(deps, sessionId, now) : undefined;
        const peer = { address: () => clientIp, disableIdleTimeout: () => {}, sessionKey };
        const nested = withNestedMeta(body);
        const message = new Request(`${baseUrl}${MCP_PATH}`, {
          method: "POST",
          headers,
          body: nested === undefined ? bodyText : JSON.stringify(nested),
          signal: request.signal,
        });
        const connection = {
          requestId,
          apiKey,
          hasSessionKey: sessionKey !== undefined,
          keyFault,
          signIn: deps.isSignInDisabled ? undefined : challengeOf(baseUrl),
          send: async (inner: Request) => {
            const response = await deps.handle(inner, peer);
            if (sessionId !== undefined && apiKey === undefined && isNewAccount(inner, response))
              await keepNewAccount(deps, sessionId, response.clone(), now);
            return response;
          },
        };
        const serve = await load();
        const response = await serve(connection, message);
        if (body.method === "initialize" && apiKey === undefined && response.ok)
          response.headers.set(SESSION_HEADER, deps.sessions.newId());
        return response;
      },
    }),
  ];
}

/** A page of another site, or one that DNS rebinding moved here, must not use a gateway on the visitor's own network. */
function requireOwnOrigin(headers: Headers, baseUrl: string): void {
  const origin = headers.get("origin");
  if (origin === null || origin === new URL(baseUrl).origin) return;
  throw new Fault("forbidden", `foreign origin ${origin}`, {
    message: "Web pages of other origins cannot use the MCP server. Send no `origin` header.",
    next: [{ method: "GET", url: "/auth.md", why: "Use the HTTP API, which allows every origin." }],
  });
}

const SESSION_HEADER = "mcp-session-id";

async function findSessionKey(
  { db, sessions, findKeyById }: McpRouteDeps,
  sessionId: string | undefined,
  now: number,
): Promise<AuthenticatedKey | undefined> {
  const keyId = sessionId === undefined ? undefined : await sessions.findKeyId(db, sessionId, now);
  return keyId === undefined ? undefined : await findKeyById(keyId, now);
}

function isNewAccount({ method, url }: Request, { status }: Response): boolean {
  return status === 201 && method === "POST" && new URL(url).pathname === ACCOUNTS_PATH;
}

/** The session uses the account that it created from its next request on. */
async function keepNewAccount(
  { db, sessions, findKey }: McpRouteDeps,
  sessionId: string,
  response: Response,
  now: number,
): Promise<void> {
  const rawKey = stringIn(parseObject(await response.text())?.["api_key"]);
  const key = rawKey === undefined ? undefined : await findKey(rawKey, now);
  if (key !== undefined) await db.write((tx) => sessions.keep(tx, sessionId, key.keyId, now));
}

interface CheckedKey {
  readonly apiKey?: string | undefined;
  /** Why the key that was sent does not work. */
  readonly keyFault?: Fault;
}

async function checkKey(deps: McpRouteDeps, headers: Headers, now: number): Promise<CheckedKey> {
  const apiKey = readApiKey(headers, "openai");
  if (apiKey === undefined || (await deps.findKey(apiKey, now)) !== undefined) return { apiKey };
  const challenge = challengeOf(deps.baseUrl, 'error="invalid_token"');
  const sent = deps.isSignInDisabled ? {} : { "www-authenticate": challenge };
  return { keyFault: await rejectedKeyFault(deps.explainRejectedKey, apiKey, now, sent) };
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
