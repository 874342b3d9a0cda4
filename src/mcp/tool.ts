// A tool of the MCP server: a name for a route of the HTTP API, with JSON schemas that derive from the route's own.

import type { Fault } from "../base/fault.ts";
import type { JsonObject } from "../base/json.ts";
import type { Method, Route } from "../http/route.ts";

export interface ToolAnnotations {
  readonly readOnlyHint: boolean;
  readonly destructiveHint: boolean;
  readonly idempotentHint: boolean;
  readonly openWorldHint: boolean;
}

export interface ToolCall {
  readonly args: JsonObject;
  /** The id of the request to the MCP server, for errors that have no request of their own. */
  readonly requestId: string;
  /** The raw key of the connection, if it sends one. */
  readonly apiKey: string | undefined;
  /** Whether the session has the key of an account that it created. */
  readonly hasSessionKey?: boolean;
  /** Why the key of the connection does not work. */
  readonly keyFault?: Fault | undefined;
  /** The challenge with which a client can sign in; undefined if no person can. */
  readonly signIn?: string | undefined;
  /** The payment of the request's `_meta`, as the value of `PAYMENT-SIGNATURE`. */
  readonly payment: string | undefined;
  /** The credential of a Machine Payment in `_meta`, as the value of `Authorization`. */
  readonly credential?: string | undefined;
  readonly signal: AbortSignal;
  /** Sends a request through the gateway's own request handler. */
  readonly send: (request: Request) => Promise<Response>;
  /** Undefined if the client did not ask for progress. */
  readonly onProgress: ((progress: number, message: string) => Promise<void>) | undefined;
}

export interface ToolResult {
  readonly content: { readonly type: "text"; readonly text: string }[];
  readonly structuredContent?: JsonObject;
  readonly isError?: true;
  readonly _meta?: JsonObject;
  /** The JSON error of the HTTP API. Not part of the result that is sent. */
  readonly body?: JsonObject | undefined;
}

/** What `tools/list` returns. */
export interface ToolListing {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly inputSchema: JsonObject & { readonly type: "object" };
  readonly outputSchema: JsonObject & { readonly type: "object" };
  readonly annotations: Partial<ToolAnnotations>;
}

export interface Tool {
  readonly listing: ToolListing;
  readonly method: Method;
  /** The path of the route, with its parameters in braces. */
  readonly path: string;
  readonly call: (call: ToolCall) => Promise<ToolResult>;
}

/** Everything that a tool needs to know about the gateway. */
export interface ToolContext {
  readonly baseUrl: string;
  /** The tool for a request of a `next` step, if there is one. */
  readonly toolFor: (method: string, url: string) => ToolForRequest | undefined;
  readonly isResource: (uri: string) => boolean;
  /** The tool that was called. */
  readonly called?: string;
}

interface ToolForRequest {
  readonly name: string;
  /** The arguments in the path and the query. */
  readonly arguments: JsonObject;
  /** Arguments whose fields have other names. */
  readonly names: Readonly<Record<string, string>>;
}

/** Arguments of every tool that are headers of the request, not fields. */
export const API_KEY_ARGUMENT = "api_key";
export const IDEMPOTENCY_ARGUMENT = "idempotency_key";

export function acceptsIdempotencyKey({ method, write, idempotent }: Route): boolean {
  return method === "POST" && (write !== undefined || idempotent === true);
}
