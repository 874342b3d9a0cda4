// Builds a request to a provider, and chooses how it is sent: as it is, signed, or to the bundled simulator.

import { randomUUID } from "node:crypto";
import {
  toAbortSignal,
  type OutgoingRequest,
  type Send,
  fromFetchResponse,
} from "@postern/http-client";
import { WIRE_TRAITS } from "@postern/wires";
import { parseObject } from "../../base/json.ts";
import { memoize } from "../../base/memoize.ts";
import { encodeMultipart, type FormFile } from "../../http/request/multipart-body.ts";
import type { Authorizer } from "../providers/authorizer.ts";
import type { Credential } from "../providers/credentials.ts";
import type { UpstreamWire } from "../providers/providers.ts";
import { formOfJson } from "../request/form-json.ts";
import {
  type ForwardedHeaders,
  forSharedAccount,
  NO_FORWARDED_HEADERS,
} from "../request/forwarded-headers.ts";

export interface UpstreamRequest {
  readonly wire: UpstreamWire;
  /** What follows the wire's path, for wires that name the model in it. */
  readonly path?: string | undefined;
  readonly body: string;
  /** The files of a form: `body` is the JSON that stands for it. */
  readonly files?: readonly FormFile[] | undefined;
  readonly forwardedHeaders: ForwardedHeaders;
}

export function outgoingRequest(
  credential: Credential,
  { wire, path = "", body, files, forwardedHeaders }: UpstreamRequest,
  { signal, onSend }: Pick<OutgoingRequest, "signal" | "onSend">,
): OutgoingRequest {
  const { provider, baseUrl } = credential;
  const wirePath = provider.paths[wire];
  if (wirePath === undefined) throw new Error(`${provider.id} has no path for ${wire}`);
  const headers = requestHeaders(credential, wire, forwardedHeaders);
  const url = baseUrl + wirePath + path;
  if (files === undefined) return { url, headers, body, signal, onSend };
  const boundary = `postern-${randomUUID()}`;
  const form = formOfJson(parseObject(body) ?? {}, files, provider.relayedForm);
  return {
    url,
    headers: { ...headers, "content-type": `multipart/form-data; boundary=${boundary}` },
    body: encodeMultipart(form, boundary),
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
  // A cloud account has no endpoint that takes a form.
  if (typeof body !== "string") throw new Error(`a form is not signed: ${url}`);
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

function requestHeaders(
  credential: Credential,
  wire: UpstreamWire,
  forwarded: ForwardedHeaders,
): Readonly<Record<string, string>> {
  const headers = cachedHeaders(credential, wire);
  // Most callers send none: their headers stay the cached object.
  if (forwarded === NO_FORWARDED_HEADERS) return headers;
  return { ...headers, ...(credential.byok ? forwarded : forSharedAccount(forwarded)) };
}

type HeadersForWire = (wire: UpstreamWire) => Readonly<Record<string, string>>;
const headerCache = new WeakMap<Credential, HeadersForWire>();

// Built once for each of the gateway's own accounts, and frozen: the HTTP client caches how frozen headers are encoded.
export function cachedHeaders(
  credential: Credential,
  wire: UpstreamWire,
): Readonly<Record<string, string>> {
  if (credential.byok) return buildHeaders(credential, wire);
  const cached = headerCache.get(credential);
  if (cached !== undefined) return cached(wire);
  const headersFor: HeadersForWire = memoize((one) => Object.freeze(buildHeaders(credential, one)));
  headerCache.set(credential, headersFor);
  return headersFor(wire);
}

function buildHeaders(
  { provider, apiKey }: Credential,
  wire: UpstreamWire,
): Record<string, string> {
  const { headers: wireHeaders, ...traits } = WIRE_TRAITS[wire];
  const keyHeader = provider.cloudAuth === undefined ? traits.keyHeader : traits.cloudKeyHeader;
  const headers: Record<string, string> = {
    "content-type": "application/json",
    "user-agent": "postern",
    "accept-encoding": "identity",
    ...provider.headers,
    ...wireHeaders,
  };
  if (apiKey === undefined) return headers;
  // A provider of several wires takes the key on each as that API's own clients send it.
  if (keyHeader !== undefined && provider.auth === "bearer") headers[keyHeader] = apiKey.reveal();
  else if (provider.auth === "bearer") headers["authorization"] = `Bearer ${apiKey.reveal()}`;
  else headers[provider.auth] = apiKey.reveal();
  return headers;
}
