// Builds a request to a provider, and chooses how it is sent: as it is, signed, or to the bundled simulator.

import {
  toAbortSignal,
  type OutgoingRequest,
  type Send,
  fromFetchResponse,
} from "@postern/http-client";
import type { Authorizer } from "../providers/authorizer.ts";
import type { Credential } from "../providers/credentials.ts";
import type { UpstreamWire } from "../providers/providers.ts";
import type { ForwardedHeaders } from "../request/forwarded-headers.ts";
import { requestHeaders } from "./request-headers.ts";

export interface UpstreamRequest {
  readonly wire: UpstreamWire;
  /** What follows the wire's path, for wires that name the model in it. */
  readonly path?: string | undefined;
  readonly body: string;
  readonly forwardedHeaders: ForwardedHeaders;
}

export function outgoingRequest(
  credential: Credential,
  { wire, path = "", body, forwardedHeaders }: UpstreamRequest,
  { signal, onSend }: Pick<OutgoingRequest, "signal" | "onSend">,
): OutgoingRequest {
  const { provider, baseUrl } = credential;
  const wirePath = provider.paths[wire];
  if (wirePath === undefined) throw new Error(`${provider.id} has no path for ${wire}`);
  return {
    url: baseUrl + wirePath + path,
    headers: requestHeaders(credential, wire, forwardedHeaders),
    body,
    signal,
    onSend,
  };
}

export function senderFor({ authorizer, inProcess }: Credential, sendHttp: Send): Send {
  if (authorizer !== undefined) return (outgoing) => sendSigned(outgoing, authorizer, sendHttp);
  if (inProcess !== undefined) return (outgoing) => sendInProcess(outgoing, inProcess);
  return sendHttp;
}

async function sendSigned(
  outgoing: OutgoingRequest,
  authorizer: Authorizer,
  sendHttp: Send,
): ReturnType<Send> {
  const { url, body, headers } = outgoing;
  const signed = await authorizer.sign({ url, method: "POST", body });
  if (signed.kind === "rejected") return fromFetchResponse(signed.response);
  const reply = await sendHttp({ ...outgoing, headers: { ...headers, ...signed.headers } });
  if (reply.status === 401 || reply.status === 403) authorizer.onRejected();
  return reply;
}

// Without a connection to close, the signal must end both the wait for the response and its body.
async function sendInProcess(
  { url, headers, body, signal: abortSignal, onSend }: OutgoingRequest,
  handle: (request: Request) => Promise<Response>,
): ReturnType<Send> {
  const signal = toAbortSignal(abortSignal);
  onSend?.();
  const request = new Request(url, { method: "POST", headers, body, signal });
  const aborted = new Promise<never>((_, reject) => {
    signal.addEventListener("abort", () => reject(new Error("aborted")), { once: true });
  });
  const response = await Promise.race([handle(request), aborted]);
  const through = response.body?.pipeThrough(new TransformStream(), { signal });
  return fromFetchResponse(new Response(through ?? null, response));
}
