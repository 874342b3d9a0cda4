// Calls a request handler of some routes directly, without a connection.

import type { createRequestHandler } from "../../src/http/request-handler.ts";

export interface ApiResponse {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly body: Readonly<Record<string, unknown>>;
}

export interface ApiRequest {
  /** Sent as the API key; "" for a request without one. */
  readonly caller: string;
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

export async function callRoutes(
  handle: ReturnType<typeof createRequestHandler>,
  { caller, method, path, body, headers }: ApiRequest,
): Promise<ApiResponse> {
  const request = new Request(`http://127.0.0.1:8787${path}`, {
    method,
    headers: {
      ...(caller === "" ? {} : { authorization: `Bearer ${caller}` }),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const response = await handle(request, {
    address: () => "127.0.0.1",
    disableIdleTimeout: () => {},
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, body: JSON.parse(text) };
}
