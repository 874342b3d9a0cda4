// POST /mcp: the MCP server over Streamable HTTP. Each tool call is a request to a route of the HTTP API, which the gateway's
// own request handler runs in this process.

import { z } from "zod";
import { Fault } from "../base/fault.ts";
import { lazy } from "../base/lazy.ts";
import { MCP_PATH } from "../discovery/agents/mcp-card.ts";
import type { Peer } from "../http/request-context.ts";
import { publicRoute, type Route, type RouteInput } from "../http/route.ts";
import { rejectedMessage } from "./check-params.ts";
import { withNestedMeta } from "./machine-payments.ts";
import {
  keepNewAccount,
  type McpAccess,
  type McpAccessDeps,
  readAccess,
  SESSION_HEADER,
} from "./mcp-access.ts";
import type { McpConnection } from "./mcp-server.ts";

export interface McpRouteDeps extends McpAccessDeps {
  /** The gateway's request handler. */
  readonly handle: (request: Request, peer: Peer) => Promise<Response>;
  readonly version: string;
  /** Authenticates what clients carry between two requests of a tool call. */
  readonly stateKey: Uint8Array;
  /** The payment methods of a 402. */
  readonly paymentMethods: readonly string[];
}

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
      credential: "optionalKey",
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
      run: async (input) => {
        requireOwnOrigin(input.headers, baseUrl);
        const isSignInRequired = input.query.sign_in === "required";
        const access = await readAccess(deps, { ...input, isSignInRequired });
        const rejected = rejectedMessage(input.body);
        if (rejected !== undefined) return rejected;
        const serve = await load();
        const response = await serve(connectionOf(deps, access, input), messageOf(input, baseUrl));
        if (input.body.method === "initialize" && access.apiKey === undefined && response.ok)
          response.headers.set(SESSION_HEADER, deps.sessions.newId());
        return response;
      },
    }),
  ];
}

type Input = RouteInput<undefined, unknown, z.infer<typeof Message>, undefined>;

function messageOf({ headers, body, bodyText, request }: Input, baseUrl: string): Request {
  const nested = withNestedMeta(body);
  return new Request(`${baseUrl}${MCP_PATH}`, {
    method: "POST",
    headers,
    body: nested === undefined ? bodyText : JSON.stringify(nested),
    signal: request.signal,
  });
}

function connectionOf(
  deps: McpRouteDeps,
  access: McpAccess,
  { requestId, clientIp, now }: Input,
): McpConnection {
  const { apiKey, keyFault, signIn, sessionKey } = access;
  const peer = { address: () => clientIp, disableIdleTimeout: () => {}, sessionKey };
  return {
    requestId,
    apiKey,
    hasSessionKey: sessionKey !== undefined,
    keyFault,
    signIn,
    send: async (inner) => {
      const response = await deps.handle(inner, peer);
      await keepNewAccount(deps, access, { inner, response, now });
      return response;
    },
  };
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
