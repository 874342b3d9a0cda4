// JSON over HTTP, with time and size limits, for the facilitator and the RPC node. Their URLs can contain an API key
// and errors are logged, so no error of this file contains the URL.

import { parseJson } from "../../base/json.ts";
import { readBoundedBytes } from "../../base/streams/bounded-body.ts";

interface JsonRead {
  readonly headers?: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly responseMaxBytes: number;
}

export interface JsonRequest extends JsonRead {
  readonly body: unknown;
}

export interface JsonResponse {
  readonly status: number;
  /** Undefined if the body is not JSON. */
  readonly body: unknown;
}

export function postJson(
  url: string,
  { body, headers = {}, ...request }: JsonRequest,
): Promise<JsonResponse> {
  const json = { headers: { "content-type": "application/json", ...headers }, ...request };
  return readJson(url, json, { method: "POST", body: JSON.stringify(body) });
}

export function getJson(url: string, request: JsonRead): Promise<JsonResponse> {
  return readJson(url, request, { method: "GET" });
}

async function readJson(
  url: string,
  request: JsonRead,
  init: Pick<RequestInit, "method" | "body">,
): Promise<JsonResponse> {
  const { responseMaxBytes } = request;
  const { status, bytes } = await sendRequest(url, request, init).catch((error: unknown) => {
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
  { headers = {}, timeoutMs, responseMaxBytes }: JsonRead,
  init: Pick<RequestInit, "method" | "body">,
): Promise<{ readonly status: number; readonly bytes: Uint8Array | undefined }> {
  const response = await fetch(url, {
    ...init,
    headers,
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
