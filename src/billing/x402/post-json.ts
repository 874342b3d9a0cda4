// JSON over HTTP POST, with time and size limits, for the facilitator and the RPC node. Their URLs can contain an API key
// and errors are logged, so no error of this file contains the URL.

import { parseJson } from "../../base/json.ts";
import { readBoundedBytes } from "../../base/streams/bounded-body.ts";

export interface JsonRequest {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: unknown;
  readonly timeoutMs: number;
  readonly responseMaxBytes: number;
}

export interface JsonResponse {
  readonly status: number;
  /** Undefined if the body is not JSON. */
  readonly body: unknown;
}

export async function postJson(url: string, request: JsonRequest): Promise<JsonResponse> {
  const { responseMaxBytes } = request;
  const { status, bytes } = await sendRequest(url, request).catch((error: unknown) => {
    throw redactUrl(error);
  });
  if (bytes === undefined)
    throw Object.assign(new Error(`the response is larger than ${responseMaxBytes} bytes`), {
      name: "ResponseTooLarge",
    });
  return { status, body: parseJson(new TextDecoder().decode(bytes)) };
}

async function sendRequest(
  url: string,
  { headers, body, timeoutMs, responseMaxBytes }: JsonRequest,
): Promise<{ readonly status: number; readonly bytes: Uint8Array | undefined }> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
    redirect: "error",
    signal: AbortSignal.timeout(timeoutMs),
  });
  return {
    status: response.status,
    bytes: await readBoundedBytes(response.body, responseMaxBytes),
  };
}

/** The runtime's error messages contain the URL, so only the error's name and code are kept. */
function redactUrl(error: unknown): Error {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  const suffix = typeof code === "string" && /^\w+$/.test(code) ? `: ${code}` : "";
  return Object.assign(new Error(`the request failed${suffix}`), {
    name: error instanceof Error ? error.name : "Error",
  });
}
