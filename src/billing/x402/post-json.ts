// How others are asked about x402 payments, the facilitator and the node: JSON to JSON, within limits of time and size.
// Their addresses may hold a key, and what goes wrong is logged: no error of this file says the address.

import { readBoundedBytes } from "../../base/streams/bounded-body.ts";

export interface JsonRequest {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: unknown;
  readonly timeoutMs: number;
  readonly responseMaxBytes: number;
}

export interface JsonResponse {
  readonly status: number;
  /** Undefined where it is no JSON. */
  readonly body: unknown;
}

export async function postJson(url: string, request: JsonRequest): Promise<JsonResponse> {
  const { responseMaxBytes } = request;
  const { status, bytes } = await sendRequest(url, request).catch((error: unknown) => {
    throw redactUrl(error);
  });
  if (bytes === undefined)
    throw Object.assign(new Error(`the answer has more than ${responseMaxBytes} bytes`), {
      name: "AnswerTooLarge",
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

/** The runtime's own errors name the address: nothing of them is kept but of what kind they are. */
function redactUrl(error: unknown): Error {
  const kind = error instanceof Error && "code" in error ? error.code : undefined;
  const shown = typeof kind === "string" && /^\w+$/.test(kind) ? `: ${kind}` : "";
  return Object.assign(new Error(`the request failed${shown}`), {
    name: error instanceof Error ? error.name : "Error",
  });
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
