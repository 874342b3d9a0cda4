// Tries candidates until one begins to answer. Nothing has reached the caller yet, so another try costs nobody anything;
// what is the caller's own fault is never tried again.

import { deadline } from "../base/deadline.ts";
import { Fault } from "../base/fault.ts";
import { createSseParser, readSse, type SseMessage } from "../base/sse.ts";
import type { Stop } from "../base/stop.ts";
import type { Carry } from "../outbound/carrier.ts";
import { cancelInflow, type Inflow, nextPiece, unask } from "../outbound/inflow.ts";
import type { Reply } from "../outbound/reply.ts";
import type { Attempt } from "../usage/usage.ts";
import { isObject, type Json } from "./ask.ts";
import { type Breaker, circuitOf } from "./breaker.ts";
import type { Candidate } from "./candidates.ts";
import { createFrameParser } from "./frames-as-sse.ts";
import { faultOfProvider, faultOfTrouble, isRetriable } from "./provider-error.ts";
import type { UpstreamWire } from "./providers.ts";
import { readWhole, returnedHeaders, send, type Timeouts, type WholeBody } from "./upstream.ts";

export interface AttemptParts {
  readonly breaker: Breaker;
  readonly carry: Carry;
  readonly timeouts: Timeouts;
  readonly now: () => number;
}

export interface Trial {
  /** Whose call it is. */
  readonly accountId: string;
  readonly wire: UpstreamWire;
  readonly path?: string | undefined;
  readonly stream: boolean;
  /** Whether it is asked in other words than the caller's. */
  readonly translated: boolean;
  readonly headers: Headers;
  /** Ends the call to the provider: the caller left, or the time is over. */
  readonly abort: Stop;
  readonly body: string;
  /** How often it is tried at most, where a failure need not be waited out because another provider is next. */
  readonly triesMax?: number | undefined;
}

export type Answered =
  | {
      readonly kind: "whole";
      readonly text: string;
      readonly json: Json;
      readonly headers: Readonly<Record<string, string>>;
    }
  | {
      readonly kind: "stream";
      readonly inflow: Inflow;
      /** What has come of it; undefined where its beginning is still awaited. */
      readonly first: Uint8Array | undefined;
      readonly headers: Readonly<Record<string, string>>;
      readonly contentType: string;
    };

export type TrialResult =
  | {
      readonly ok: true;
      readonly candidate: Candidate;
      readonly answered: Answered;
      readonly attempts: readonly Attempt[];
    }
  | {
      readonly ok: false;
      readonly fault: Fault;
      readonly aborted: boolean;
      readonly attempts: readonly Attempt[];
    };

type One =
  | { readonly ok: true; readonly answered: Answered }
  | {
      readonly ok: false;
      readonly fault: Fault;
      readonly status: number;
      readonly again: boolean;
      readonly aborted?: boolean;
    };

/** Nobody is told, so it is nobody's failure: neither in the log nor where answers are counted. */
const LEFT_STATUS = 499;
const TRIES_PER_CANDIDATE = 2;
const BACKOFF_MS = 250;
/** A provider that asks for a longer wait than this is left to the caller's patience. */
const RETRY_AFTER_MAX_MS = 2_000;
/** How long a stream's first event is waited for before the caller is told that it begins. */
const FIRST_EVENT_MS = 15_000;
const ERROR_BODY_MAX_BYTES = 65_536;
/** How much of a stream is kept back in search of its first event. */
const FIRST_EVENT_MAX_BYTES = 65_536;

export async function tryCandidate(
  candidate: Candidate,
  trial: Trial,
  attempts: Attempt[],
  parts: AttemptParts,
): Promise<TrialResult> {
  const { credential, upstreamName, model } = candidate;
  // A count of tokens has limits of its own at its provider, and costs its caller nothing: its failures are its own.
  const place = trial.wire === "count_tokens" ? `${upstreamName} count_tokens` : upstreamName;
  const circuit = circuitOf(credential.provider.id, credential.label, place);
  let before: Fault | undefined;
  for (let attempt = 1; ; attempt++) {
    const startedAt = parts.now();
    const waitMs = parts.breaker.enter(circuit, trial.accountId, startedAt);
    // Where its own first try has opened the circuit, what the provider said then says more.
    if (waitMs > 0) {
      const fault = before ?? circuitFault(candidate, waitMs);
      return { ok: false, fault, aborted: false, attempts };
    }
    const one = await tryOnce(candidate, trial, parts).catch((error: unknown) => {
      parts.breaker.left(circuit, trial.accountId);
      throw error;
    });
    const status = one.ok ? 200 : one.status;
    attempts.push({
      provider: credential.provider.id,
      model: model.id,
      status,
      ms: Math.max(0, parts.now() - startedAt),
    });
    if (one.ok) {
      parts.breaker.succeeded(circuit);
      return { ok: true, candidate, answered: one.answered, attempts };
    }
    // What is not worth another try, such as a silence that used up the time, may still be the provider's failure.
    if (one.aborted !== true && (one.again || one.status >= 500))
      parts.breaker.failed(circuit, trial.accountId, parts.now());
    else parts.breaker.left(circuit, trial.accountId);
    const pauseMs = pauseOf(one, attempt, trial.triesMax);
    if (pauseMs === undefined || trial.abort.signal.aborted)
      return { ok: false, fault: one.fault, aborted: one.aborted === true, attempts };
    before = one.fault;
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}

function pauseOf(
  one: One & { ok: false },
  attempt: number,
  triesMax = TRIES_PER_CANDIDATE,
): number | undefined {
  if (!one.again || attempt >= triesMax) return undefined;
  const asked = Number(one.fault.options.headers?.["retry-after"] ?? 0) * 1_000;
  return asked <= RETRY_AFTER_MAX_MS ? Math.max(asked, BACKOFF_MS * attempt) : undefined;
}

function circuitFault(candidate: Candidate, waitMs: number): Fault {
  const fault = faultOfTrouble(candidate.credential, "unreachable", "the circuit is open");
  Object.assign(fault.options, { retryAfterSeconds: waitMs / 1_000 });
  return fault;
}

async function tryOnce(candidate: Candidate, trial: Trial, parts: AttemptParts): Promise<One> {
  const { credential } = candidate;
  const { wire, stream, headers, abort } = trial;
  let late = false;
  const stop = deadline(stream ? parts.timeouts.firstByteMs : parts.timeouts.wholeMs, () => {
    late = true;
    abort.abort();
  });
  try {
    const { path, body } = trial;
    const request = { wire, headers, signal: abort.signal, path, body };
    const upstream = await send(credential, request, parts.carry);
    if (upstream.kind === "answered") {
      const { reply } = upstream;
      const returned = returnedHeaders(reply.headers, parts.now());
      const judged = judge(candidate, trial, { reply, headers: returned, heard: stop });
      const one = judged instanceof Promise ? await judged : judged;
      if (one.ok || !abort.signal.aborted) return one;
    } else if (upstream.kind === "unreachable") {
      return {
        ok: false,
        fault: faultOfTrouble(credential, "unreachable", String(upstream.cause)),
        status: 502,
        again: true,
      };
    }
  } finally {
    stop();
  }
  if (late)
    return {
      ok: false,
      fault: faultOfTrouble(credential, "timed_out", "no answer in time"),
      status: 504,
      again: false,
    };
  return {
    ok: false,
    fault: new Fault("upstream_error", "the caller left", { status: LEFT_STATUS }),
    status: LEFT_STATUS,
    again: false,
    aborted: true,
  };
}

interface Heard {
  readonly reply: Reply;
  /** Those that go back to the caller. */
  readonly headers: Readonly<Record<string, string>>;
  /** Told when the first bytes of a stream have come: from then on it is not their absence that ends the call. */
  readonly heard: () => void;
}

function judge(candidate: Candidate, trial: Trial, given: Heard): One | Promise<One> {
  const { reply, headers, heard } = given;
  if (reply.status >= 300) return refused(candidate, trial, headers, reply);
  const contentType = reply.headers.get("content-type") ?? "";
  if (
    trial.stream &&
    /^(text\/event-stream|application\/vnd\.amazon\.eventstream)/i.test(contentType)
  )
    return beginStream(candidate, trial, { inflow: reply.body, headers, contentType, heard });
  const body = readWhole(reply);
  return body instanceof Promise
    ? body.then((read) => judgeWhole(candidate, trial, headers, read))
    : judgeWhole(candidate, trial, headers, body);
}

function judgeWhole(
  candidate: Candidate,
  trial: Trial,
  headers: Readonly<Record<string, string>>,
  body: WholeBody,
): One {
  if (body.kind !== "text")
    return garbled(candidate, `the reply is ${body.kind}`, body.kind === "cut");
  const json = parsedObject(body.text);
  if (json === undefined) return garbled(candidate, "the reply is not JSON", false);
  if (hasFailed(json))
    return {
      ok: false,
      fault: faultOfProvider(
        { ...trial, status: 502, headers, text: body.text },
        candidate.credential,
      ),
      status: 502,
      again: true,
    };
  if (trial.stream)
    return garbled(candidate, "a stream was asked for and a whole reply came", false);
  return { ok: true, answered: { kind: "whole", text: body.text, json, headers } };
}

async function refused(
  candidate: Candidate,
  trial: Trial,
  headers: Readonly<Record<string, string>>,
  reply: Reply,
): Promise<One> {
  const body = await readWhole(reply, ERROR_BODY_MAX_BYTES);
  const { status } = reply;
  const fault = faultOfProvider(
    {
      ...trial,
      status,
      headers,
      text: body.kind === "text" ? body.text : "",
    },
    candidate.credential,
  );
  return { ok: false, fault, status, again: isRetriable(status) };
}

function garbled(candidate: Candidate, detail: string, again: boolean): One {
  return {
    ok: false,
    fault: faultOfTrouble(candidate.credential, "garbled", detail),
    status: 502,
    again,
  };
}

interface Beginning {
  readonly inflow: Inflow;
  readonly headers: Readonly<Record<string, string>>;
  readonly contentType: string;
  readonly heard: Heard["heard"];
}

// A stream that begins with an error is a failure like any other, as long as nothing of it was passed on: however its first
// event is sliced, and whatever comments stand before it.
async function beginStream(candidate: Candidate, trial: Trial, beginning: Beginning): Promise<One> {
  const { inflow, headers, contentType, heard } = beginning;
  const parser = /^text\//i.test(contentType) ? createSseParser() : createFrameParser();
  const begun = (first: Uint8Array | undefined): One => ({
    ok: true,
    answered: { kind: "stream", inflow, headers, contentType, first },
  });
  const late = Promise.withResolvers<"late">();
  const stop = deadline(FIRST_EVENT_MS, () => {
    unask(inflow);
    late.resolve("late");
  });
  let seen: Uint8Array | undefined;
  try {
    for (;;) {
      const piece = await Promise.race([nextPiece(inflow), late.promise]);
      // What is late is not lost: it waits for whoever the inflow flows to next.
      if (piece === "late") return begun(seen);
      heard();
      const events = piece === undefined ? parser.end() : parser.push(piece);
      if (piece !== undefined) seen = seen === undefined ? piece : Buffer.concat([seen, piece]);
      const message = events.map(readSse).find((one) => one !== undefined);
      const error = message === undefined ? undefined : errorIn(message);
      if (error !== undefined)
        return failedAtOnce(candidate, trial, beginning, { text: error, name: message?.name });
      if (message !== undefined || (seen?.length ?? 0) > FIRST_EVENT_MAX_BYTES) return begun(seen);
      if (piece === undefined)
        return garbled(candidate, "the stream ended before its first event", true);
    }
  } catch {
    cancelInflow(inflow);
    return garbled(candidate, "the stream broke before its first event", true);
  } finally {
    stop();
  }
}

function failedAtOnce(
  candidate: Candidate,
  trial: Trial,
  { inflow, headers }: Beginning,
  { text, name = "" }: { readonly text: string; readonly name: string | undefined },
): One {
  cancelInflow(inflow);
  const status = EXCEPTIONS[name] ?? statusInside(text);
  const fault = faultOfProvider({ ...trial, status, headers, text }, candidate.credential);
  return { ok: false, fault, status: fault.status, again: isRetriable(fault.status) };
}

/** The statuses that Bedrock's exceptions have outside of a stream. */
const EXCEPTIONS: Readonly<Record<string, number>> = {
  throttlingException: 429,
  validationException: 400,
  serviceUnavailableException: 503,
  modelTimeoutException: 504,
  modelStreamErrorException: 502,
  internalServerException: 500,
};

function errorIn({ name, data }: SseMessage): string | undefined {
  const isNamed = name === "error" || name.endsWith("Exception");
  if (!isNamed && !data.includes('"error"')) return undefined;
  const json = parsedObject(data);
  return isNamed || (json !== undefined && hasFailed(json)) ? data : undefined;
}

function statusInside(data: string): number {
  const told = /"(?:status_code|status|code)"\s*:\s*"?(4\d\d|5\d\d)\b/.exec(data);
  if (told !== null) return Number(told[1]);
  return /overloaded/i.test(data) ? 529 : 502;
}

function parsedObject(text: string): Json | undefined {
  try {
    const json: unknown = JSON.parse(text);
    return isObject(json) ? json : undefined;
  } catch {
    return undefined;
  }
}

/** A reply with status 200 that is an error all the same. */
function hasFailed(json: Json): boolean {
  const { error, output, choices } = json;
  if (json["type"] === "error") return true;
  if (Array.isArray(choices) && choices.length > 0) return choices.every(isFailedChoice);
  return error !== null && error !== undefined && (output === undefined || isNone(output));
}

/** A choice that ended in an error before it said anything, as OpenRouter tells of it. */
function isFailedChoice(choice: unknown): boolean {
  if (!isObject(choice) || choice["finish_reason"] !== "error") return false;
  const { message } = choice;
  return !isObject(message) || (isNone(message["content"]) && isNone(message["tool_calls"]));
}

function isNone(value: unknown): boolean {
  return (
    value === undefined ||
    value === null ||
    value === "" ||
    (Array.isArray(value) && value.length === 0)
  );
}
