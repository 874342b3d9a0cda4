// Stored responses, which let a conversation continue by id with any provider. Owns the tables response_storage,
// stored_response, stored_item and stored_stream. Responses are encrypted and belong to an account; providers store none.

import { API_TRAITS } from "@postern/wires";
import type { MasterSecret, DerivedKey } from "../base/crypto/encryption.ts";
import { Fault, invalid } from "../base/fault.ts";
import { isId } from "../base/id.ts";
import { isObject, type JsonObject, parseObject } from "../base/json.ts";
import type { Log } from "../base/log.ts";
import {
  type ResponseStorage,
  type StoreMode,
  strictestStorage,
} from "../base/response-storage.ts";
import { type Reach, reachOf, wholeAccount } from "../http/reach.ts";
import type { CallInput, StatefulCall } from "../inference/lifecycle/call.ts";
import type { PrepareCall } from "../inference/lifecycle/parse-call.ts";
import type { ResponseEnd, ResponseQueue } from "../inference/lifecycle/response-queue.ts";
import type { ParsedRequest } from "../inference/request/parse-request.ts";
import type { Db, Tx, Reader } from "../store/db.ts";
import { type Background, type BackgroundDeps, createBackground } from "./background/background.ts";
import { isTerminalEvent } from "./background/event-log.ts";
import { createEventStreams, type EventSource } from "./background/event-streams.ts";
import { completionWindowMs, endQueued, queueResponse } from "./background/queued-responses.ts";
import { isStreamed, readLastEvent, readStreamEvents } from "./background/stream-rows.ts";
import { compact, type CompactDeps } from "./compaction/compact.ts";
import {
  deriveCompactionKey,
  isSealedCompaction,
  openCompactions,
} from "./compaction/compaction-item.ts";
import { type PastItem, referencedId } from "./items.ts";
import { type StoredResponseView, toResponseRecord } from "./response-record.ts";
import { failAllOrphaned, stopBackground } from "./storage/end-response.ts";
import {
  decryptStored,
  type HistoryContext,
  readHistory,
  NOT_STORED_NEXT_STEPS,
  RETENTION_TEXT,
  resolveReferences,
} from "./storage/history.ts";
import { createEnvelopes, deriveKek, type Envelopes } from "./storage/response-encryption.ts";
import {
  deleteExpired,
  deleteResponse,
  findResponse,
  findStatus,
  findUsage,
  type QueuedResponse,
  type StoredResponse,
} from "./storage/response-rows.ts";
import { createStorageLimit, type StorageLimit } from "./storage/storage-limit.ts";
import { createStoredCall, INPUT_MAX_BYTES, type StoredCallOptions } from "./stored-call.ts";

const SWEEP_BATCH = 200;

export interface Responses {
  /** Prepares a call that stores or continues responses; undefined for every other call. */
  readonly prepareCall: PrepareCall;
  /** Summarizes a conversation into an encrypted item. */
  readonly compact: (input: CallInput) => Promise<Response>;
  readonly find: (reach: Reach, id: string, now: number) => Promise<StoredResponseView>;
  /** The events of a streamed background response after a sequence number. */
  readonly stream: (reach: Reach, id: string, startingAfter: number) => Promise<Response>;
  readonly remove: (tx: Tx, reach: Reach, id: string, now: number) => Promise<void>;
  /** Ends a queued response whose call has not completed it. */
  readonly endQueued: (tx: Tx, end: ResponseEnd) => Promise<void>;
  readonly cancel: (reach: Reach, id: string, now: number) => Promise<StoredResponseView>;
  /** Deletes the oldest responses of accounts that store too much. */
  readonly enforceLimits: () => Promise<void>;
  /** Deletes expired responses. */
  readonly sweep: (now: number) => Promise<void>;
  /** Fails background responses of dead processes. */
  readonly failOrphaned: (startedBefore: number) => Promise<void>;
  /** Aborts responses that were canceled or deleted through another process. */
  readonly abortCanceled: () => Promise<void>;
  /** Ends streams of events: their clients continue at another process. */
  readonly startDraining: () => void;
  /** Aborts all background responses, for shutdown; their usage so far is charged. */
  readonly abortAll: () => void;
  /** Resolves when no background response is running. */
  readonly whenIdle: () => Promise<void>;
}

export interface ResponsesDeps {
  readonly db: Db;
  readonly master: MasterSecret;
  readonly log: Log;
  readonly now: () => number;
  /** The operator's setting; that of an account comes with its caller. */
  readonly storage: ResponseStorage;
  readonly infer: (input: CallInput) => Promise<Response>;
  readonly storeIdempotentReply: BackgroundDeps["storeIdempotentReply"];
  readonly queue: ResponseQueue;
}

export function createResponses(deps: ResponsesDeps): Responses {
  const { db, log, infer, storage, storeIdempotentReply, queue } = deps;
  const kek = deriveKek(deps.master);
  const envelopes = createEnvelopes(kek);
  const compactionKey = deriveCompactionKey(deps.master);
  const compactDeps: CompactDeps = {
    key: compactionKey,
    infer,
    prepareCall: (request, input) => prepareCall(calls, request, input),
    readPastItems: ({ caller, now }, previousId) =>
      readPastItems({ reader: db, kek, reach: reachOf(caller), now }, previousId),
  };
  const streams = createEventStreams();
  const { now } = deps;
  const background = createBackground({ db, log, streams, now, infer, storeIdempotentReply });
  const limit = createStorageLimit(db);
  const queueDeps = { queue, storeIdempotentReply };
  const calls = { db, kek, envelopes, compactionKey, background, queueDeps, limit, storage };
  const find: Responses["find"] = async (reach, id, now) => {
    const stored = await findResponse(db, reach, id, now);
    if (stored === undefined) throw notFound(id);
    const isStopped = stored.status === "cancelled" || stored.status === "failed";
    const usage = isStopped ? await findUsage(db, stored) : undefined;
    return { stored, decrypted: decryptStored(kek, stored), usage };
  };

  return {
    prepareCall: compactDeps.prepareCall,
    compact: (input) => compact(compactDeps, input),
    find,
    stream: async (reach, id, startingAfter) => {
      const { stored } = await find(reach, id, deps.now());
      const { accountId } = stored;
      const events = background.logOf(id);
      if (events !== undefined) return streams.open(accountId, events, startingAfter);
      if (!(await isStreamed(db, id))) throw notStreamed(id);
      const source = storedEvents({ db, kek, stored, now: deps.now });
      return streams.open(accountId, source, startingAfter);
    },
    remove: async (tx, reach, id, now) => {
      const { accountId } = reach;
      const stored = await findResponse(tx, reach, id, now);
      if (stored === undefined || !(await deleteResponse(tx, accountId, id))) throw notFound(id);
      if (stored.status === "queued") await queue.cancel(tx, { id: stored.holdId, accountId });
    },
    endQueued: (tx, end) => endQueued(tx, kek, end, deps.now()),
    cancel: async (reach, id, now) => {
      const { accountId } = reach;
      const { stored } = await find(reach, id, now);
      if (!stored.background)
        throw invalid("id", "Only responses created with `background: true` can be canceled.");
      const stopped = await db.write(async (tx) => {
        if (stored.status === "queued") await queue.cancel(tx, { id: stored.holdId, accountId });
        return stopBackground(tx, { id, accountId, status: "cancelled" }, deps.now());
      });
      background.abort(id);
      const after = await find(reach, id, now);
      const { status } = after.stored;
      if (!stopped && status !== "cancelled") throw endedFault(id, status);
      return after;
    },
    enforceLimits: limit.enforce,
    sweep: (now) => sweep(db, queue, now),
    failOrphaned: (before) => db.write((tx) => failAllOrphaned(tx, before, deps.now())),
    abortCanceled: background.abortCanceled,
    startDraining: streams.endAll,
    abortAll: background.abortAll,
    whenIdle: background.whenIdle,
  };
}

function endedFault(id: string, status: StoredResponse["status"]): Fault {
  return invalid("id", `The response ${id} has already ended with status \`${status}\`.`);
}

async function sweep(db: Db, queue: ResponseQueue, now: number): Promise<void> {
  const cancel = (tx: Tx, { holdId: id, accountId }: QueuedResponse): Promise<void> =>
    queue.cancel(tx, { id, accountId });
  for (let swept = SWEEP_BATCH; swept === SWEEP_BATCH;)
    swept = await db.write((tx) => deleteExpired(tx, { now, limit: SWEEP_BATCH, cancel }));
}

async function readPastItems(
  context: HistoryContext,
  previousId: string,
): Promise<readonly JsonObject[]> {
  if (!isId("resp", previousId)) return [];
  return (await readHistory(context, previousId)).items.map(({ item }) => item);
}

interface StatefulCallDeps {
  readonly db: Db;
  readonly kek: DerivedKey;
  readonly envelopes: Envelopes;
  readonly compactionKey: DerivedKey;
  readonly background: Background;
  readonly queueDeps: Parameters<typeof queueResponse>[0];
  readonly storage: ResponseStorage;
  readonly limit: StorageLimit;
}

type StatefulResult = StatefulCall | Response | undefined;

// Synchronous for a request that continues nothing, as most do.
function prepareCall(
  deps: StatefulCallDeps,
  request: ParsedRequest,
  input: CallInput,
): Promise<StatefulResult> | StatefulCall | undefined {
  const { json } = request;
  if (!API_TRAITS[request.api].storesReplies || continuesElsewhere(json)) return undefined;
  const { mode, retentionDays } = strictestStorage(deps.storage, input.caller.responseStorage);
  const queued = input.batchItem?.response;
  // The account's setting may have changed since it was created.
  const shouldStore = queued !== undefined || isStored(mode, request);
  const windowMs = completionWindowMs(request);
  const options = {
    request,
    input,
    envelopes: deps.envelopes,
    shouldStore,
    retentionDays,
    isBackground: shouldStore && (queued !== undefined || json["background"] === true),
    queued,
    windowMs,
    onStored: deps.limit.count,
  };
  const previousId = previousResponseId(json);
  const startsHere = options.isBackground && queued === undefined;
  if (previousId === undefined && !hasReferences(json) && !startsHere)
    return shouldStore
      ? createStoredCall({ ...options, history: undefined, resolvedItems: undefined }).call
      : undefined;
  return prepareWithHistory(deps, options, previousId);
}

async function prepareWithHistory(
  { db, kek, compactionKey, background, queueDeps }: StatefulCallDeps,
  options: Omit<StoredCallOptions, "history" | "resolvedItems"> & {
    readonly windowMs: number | undefined;
  },
  previousId: string | undefined,
): Promise<StatefulResult> {
  const { request, input, shouldStore, isBackground, queued, windowMs } = options;
  const reach = reachOf(input.caller);
  const context = { reader: db, kek, reach, now: input.now };
  const found = previousId === undefined ? undefined : await readHistory(context, previousId);
  const history = found && { ...found, items: await checkPast(input, found.items) };
  const opened = openCompactions(compactionKey, reach.accountId, request.json["input"]);
  const resolved =
    (await resolveReferences(context, opened ?? request.json["input"])) ?? ownItems(opened);
  const resolvedItems = resolved && (await checkPast(input, resolved));
  if (!shouldStore && history === undefined && resolvedItems === undefined) return undefined;
  const storedCall = createStoredCall({ ...options, history, resolvedItems });
  if (!isBackground || queued !== undefined) return storedCall.call;
  return windowMs === undefined
    ? background.start(storedCall, input)
    : queueResponse(queueDeps, storedCall, input, windowMs);
}

async function checkPast(
  { guardrails }: CallInput,
  items: readonly PastItem[],
): Promise<readonly PastItem[]> {
  const checked = await guardrails?.checkPast?.(items.map(({ item }) => item));
  return checked === undefined
    ? items
    : items.map((past, index) => ({ ...past, item: checked[index] ?? past.item }));
}

/** Whether the response is stored; throws if the request cannot have what it asks for. */
function isStored(mode: StoreMode, { json, text }: ParsedRequest): boolean {
  const { store } = json;
  if (store !== undefined && store !== null && typeof store !== "boolean")
    throw invalid("store", "`store` must be true or false.");
  if (mode === "never" && json["background"] === true && store !== false)
    throw invalid(
      "background",
      "Background responses must be stored, and this gateway or this account stores none (GET /v1/account/response-storage). Remove `background`.",
    );
  if (store === false || mode === "never") return false;
  if (store === true) return true;
  // Storing was not asked for, so it does not fail the call.
  return mode === "by_default" && text.length <= INPUT_MAX_BYTES;
}

// State at the provider is not ours: shared-credentials.ts passes references to it through with the caller's own provider
// key and rejects them otherwise.
function continuesElsewhere(json: JsonObject): boolean {
  const previousId = previousResponseId(json);
  if ((json["previous_response_id"] ?? undefined) !== undefined && previousId === undefined)
    return true;
  if ((json["conversation"] ?? undefined) === undefined) return false;
  if (previousId === undefined) return true;
  throw invalid(
    "conversation",
    "Conversation objects are not supported. Continue with `previous_response_id` alone.",
  );
}

function hasReferences({ input }: JsonObject): boolean {
  return (
    Array.isArray(input) &&
    input.some((item) => referencedId(item) !== undefined || isSealedCompaction(item))
  );
}

function ownItems(items: readonly unknown[] | undefined): readonly PastItem[] | undefined {
  return items?.filter(isObject).map((item) => ({ item, origin: undefined, isReply: false }));
}

/** The `previous_response_id`, if it has the format of our ids. */
function previousResponseId(json: JsonObject): string | undefined {
  const id = json["previous_response_id"];
  return typeof id === "string" && isId("resp", id) ? id : undefined;
}

function notStreamed(id: string): Fault {
  return invalid(
    "stream",
    `The response ${id} was not created with \`background: true\` and \`stream: true\`, so it has no events. Remove \`stream\`, and poll while the status is \`in_progress\`.`,
  );
}

function notFound(id: string): Fault {
  return new Fault("not_found", "no such stored response", {
    message: `This key has no stored response ${id.slice(0, 80)}. ${RETENTION_TEXT}`,
    param: "id",
    next: NOT_STORED_NEXT_STEPS,
  });
}

// The events of a background response that runs in another process, or has ended: read from the store.
const POLL_MS = 500;
/** After the status of a response says that it has ended, its last events may take this many polls. */
const LAST_POLLS = 4;

interface StoredEventsOptions {
  readonly db: Reader;
  readonly kek: DerivedKey;
  readonly stored: StoredResponse;
  readonly now: () => number;
}

function storedEvents({ db, kek, stored, now }: StoredEventsOptions): EventSource {
  const { id, accountId } = stored;
  let pollsAfterEnd = 0;
  return {
    read: async (from) => {
      const events = await readStreamEvents(db, kek, stored, from);
      if (events.length > 0) return { events, isEnd: false };
      const status = await findStatus(db, stored, now());
      if (status === undefined) return { events: [], isEnd: true };
      if (status === "in_progress") return { events: [], isEnd: false };
      const last = parseObject((await readLastEvent(db, kek, stored)) ?? "");
      if (last !== undefined && isTerminalEvent(last)) return { events: [], isEnd: true };
      pollsAfterEnd += 1;
      if (pollsAfterEnd < LAST_POLLS) return { events: [], isEnd: false };
      return { events: pollsAfterEnd === LAST_POLLS ? await endOf(from) : [], isEnd: true };
    },
    waitForMore: () => new Promise((resolve) => setTimeout(resolve, POLL_MS)),
  };

  // The process that ran the response died before it wrote the last event.
  async function endOf(sequenceNumber: number): Promise<readonly string[]> {
    const current = await findResponse(db, wholeAccount(accountId), id, now());
    if (current === undefined || current.status === "cancelled") return [];
    const decrypted = decryptStored(kek, current);
    const response = toResponseRecord({ stored: current, decrypted, usage: undefined });
    const type = `response.${current.status}`;
    return [JSON.stringify({ type, sequence_number: sequenceNumber, response })];
  }
}
