// What the gateway needs of a provider's batch API, in the forms that providers have.

import { type JsonObject, parseObject } from "../../base/json.ts";
import type { Credential } from "../../inference/providers/credentials.ts";
import type { UpstreamWire } from "../../inference/providers/providers.ts";
import type { ForwardedHeaders } from "../../inference/request/forwarded-headers.ts";
import { cachedHeaders } from "../../inference/upstream/outgoing-request.ts";
import { linesOf } from "../files/file-content.ts";

/** For one request to the API; the content of a file is read for longer. */
const REQUEST_TIMEOUT_MS = 60_000;
const CONTENT_TIMEOUT_MS = 600_000;
const REPLY_MAX_BYTES = 4 * 1_048_576;
const LINE_MAX_LENGTH = 64 * 1_048_576;
/** Batches in a page of a list. */
export const LIST_PAGE = 100;
/** The provider's clock may be behind. */
export const CLOCK_SKEW_MS = 300_000;

/** A batch at the gateway's account. */
export interface Remote {
  readonly credential: Credential;
  readonly wire: UpstreamWire;
  /** The provider's name for the model of its requests. */
  readonly model: string;
  readonly signal: AbortSignal;
}

export interface RemoteLine {
  readonly customId: string;
  readonly body: string;
}

export interface Submission {
  /** Names the submission at the provider, so that it is found again. */
  readonly tag: string;
  readonly lines: readonly string[];
  readonly headers: ForwardedHeaders;
  /** The uploaded requests; null if they are in the body. */
  readonly fileId: string | null;
}

export interface LostSubmission {
  readonly tag: string;
  readonly fileId: string | null;
  /** All custom ids of the submission begin with this. */
  readonly customIdPrefix: string;
  readonly requests: number;
  readonly attemptedAt: number;
  /** Whether a batch belongs to another submission. */
  readonly isKnown: (remoteId: string) => Promise<boolean>;
}

/** `unverified`: a batch may be the lost one, which is known once it has ended. */
export type FoundSubmission = { readonly id: string } | "absent" | "unverified";

export interface RemoteBatch {
  readonly isEnded: boolean;
  /** Files to delete once the results are read. */
  readonly fileIds: readonly string[];
  /** Where the results are, as paths below the base URL. */
  readonly resultPaths: readonly string[];
  /** Why the provider ran none of it. */
  readonly failure?: RemoteFailure | undefined;
  /** What became of requests without a result. */
  readonly unprocessed: "expired" | "canceled" | "errored";
}

export interface RemoteFailure {
  readonly text: string;
  /** The provider takes no more for now. */
  readonly isTemporary: boolean;
  /** The lines that are the cause, counted from 0. */
  readonly lines: readonly number[];
}

export interface RemoteResult {
  /** Undefined if the provider left it out: such results are in the order of the requests. */
  readonly customId: string | undefined;
  readonly outcome:
    | { readonly kind: "reply"; readonly status: number; readonly body: JsonObject }
    | { readonly kind: "none"; readonly status: "expired" | "canceled" | "errored" };
}

/** What the provider stores of a submission. */
export interface Stored {
  readonly id: string | null;
  readonly fileIds: readonly string[];
}

export interface ProviderBatchApi {
  /** The most bytes of the requests of one submission, as they were sent to the gateway. */
  readonly maxBytes: number;
  readonly lineOf: (line: RemoteLine, wire: UpstreamWire) => string;
  /** Uploads the requests; null if they are sent with the batch. */
  readonly upload: (remote: Remote, submission: Submission) => Promise<string | null>;
  /** Returns the id of the new batch. */
  readonly create: (remote: Remote, submission: Submission) => Promise<string>;
  readonly find: (remote: Remote, lost: LostSubmission) => Promise<FoundSubmission>;
  readonly read: (remote: Remote, id: string) => Promise<RemoteBatch>;
  /** The results at one of the paths. */
  readonly readResults: (remote: Remote, path: string) => AsyncIterable<JsonObject>;
  readonly resultOf: (result: JsonObject) => RemoteResult | undefined;
  readonly cancel: (remote: Remote, id: string) => Promise<void>;
  readonly remove: (remote: Remote, stored: Stored) => Promise<void>;
}

/** The provider has replied with an error. Without a reply, nothing is known of a request. */
export interface RemoteError extends Error {
  readonly status: number;
  readonly text: string;
}

function remoteError(status: number, text: string): RemoteError {
  const error = new Error(`the provider's batch API replied with ${status}: ${text.slice(0, 300)}`);
  return Object.assign(error, { status, text });
}

export function isRemoteError(error: unknown): error is RemoteError {
  return error instanceof Error && "status" in error && "text" in error;
}

interface RemoteRequest {
  readonly method: "GET" | "POST" | "DELETE";
  readonly path: string;
  readonly body?: string | FormData;
  readonly headers?: Readonly<Record<string, string>>;
}

async function send(
  { credential, wire, signal }: Remote,
  { method, path, body, headers }: RemoteRequest,
  timeoutMs: number,
): Promise<Response> {
  const { "content-type": json, ...own } = cachedHeaders(credential, wire);
  const response = await fetch(credential.baseUrl + path, {
    method,
    // A form has a content type of its own, with its boundary.
    headers: { ...own, ...(typeof body === "string" && { "content-type": json }), ...headers },
    ...(body !== undefined && { body }),
    redirect: "error",
    signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
  });
  if (response.ok) return response;
  throw remoteError(response.status, (await response.text()).slice(0, REPLY_MAX_BYTES));
}

export async function requestJson(remote: Remote, request: RemoteRequest): Promise<JsonObject> {
  const response = await send(remote, request, REQUEST_TIMEOUT_MS);
  const json: unknown = await response.json();
  if (typeof json !== "object" || json === null) throw new Error("the reply is no JSON object");
  // Safe: it is an object, and each member is checked where it is read.
  return json as JsonObject;
}

/** The text of a file, as it arrives. */
export async function* readContent(
  remote: Remote,
  path: string,
): AsyncGenerator<string, undefined> {
  const { body } = await send(remote, { method: "GET", path }, CONTENT_TIMEOUT_MS);
  if (body === null) return undefined;
  yield* body.pipeThrough(new TextDecoderStream());
  return undefined;
}

/** The results of a file with one a line. */
export async function* readJsonLines(
  remote: Remote,
  path: string,
): AsyncGenerator<JsonObject, undefined> {
  for await (const line of linesOf(readContent(remote, path), LINE_MAX_LENGTH)) {
    const json = parseObject(line);
    if (json !== undefined) yield json;
  }
  return undefined;
}

/** Deleting is repeated by nothing: what is left expires at the provider. */
export async function tryDelete(remote: Remote, path: string): Promise<void> {
  await send(remote, { method: "DELETE", path }, REQUEST_TIMEOUT_MS).catch(() => {});
}

export function idIn(json: JsonObject): string {
  const { id } = json;
  if (typeof id === "string" && /^[\w-]{1,200}$/.test(id)) return id;
  throw new Error("the reply has no id");
}
