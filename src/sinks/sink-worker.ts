// Sends the usage of calls to the sinks of workspaces: as trace spans in batches, or as an object for each hour or day. At least
// once, and again with growing pauses until it is accepted, or the sink is disabled.

import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { createLeasedWork, type LeasedWork } from "../base/async/leased-work.ts";
import {
  decrypt,
  type DerivedKey,
  deriveKey,
  type MasterSecret,
} from "../base/crypto/encryption.ts";
import { newId } from "../base/id.ts";
import { isObject, type JsonObject, parseObject, valueAt, arrayIn } from "../base/json.ts";
import type { Log } from "../base/log.ts";
import { parseEndpoint, type ResolveHost } from "../base/network/public-endpoint.ts";
import {
  backoffMs,
  failureOf,
  send,
  type SendRequest,
  type SendResult,
} from "../base/network/send-to-endpoint.ts";
import { MINUTE_MS, SECOND_MS, utcDay } from "../base/time.ts";
import type { Prompt, PromptLog } from "../prompt-log/prompt-log.ts";
import type { Db } from "../store/db.ts";
import { otlpJson } from "../telemetry/otlp.ts";
import { idsOfRecord, type Span, spanOf } from "../telemetry/span.ts";
import { toCsv } from "../usage/csv.ts";
import { readUsageByIds } from "../usage/usage-list.ts";
import { toUsageRecord } from "../usage/usage-record.ts";
import type { UsageRecord } from "../usage/usage.ts";
import { presignPut } from "./presign-put.ts";
import {
  endedPeriodAt,
  fixObject,
  leaseSink,
  listDueSinks,
  nextPeriodAt,
  readQueuedCalls,
  recordSent,
  releaseSink,
  type S3Settings,
  type Sink,
  type SinkId,
  type SinkLease,
} from "./sink-rows.ts";
import { recordSinkFailure, SINK_PURPOSE, sinkBinding } from "./sinks.ts";

/** Requests in flight at once. */
const SINKS_MAX = 16;
const SPANS_MAX = 200;
/** With texts, a batch can have some megabytes. */
const SPANS_WITH_TEXTS_MAX = 10;
/** After a failure, which can be the size of a batch. */
const SPANS_AFTER_FAILURE = 5;
/** After more failures in a row, calls are sent alone: one of them may be what is refused. */
const ALONE_AFTER_FAILURES = 2;
/** A call that is refused alone after so many failures is left out, so that the others are sent. */
const LEFT_OUT_AFTER_FAILURES = 5;
/** The statuses of a request that is refused for its content. */
const REFUSALS: ReadonlySet<number | null> = new Set([400, 413, 422]);
const TEXT_MAX_CHARACTERS = 100_000;
const OBJECT_CALLS_MAX = 10_000;
const TIMEOUT_MS = 10 * SECOND_MS;
const OBJECT_TIMEOUT_MS = MINUTE_MS;
/** Longer than a request takes. */
const LEASE_MS = 3 * MINUTE_MS;
const RESPONSE_MAX_BYTES = 1_024;

export interface SinkWorkerDeps {
  readonly db: Db;
  readonly log: Log;
  readonly now: () => number;
  readonly master: MasterSecret;
  readonly promptLog: Pick<PromptLog, "read">;
  readonly version: string;
  /** Development only. */
  readonly allowLoopback: boolean;
  readonly resolve: ResolveHost;
}

const compress = promisify(gzip);

export function createSinkWorker(deps: SinkWorkerDeps): LeasedWork {
  const { db, log, now } = deps;
  const key = deriveKey(deps.master, SINK_PURPOSE);
  return createLeasedWork<SinkId>({
    max: SINKS_MAX,
    listDue: (limit) => listDueSinks(db, now(), limit),
    run: (id, signal) => sendDue(id, deps, key, signal),
    onError: ({ accountId, name }, cause) =>
      log.error("failed to record the delivery of a sink", {
        account: accountId,
        sink: name,
        cause,
      }),
  });
}

async function sendDue(
  id: SinkId,
  deps: SinkWorkerDeps,
  key: DerivedKey,
  signal: AbortSignal,
): Promise<void> {
  const { db, now, log } = deps;
  const lease: SinkLease = { ...id, lease: newId("dlv", now()), now: now() };
  const sink = await db.write((tx) => leaseSink(tx, lease, lease.now + LEASE_MS));
  if (sink === undefined) return;
  const secret =
    sink.sealed === null ? "" : decrypt(key, sinkBinding(id.accountId, id.name), sink.sealed);
  const outgoing = await requestOf(sink, secret, deps);
  if (outgoing === undefined) {
    const { settings } = sink;
    const dueAt = settings.type === "s3" ? nextPeriodAt(settings, now()) : now();
    await db.write((tx) => releaseSink(tx, lease, dueAt));
    return;
  }
  const { calls, dueAt, request } = outgoing;
  const sent = await send({
    ...request,
    endpoint: parseEndpoint(request.url, deps.allowLoopback),
    headers: { ...request.headers, "user-agent": "Postern-Sinks" },
    responseMaxBytes: RESPONSE_MAX_BYTES,
    resolve: deps.resolve,
    signal,
  });
  // The end of the process is no failure of the destination.
  if (signal.aborted && sent.status === null) return;
  const error = errorOf(sent);
  const ended = { ...lease, now: now() };
  if (error === undefined) {
    await db.write((tx) => recordSent(tx, ended, { queue: sink.queue, calls, dueAt }));
    return;
  }
  const retryAt = ended.now + backoffMs(sink.tries, sent.retryAfterMs);
  const isRefused = sink.settings.type === "otlp" && REFUSALS.has(sent.status);
  const isLeftOut = isRefused && calls.length === 1 && sink.tries >= LEFT_OUT_AFTER_FAILURES;
  const [leftOut, tries] = isLeftOut ? [calls, ALONE_AFTER_FAILURES] : [[], sink.tries + 1];
  if (isLeftOut) log.warn("a sink refuses a call", { account: id.accountId, sink: id.name, error });
  const dueAtNext = isLeftOut ? ended.now : retryAt;
  const failure = { ...ended, error, dueAt: dueAtNext, tries, leftOut };
  const disabled = await db.write((tx) => recordSinkFailure(tx, failure));
  if (disabled !== undefined)
    log.warn("sink disabled", { account: id.accountId, sink: id.name, reason: disabled });
}

interface Outgoing {
  readonly request: Pick<SendRequest, "method" | "headers" | "body" | "timeoutMs"> & {
    readonly url: string;
  };
  /** The calls that it sends. */
  readonly calls: readonly string[];
  /** When the sink is due again if it is accepted. */
  readonly dueAt: number;
}

/** Undefined if no call waits. */
function requestOf(
  sink: Sink,
  secret: string,
  deps: SinkWorkerDeps,
): Promise<Outgoing | undefined> {
  const { settings } = sink;
  return settings.type === "s3"
    ? objectRequest(sink, settings, secret, deps)
    : spanRequest(sink, settings.include_texts, secret, deps);
}

async function spanRequest(
  sink: Sink,
  hasTexts: boolean,
  secret: string,
  { db, now, promptLog, version }: SinkWorkerDeps,
): Promise<Outgoing | undefined> {
  const calls = await readQueuedCalls(db, sink, spansMax(sink, hasTexts));
  if (calls.length === 0) return undefined;
  const { accountId, settings } = sink;
  const records = await readUsageByIds(db, accountId, calls);
  const texts: ReadonlyMap<string, Prompt> = hasTexts
    ? await promptLog.read(db, accountId, calls, now())
    : new Map();
  const spans = records.map((record) => spanWithTexts(record, texts.get(record.id)));
  return {
    calls,
    dueAt: now(),
    request: {
      url: settings.url,
      // Safe because `saveSink` seals the headers as JSON.
      headers: secret === "" ? {} : (JSON.parse(secret) as Readonly<Record<string, string>>),
      body: otlpJson({ serviceName: "postern", version }, spans),
      timeoutMs: TIMEOUT_MS,
    },
  };
}

function spansMax({ tries }: Sink, hasTexts: boolean): number {
  if (tries >= ALONE_AFTER_FAILURES) return 1;
  if (tries > 0) return SPANS_AFTER_FAILURE;
  return hasTexts ? SPANS_WITH_TEXTS_MAX : SPANS_MAX;
}

function spanWithTexts(record: UsageRecord, prompt: Prompt | undefined): Span {
  const call = { record, requestedModel: record.model, parent: undefined };
  const span = spanOf(call, idsOfRecord(record));
  if (prompt === undefined) return span;
  const { request, reply } = prompt;
  const attributes = {
    ...span.attributes,
    "gen_ai.input.messages": inputMessages(request.slice(0, TEXT_MAX_CHARACTERS)),
    "gen_ai.output.messages":
      reply === null ? undefined : outputMessages(reply.slice(0, TEXT_MAX_CHARACTERS)),
  };
  return { ...span, attributes };
}

async function objectRequest(
  sink: Sink,
  settings: S3Settings,
  secret: string,
  { db, now }: SinkWorkerDeps,
): Promise<Outgoing | undefined> {
  const nameOf = (firstCall: string): string => objectName(settings, now(), firstCall);
  const limit = OBJECT_CALLS_MAX;
  const object = await db.write((tx) => fixObject(tx, sink, { limit, nameOf }));
  if (object === undefined) return undefined;
  const records = await readUsageByIds(db, sink.accountId, object.calls);
  const rest = await readQueuedCalls(db, sink, object.calls.length + 1);
  const isLast = rest.length === object.calls.length;
  return {
    calls: object.calls,
    dueAt: isLast ? nextPeriodAt(settings, now()) : now(),
    request: {
      method: "PUT",
      url: presignPut(settings, secret, object.name),
      headers: { "content-type": "application/gzip" },
      body: await compress(await objectText(settings, records)),
      timeoutMs: OBJECT_TIMEOUT_MS,
    },
  };
}

/** By the period that has ended and the first call: another object of the period has another first call. */
function objectName(settings: S3Settings, now: number, firstCall: string): string {
  const { prefix, every, format } = settings;
  const at = endedPeriodAt(settings, now);
  const day = utcDay(at);
  const hour = every === "hour" ? `T${new Date(at).toISOString().slice(11, 13)}` : "";
  return `${prefix}${day}/usage-${day}${hour}-${firstCall}.${format}.gz`;
}

async function objectText(
  { format }: S3Settings,
  records: readonly UsageRecord[],
): Promise<string> {
  if (format === "csv") return await toCsv(records);
  return records.map((record) => `${JSON.stringify(toUsageRecord(record))}\n`).join("");
}

/** With the code of an error of S3, which says more than the status. */
function errorOf(sent: SendResult): string | undefined {
  const error = failureOf(sent);
  const code = /<Code>(\w{1,60})<\/Code>/.exec(sent.response)?.[1];
  return error === undefined || code === undefined ? error : `${error} ${code}`;
}

// The messages of a logged request and reply, as the semantic conventions for generative AI write them: roles with text parts.
// What is not text, such as an image, is left out; a form that is not known here is one text.

interface Message {
  readonly role: string;
  readonly parts: readonly { readonly type: "text"; readonly content: string }[];
}

export function inputMessages(request: string): string {
  const json = parseObject(request);
  if (json === undefined) return toText([messageOf("user", request)]);
  const { messages, input, contents, system, instructions, prompt } = json;
  const turns = [messages, input, contents, prompt].find((one) => one !== undefined);
  const found = [
    ...[system, instructions].map((text) => messageOf("system", text)),
    ...(Array.isArray(turns) ? turns.map(toMessage) : [messageOf("user", turns)]),
  ].filter(({ parts }) => parts.length > 0);
  return toText(found.length === 0 ? [messageOf("user", request)] : found);
}

export function outputMessages(reply: string): string {
  const json = parseObject(reply);
  const texts = json === undefined ? streamedTexts(reply) : replyTexts(json);
  return toText([messageOf("assistant", texts.length === 0 ? reply : texts.join(""))]);
}

function toText(messages: readonly Message[]): string {
  return JSON.stringify(messages);
}

function toMessage(one: unknown): Message {
  if (!isObject(one)) return messageOf("user", one);
  const { role, content, parts, text } = one;
  const name = typeof role === "string" ? role : "user";
  return messageOf(name === "model" ? "assistant" : name, content ?? parts ?? text);
}

function messageOf(role: string, content: unknown): Message {
  const parts = textsIn(content).map((text) => ({ type: "text", content: text }) as const);
  return { role, parts };
}

/** The texts in a text or in a list of parts. */
function textsIn(content: unknown): readonly string[] {
  if (typeof content === "string") return [content];
  if (!Array.isArray(content)) return [];
  return content.flatMap((part: unknown) =>
    isObject(part) && typeof part["text"] === "string" ? [part["text"]] : [],
  );
}

function replyTexts({ choices, content, output, candidates }: JsonObject): readonly string[] {
  return [
    ...arrayIn(choices).flatMap((one) => textsIn(valueAt({ one }, ["one", "message", "content"]))),
    ...textsIn(content),
    ...arrayIn(output).flatMap((one) => textsIn(valueAt({ one }, ["one", "content"]))),
    ...arrayIn(candidates).flatMap((one) => textsIn(valueAt({ one }, ["one", "content", "parts"]))),
  ];
}

const DATA_LINE = /^data: ?(\{.*)$/gm;

/** The deltas of each API. */
function streamedTexts(stream: string): readonly string[] {
  return [...stream.matchAll(DATA_LINE)].flatMap(([, data = ""]) => {
    const event = parseObject(data) ?? {};
    const { delta, choices, candidates, type } = event;
    if (type === "response.output_text.delta") return textsIn(delta);
    if (type === "content_block_delta") return textsIn([delta]);
    if (candidates !== undefined) return replyTexts({ candidates });
    return arrayIn(choices).flatMap((one) =>
      textsIn(valueAt({ one }, ["one", "delta", "content"])),
    );
  });
}
