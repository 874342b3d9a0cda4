// Background responses. The call runs in this process like any other, with the same hold and settlement. Its record is
// `in_progress` from the hold on. Canceling stops the provider; the usage so far is charged.

import { createSseParser, readSse, type SseEvent } from "@postern/wires";
import { Fault } from "../../base/fault.ts";
import { isObject, type JsonObject, parseObject } from "../../base/json.ts";
import type { Log } from "../../base/log.ts";
import type { CallInput, StoredReply } from "../../inference/lifecycle/call.ts";
import { type IdempotentModelCall, withHold } from "../../inference/lifecycle/with-idempotency.ts";
import { type Db, isUnavailable, type Tx } from "../../store/db.ts";
import { PROCESS_DIED_ERROR } from "../response-record.ts";
import { stopBackground } from "../storage/end-response.ts";
import { insertResponses, findNotCanceled } from "../storage/response-rows.ts";
import type { StoredCall } from "../stored-call.ts";
import { createEventLog, type EventLog, toSse } from "./event-log.ts";
import type { EventStreams } from "./event-streams.ts";
import { insertStreamPart, type StreamPart } from "./stream-rows.ts";

const RUNNING_MAX = 256;
const RUNNING_PER_ACCOUNT_MAX = 16;
const RETRY_SECONDS = 5;
/** Each follows a store that was available again. */
const STORE_ATTEMPTS_MAX = 100;
const STORE_RETRY_MS = 1_000;

export interface Background {
  /** Resolves once the cost is held and the record is written; throws the fault if the call is rejected. */
  readonly start: (storedCall: StoredCall, input: CallInput) => Promise<Response>;
  /** The events of a streamed response that runs in this process. */
  readonly logOf: (id: string) => EventLog | undefined;
  readonly abort: (id: string) => void;
  /** Aborts responses that were canceled or deleted, also through another process. */
  readonly abortCanceled: () => Promise<void>;
  /** Aborts and fails all running responses, for shutdown. */
  readonly abortAll: () => void;
  readonly whenIdle: () => Promise<void>;
}

export interface BackgroundDeps {
  readonly db: Db;
  readonly log: Log;
  readonly streams: EventStreams;
  readonly now: () => number;
  readonly infer: (input: CallInput) => Promise<Response>;
  /** Stores the response for its `Idempotency-Key`, in the transaction that writes the record. Throws if a repetition took the key over. */
  readonly storeIdempotentReply: (
    tx: Tx,
    call: IdempotentModelCall,
    reply: StoredReply,
  ) => Promise<void>;
}

interface RunningCall {
  readonly accountId: string;
  readonly abort: AbortController;
  /** Set for a streamed response. */
  readonly log: EventLog | undefined;
  /** Whether its record is written. */
  isAccepted: boolean;
  work: Promise<void>;
}

export function createBackground(deps: BackgroundDeps): Background {
  const { db } = deps;
  const running = new Map<string, RunningCall>();
  let isShuttingDown = false;

  const start: Background["start"] = async (storedCall, input) => {
    const { accountId } = input.caller;
    rejectOverLimit([...running.values()], accountId);
    const log = storedCall.request.json["stream"] === true ? createEventLog() : undefined;
    // Counted before the call runs: its client gets its id.
    const stream = log && deps.streams.open(accountId, log, -1);
    const abort = new AbortController();
    const accepted = Promise.withResolvers<string>();
    const runningCall: RunningCall = {
      accountId,
      abort,
      log,
      isAccepted: false,
      work: Promise.resolve(),
    };
    const onHeld = async (): Promise<void> => {
      if (runningCall.isAccepted) return;
      const body = await insertInProgress(deps, storedCall, input);
      runningCall.isAccepted = true;
      accepted.resolve(body);
    };
    const detached = {
      ...input,
      signal: abort.signal,
      idempotent: undefined,
      hasPayment: false,
      statefulCall: { ...storedCall.call, onHeld },
    };
    const run = async (): Promise<void> => {
      let failure: JsonObject | undefined;
      try {
        const { body } = await deps.infer(detached);
        await readToEnd(body, abort, log);
        if (!runningCall.isAccepted) throw new Error("a background call ended without a hold");
        failure = isShuttingDown ? PROCESS_DIED_ERROR : storedCall.captured.failure;
      } catch (error) {
        if (!runningCall.isAccepted) return accepted.reject(error);
        failure = { message: error instanceof Fault ? error.publicMessage : undefined };
      }
      const failed = failedResponseOf(storedCall, failure);
      const hasFailed = await untilAvailable(db, () =>
        db.write((tx) => failUnfinished(tx, storedCall, { accountId, failed }, deps.now())),
      );
      if (hasFailed) log?.add({ type: "response.failed", response: failed });
    };
    const stopWriting = log === undefined ? undefined : writeEvents(deps, storedCall, log);
    running.set(storedCall.id, runningCall);
    runningCall.work = logFailure(deps.log, storedCall.id, run().finally(stopWriting)).finally(
      () => {
        log?.end();
        running.delete(storedCall.id);
      },
    );
    return await replyOf(accepted.promise, stream);
  };

  return {
    start,
    logOf: (id) => running.get(id)?.log,
    abort: (id) => running.get(id)?.abort.abort(),
    abortCanceled: () => abortCanceled(db, running),
    abortAll: () => {
      isShuttingDown = true;
      for (const { abort } of running.values()) abort.abort();
    },
    whenIdle: async () => void (await Promise.all([...running.values()].map(({ work }) => work))),
  };
}

/** The stream, or the accepted response as JSON. The stream of a rejected call is closed, so that it no longer counts. */
async function replyOf(accepted: Promise<string>, stream: Response | undefined): Promise<Response> {
  try {
    const body = await accepted;
    return stream ?? jsonResponse(body);
  } catch (error) {
    await stream?.body?.cancel();
    throw error;
  }
}

/** Otherwise the response would be in progress until the process ends. */
async function untilAvailable<T>(db: Db, write: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await write();
    } catch (error) {
      if (!isUnavailable(error) || attempt === STORE_ATTEMPTS_MAX) throw error;
    }
    // The settlement of the call is tried again within a second and comes first: it may have the whole response.
    do await new Promise((resolve) => setTimeout(resolve, STORE_RETRY_MS));
    while (!(await isAvailable(db)));
    await new Promise((resolve) => setTimeout(resolve, 2 * STORE_RETRY_MS));
  }
}

function isAvailable(db: Db): Promise<boolean> {
  return db.get("select 1 as one").then(
    () => true,
    () => false,
  );
}

async function logFailure(log: Log, id: string, work: Promise<void>): Promise<void> {
  await work.catch((error: unknown) =>
    log.error("failed to store the end of a background response", {
      response_id: id,
      cause: error,
    }),
  );
}

export function jsonResponse(body: string): Response {
  return new Response(body, {
    headers: { "content-type": "application/json", "cache-control": "no-store" },
  });
}

/** Writes the record of an accepted call, and returns the response body. */
async function insertInProgress(
  { db, storeIdempotentReply }: BackgroundDeps,
  storedCall: StoredCall,
  input: CallInput,
): Promise<string> {
  const { idempotent } = input;
  const initialResponse = initialResponseOf(storedCall);
  const isStream = storedCall.request.json["stream"] === true;
  // A repetition of a streamed call gets its first event, and continues with `starting_after`.
  const body = isStream
    ? toSse(
        JSON.stringify({ type: "response.created", sequence_number: 0, response: initialResponse }),
      )
    : JSON.stringify(initialResponse);
  await db.write(async (tx) => {
    await insertResponses(tx, [storedCall.toRecord("in_progress", initialResponse)]);
    if (isStream) await insertStreamPart(tx, firstPartOf(storedCall));
    if (idempotent !== undefined)
      await storeIdempotentReply(tx, withHold(idempotent, input.requestId), { status: 200, body });
  });
  return body;
}

async function abortCanceled(db: Db, running: ReadonlyMap<string, RunningCall>): Promise<void> {
  const ids = [...running].filter(([, { isAccepted }]) => isAccepted).map(([id]) => id);
  const wanted = await findNotCanceled(db, ids);
  for (const id of ids) if (!wanted.has(id)) running.get(id)?.abort.abort();
}

function rejectOverLimit(running: readonly RunningCall[], accountId: string): void {
  if (running.length >= RUNNING_MAX)
    throw new Fault("overloaded", "too many background responses in this process", {
      retryAfterSeconds: RETRY_SECONDS,
    });
  const ofAccount = running.filter((call) => call.accountId === accountId);
  if (ofAccount.length >= RUNNING_PER_ACCOUNT_MAX)
    throw new Fault("rate_limited", "too many background responses of the account", {
      message: `This account has reached the limit of ${RUNNING_PER_ACCOUNT_MAX} background responses in progress. Wait for one to end.`,
      retryAfterSeconds: RETRY_SECONDS,
    });
}

// The stream ends after the call is settled and its record is written.
async function readToEnd(
  body: Response["body"],
  abort: AbortController,
  log: EventLog | undefined,
): Promise<void> {
  if (body === null) return;
  const { signal } = abort;
  const reader = body.getReader();
  const cancel = (): void => void reader.cancel().catch(() => {});
  signal.addEventListener("abort", cancel);
  const parser = createSseParser();
  try {
    if (signal.aborted) cancel();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      if (log !== undefined && !addEvents(log, parser.push(value))) abort.abort();
    }
  } finally {
    signal.removeEventListener("abort", cancel);
  }
}

/** False if the log is full. */
function addEvents(log: EventLog, events: readonly SseEvent[]): boolean {
  return events.every((event) => {
    const json = parseObject(readSse(event)?.data ?? "");
    return json === undefined || log.add(json);
  });
}

export const PROVIDER_FAILED_MESSAGE =
  "The model's provider failed. Create the response again, or use another model.";

function failedResponseOf(storedCall: StoredCall, failure: JsonObject | undefined): JsonObject {
  const { message } = failure ?? {};
  const error = {
    code: "server_error",
    message: typeof message === "string" ? message : PROVIDER_FAILED_MESSAGE,
  };
  return { ...initialResponseOf(storedCall), status: "failed", error };
}

/** False if the response has ended otherwise. */
function failUnfinished(
  tx: Tx,
  { id, encrypt }: StoredCall,
  { accountId, failed }: { readonly accountId: string; readonly failed: JsonObject },
  now: number,
): Promise<boolean> {
  const response = encrypt("response", JSON.stringify(failed));
  return stopBackground(tx, { id, accountId, status: "failed" }, now, response);
}

/** The request fields that a response repeats, with their defaults. */
const ECHOED_DEFAULTS: JsonObject = {
  frequency_penalty: 0,
  instructions: null,
  max_output_tokens: null,
  max_tool_calls: null,
  metadata: {},
  parallel_tool_calls: true,
  presence_penalty: 0,
  prompt_cache_key: null,
  reasoning: { effort: null, summary: null },
  safety_identifier: null,
  service_tier: "default",
  temperature: 1,
  text: { format: { type: "text" } },
  tool_choice: "auto",
  tools: [],
  top_logprobs: 0,
  top_p: 1,
  truncation: "disabled",
};

export function initialResponseOf({
  id,
  request: { json },
  createdAt,
  previousId,
}: StoredCall): JsonObject {
  const echoed = Object.entries(ECHOED_DEFAULTS).map(([name, defaultValue]) => {
    const value = json[name] ?? defaultValue;
    return [
      name,
      isObject(value) && isObject(defaultValue) ? { ...defaultValue, ...value } : value,
    ];
  });
  return {
    id,
    object: "response",
    created_at: Math.floor(createdAt / 1_000),
    status: "in_progress",
    background: true,
    completed_at: null,
    error: null,
    incomplete_details: null,
    model: json["model"],
    output: [],
    previous_response_id: previousId ?? null,
    store: true,
    usage: null,
    ...Object.fromEntries(echoed),
  };
}

// Writes the events of a running background response to the store, some at a time.
const WRITE_EVERY_MS = 500;

/** Marks the response as streamed before it has events. */
function firstPartOf({ id, encrypt }: StoredCall): StreamPart {
  return { responseId: id, part: 0, lastSequence: -1, sealedEvents: encrypt("events/0", "") };
}

/** Returns a function that stops the writing and resolves when all events are written. */
function writeEvents(
  { db, log: serverLog }: { readonly db: Db; readonly log: Log },
  { id, encrypt }: StoredCall,
  log: EventLog,
): () => Promise<void> {
  let written: Pick<StreamPart, "part" | "lastSequence"> = { part: 0, lastSequence: -1 };
  /** A part that could not be written is written again as it is: the commit may have been lost after it. */
  let next: StreamPart | undefined;
  const readNext = (): StreamPart | undefined => {
    const { events } = log.read(written.lastSequence + 1);
    if (events.length === 0) return undefined;
    const part = written.part + 1;
    const lastSequence = written.lastSequence + events.length;
    const sealedEvents = encrypt(`events/${part}`, events.join("\n"));
    return { responseId: id, part, lastSequence, sealedEvents };
  };
  let work = Promise.resolve();
  const writePart = async (row: StreamPart): Promise<void> => {
    next = row;
    // A power failure ends the call anyway.
    await db.write((tx) => insertStreamPart(tx, row), "os_cache");
    written = row;
    next = undefined;
  };
  // Not until no event is new: then a slow store would get a part for every few events.
  const write = async (): Promise<void> => {
    if (next !== undefined) await writePart(next);
    const row = readNext();
    if (row !== undefined) await writePart(row);
  };
  const writeNext = (): void => {
    work = work.then(write).catch((cause: unknown) =>
      serverLog.error("failed to store events of a background response", {
        response_id: id,
        cause,
      }),
    );
  };
  const timer = setInterval(writeNext, WRITE_EVERY_MS);
  return async () => {
    clearInterval(timer);
    writeNext();
    await work;
  };
}
