// Sends single messages of revision 2026-07-28, and of 2025-11-25, without an SDK.

import { call, type ApiResponse, type Json } from "../spec/api-client.ts";
import type { Gateway } from "../support/gateway.ts";

export const MODERN = "2026-07-28";
const ACCEPT = "application/json, text/event-stream";

export interface RawMessage {
  readonly method: string;
  readonly params?: Json;
  readonly key?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly revision?: string;
  /** Further fields of `_meta`. */
  readonly meta?: Json;
  readonly signal?: AbortSignal;
}

/** The headers follow from the message, unless `headers` replaces them. */
export function postModern(
  gateway: Pick<Gateway, "url">,
  { method, params = {}, key, headers = {}, revision = MODERN, meta = {}, signal }: RawMessage,
): Promise<ApiResponse> {
  const name = params["name"] ?? params["uri"];
  return call(gateway, "POST /mcp", {
    ...(key === undefined ? {} : { key }),
    ...(signal === undefined ? {} : { signal }),
    headers: {
      accept: ACCEPT,
      "mcp-protocol-version": revision,
      "mcp-method": method,
      ...(typeof name === "string" ? { "mcp-name": name } : {}),
      ...headers,
    },
    body: {
      jsonrpc: "2.0",
      id: 1,
      method,
      params: {
        ...params,
        _meta: {
          "io.modelcontextprotocol/protocolVersion": revision,
          "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
          "io.modelcontextprotocol/clientCapabilities": {},
          ...meta,
        },
      },
    },
  });
}

export function postLegacy(
  gateway: Pick<Gateway, "url">,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<ApiResponse> {
  return call(gateway, "POST /mcp", { headers: { accept: ACCEPT, ...headers }, body });
}
