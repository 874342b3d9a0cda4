// The batch APIs of OpenAI (with its files) and Anthropic. A batch runs its requests one after the other, as calls to the
// simulator itself. `POST /sim/batches` sets faults of later requests.

import { isObject, type JsonObject, stringOrEmpty } from "./json-readers.ts";

/** Set by `POST /sim/batches`; each member stays until it is set again. */
interface BatchFaults {
  /** Batches wait until this is false. */
  readonly hold?: boolean;
  /** A new batch is made, and its reply is this status instead. */
  readonly lose_reply?: number;
  /** A new batch is made, and its reply comes so late. */
  readonly delay_reply_ms?: number;
  /** A new batch is refused with this status. */
  readonly refuse?: number;
  /** Only so many requests run; the others expire. */
  readonly expire_after?: number;
  /** So many results are missing at the end. */
  readonly drop_results?: number;
  /** The replies to the first requests are these instead. */
  readonly replace_replies?: readonly JsonObject[];
  /** Each result is in the results so many times more. */
  readonly repeat_results?: number;
  /** The whole batch fails with this code, because of this line if there is one. OpenAI's form only. */
  readonly fail?: { readonly code: string; readonly line?: number };
}

interface StoredFile {
  readonly id: string;
  readonly text: string;
  readonly createdAt: number;
}

interface Item {
  readonly customId: string;
  readonly url: string;
  readonly body: JsonObject;
  state: "pending" | "done" | "expired" | "canceled";
  status: number;
  result: JsonObject;
}

interface Batch {
  readonly id: string;
  readonly form: "openai" | "anthropic";
  readonly createdAt: number;
  readonly endpoint: string;
  readonly inputFileId: string | null;
  readonly metadata: unknown;
  readonly items: readonly Item[];
  failure: JsonObject | undefined;
  isCanceling: boolean;
  isEnded: boolean;
  outputFileId: string | null;
  errorFileId: string | null;
}

export interface SimulatedBatches {
  /** Undefined for a path that is not of these APIs. */
  readonly handle: (request: Request) => Promise<Response> | undefined;
  readonly reset: () => void;
}

interface BatchDeps {
  readonly now: () => number;
  readonly fetch: (request: Request) => Promise<Response>;
}

const PATH =
  /^(.*?)\/(messages\/batches|batches|files)(?:\/([\w-]+))?(?:\/(cancel|results|content))?$/;
const PAGE = 20;
const HELD_POLL_MS = 5;

interface BatchState extends BatchDeps {
  readonly files: Map<string, StoredFile>;
  readonly batches: Map<string, Batch>;
  faults: BatchFaults;
  count: number;
  /** How often a batch was retrieved. */
  reads: number;
}

export function createSimulatedBatches({ now, fetch }: BatchDeps): SimulatedBatches {
  const state: BatchState = {
    now,
    fetch,
    files: new Map(),
    batches: new Map(),
    faults: {},
    count: 0,
    reads: 0,
  };
  return {
    handle: (request) => {
      const { pathname } = new URL(request.url);
      if (pathname === "/sim/batches") return setFaults(state, request);
      const match = PATH.exec(pathname);
      if (match === null) return undefined;
      const [, , kind = "", id = "", action = ""] = match;
      if (kind === "files") return handleFiles(state, request, [id, action]);
      const form = kind === "batches" ? "openai" : "anthropic";
      return handleBatches(state, request, form, [id, action]);
    },
    reset: () => {
      state.faults = {};
      for (const batch of state.batches.values()) batch.isCanceling = true;
      state.batches.clear();
      state.files.clear();
    },
  };
}

async function setFaults(state: BatchState, request: Request): Promise<Response> {
  if (request.method === "POST") {
    const set: unknown = await request.json();
    state.faults = isObject(set) ? set : {};
  }
  const { faults, batches, files, reads } = state;
  return Response.json({ faults, batches: batches.size, files: files.size, reads });
}

function newId(state: BatchState, prefix: string): string {
  state.count += 1;
  return `${prefix}${state.count.toString().padStart(8, "0")}`;
}

function addFile(state: BatchState, text: string): string {
  const id = newId(state, "file-sim");
  state.files.set(id, { id, text, createdAt: state.now() });
  return id;
}

async function handleFiles(
  state: BatchState,
  request: Request,
  [id, action]: readonly [string, string],
): Promise<Response> {
  const { files } = state;
  if (request.method === "POST" && id === "") {
    const file = (await request.formData()).get("file");
    if (!(file instanceof Blob)) return failed(400, "Missing required parameter: 'file'.");
    return Response.json(fileObject(state, addFile(state, await file.text())));
  }
  const file = files.get(id);
  if (file === undefined) return failed(404, `No such File object: ${id}`);
  if (request.method === "DELETE") {
    files.delete(id);
    return Response.json({ id, object: "file", deleted: true });
  }
  return action === "content" ? new Response(file.text) : Response.json(fileObject(state, id));
}

function fileObject({ files }: BatchState, id: string): JsonObject {
  const { text = "", createdAt = 0 } = files.get(id) ?? {};
  const created_at = Math.floor(createdAt / 1_000);
  return { id, object: "file", purpose: "batch", bytes: text.length, created_at };
}

async function create(state: BatchState, request: Request, form: Batch["form"]): Promise<Response> {
  const body: unknown = await request.json();
  if (!isObject(body)) return failed(400, "The body must be an object.");
  const { refuse, lose_reply: lost, delay_reply_ms: delayMs } = state.faults;
  if (refuse !== undefined) return failed(refuse, "The batch was refused.");
  const fileId = stringOrEmpty(body["input_file_id"]);
  const lines = form === "openai" ? linesOf(state.files.get(fileId)?.text) : body["requests"];
  if (!Array.isArray(lines)) return failed(400, `Invalid file: ${fileId}`);
  const batch: Batch = {
    id: newId(state, form === "openai" ? "batch_sim" : "msgbatch_sim"),
    form,
    createdAt: state.now(),
    endpoint: stringOrEmpty(body["endpoint"]),
    inputFileId: form === "openai" ? fileId : null,
    metadata: body["metadata"] ?? null,
    items: lines.filter(isObject).map(toItem),
    failure: undefined,
    isCanceling: false,
    isEnded: false,
    outputFileId: null,
    errorFileId: null,
  };
  state.batches.set(batch.id, batch);
  void run(state, batch, request);
  if (delayMs !== undefined) await pause(delayMs);
  return lost === undefined
    ? Response.json(view(batch, request.url))
    : failed(lost, "The server had an error while processing your request.");
}

async function run(state: BatchState, batch: Batch, request: Request): Promise<void> {
  const { fail, expire_after: runMax, drop_results: dropped = 0 } = state.faults;
  const { repeat_results: more = 0, replace_replies: replies = [] } = state.faults;
  if (fail !== undefined) {
    const { code, line = null } = fail;
    batch.failure = { object: "list", data: [{ code, message: `Batch failed: ${code}`, line }] };
    batch.isEnded = true;
    return;
  }
  for (const [index, item] of batch.items.entries()) {
    while (state.faults.hold === true && !batch.isCanceling) await pause(HELD_POLL_MS);
    if (batch.isCanceling) item.state = "canceled";
    else if (runMax !== undefined && index >= runMax) item.state = "expired";
    else await runItem(state, item, request);
    item.result = replies[index] ?? item.result;
  }
  const kept = batch.items
    .slice(0, batch.items.length - dropped)
    .flatMap((item) => Array.from({ length: 1 + more }, () => item));
  const results = { id: "", text: jsonl(kept.map(anthropicLine)), createdAt: 0 };
  if (batch.form === "anthropic") state.files.set(`results-${batch.id}`, results);
  else {
    const isOutput = ({ status }: Item): boolean => status === 200;
    batch.outputFileId = fileOf(state, kept.filter(isOutput));
    batch.errorFileId = fileOf(
      state,
      kept.filter((item) => !isOutput(item)),
    );
  }
  batch.isEnded = true;
}

async function runItem({ fetch }: BatchState, item: Item, request: Request): Promise<void> {
  const body = JSON.stringify(item.body);
  const headers = [...request.headers].filter(([name]) => name !== "content-length");
  const url = new URL(request.url).origin + item.url;
  const reply = await fetch(new Request(url, { method: "POST", headers, body }));
  const json: unknown = await reply.json().catch(() => ({}));
  item.status = reply.status;
  item.result = isObject(json) ? json : {};
  item.state = "done";
}

function fileOf(state: BatchState, items: readonly Item[]): string | null {
  return items.length === 0 ? null : addFile(state, jsonl(items.map(openaiLine)));
}

function list({ batches }: BatchState, url: URL, form: Batch["form"]): Response {
  const limit = Number(url.searchParams.get("limit") ?? PAGE);
  const after = url.searchParams.get(form === "openai" ? "after" : "after_id");
  const all = [...batches.values()].filter((batch) => batch.form === form).toReversed();
  const from = after === null ? 0 : all.findIndex(({ id }) => id === after) + 1;
  const data = all.slice(from, from + limit).map((batch) => view(batch, url.href));
  return Response.json({ object: "list", data, has_more: all.length > from + limit });
}

async function handleBatches(
  state: BatchState,
  request: Request,
  form: Batch["form"],
  [id, action]: readonly [string, string],
): Promise<Response> {
  const url = new URL(request.url);
  if (id === "")
    return request.method === "POST" ? create(state, request, form) : list(state, url, form);
  const batch = state.batches.get(id);
  if (batch?.form !== form) return failed(404, `No batch found with id '${id}'.`);
  if (request.method === "DELETE") {
    state.batches.delete(id);
    return Response.json({ id, type: "message_batch_deleted" });
  }
  if (action === "") state.reads += 1;
  if (action === "cancel") {
    if (batch.isEnded) return failed(409, "The batch has ended.");
    batch.isCanceling = true;
  }
  if (action === "results") return new Response(state.files.get(`results-${id}`)?.text ?? "");
  return Response.json(view(batch, request.url));
}

function linesOf(text: string | undefined): unknown[] | undefined {
  return text
    ?.split("\n")
    .filter((line) => line !== "")
    .map((line): unknown => JSON.parse(line));
}

function toItem(line: JsonObject): Item {
  const body = line["body"] ?? line["params"];
  return {
    customId: stringOrEmpty(line["custom_id"]),
    url: stringOrEmpty(line["url"]) || "/v1/messages",
    body: isObject(body) ? body : {},
    state: "pending",
    status: 0,
    result: {},
  };
}

function view(batch: Batch, url: string): JsonObject {
  return batch.form === "openai" ? openaiView(batch) : anthropicView(batch, url);
}

function openaiView(batch: Batch): JsonObject {
  const { id, endpoint, inputFileId, metadata, items, failure } = batch;
  const isExpired = items.some(({ state }) => state === "expired");
  const ended =
    failure !== undefined
      ? "failed"
      : batch.isCanceling
        ? "cancelled"
        : isExpired
          ? "expired"
          : "completed";
  const running = batch.isCanceling ? "cancelling" : "in_progress";
  return {
    id,
    object: "batch",
    endpoint,
    errors: failure ?? null,
    input_file_id: inputFileId,
    completion_window: "24h",
    status: batch.isEnded ? ended : running,
    output_file_id: batch.outputFileId,
    error_file_id: batch.errorFileId,
    created_at: Math.floor(batch.createdAt / 1_000),
    request_counts: {
      total: items.length,
      completed: items.filter(({ status }) => status === 200).length,
      failed: items.filter(({ state, status }) => state === "done" && status !== 200).length,
    },
    metadata,
  };
}

function anthropicView(
  { id, items, createdAt, isEnded, isCanceling }: Batch,
  url: string,
): JsonObject {
  const countOf = (is: (item: Item) => boolean): number => items.filter(is).length;
  const time = new Date(createdAt).toISOString();
  return {
    id,
    type: "message_batch",
    processing_status: isEnded ? "ended" : isCanceling ? "canceling" : "in_progress",
    request_counts: {
      processing: countOf(({ state }) => state === "pending"),
      succeeded: countOf(({ status }) => status === 200),
      errored: countOf(({ state, status }) => state === "done" && status !== 200),
      canceled: countOf(({ state }) => state === "canceled"),
      expired: countOf(({ state }) => state === "expired"),
    },
    created_at: time,
    ended_at: isEnded ? time : null,
    cancel_initiated_at: isCanceling ? time : null,
    results_url: isEnded ? `${new URL(url).origin}/v1/messages/batches/${id}/results` : null,
  };
}

const NOT_RUN: Readonly<Record<string, string>> = {
  expired: "batch_expired",
  canceled: "batch_cancelled",
};

function openaiLine({ customId, state, status, result }: Item): JsonObject {
  const code = NOT_RUN[state];
  return code === undefined
    ? { custom_id: customId, response: { status_code: status, body: result }, error: null }
    : { custom_id: customId, response: null, error: { code, message: code } };
}

function anthropicLine({ customId, state, status, result }: Item): JsonObject {
  if (state !== "done") return { custom_id: customId, result: { type: state } };
  if (status !== 200) return { custom_id: customId, result: { type: "errored", error: result } };
  const usage = isObject(result["usage"]) ? result["usage"] : {};
  const message = { ...result, usage: { ...usage, service_tier: "batch" } };
  return { custom_id: customId, result: { type: "succeeded", message } };
}

function jsonl(lines: readonly JsonObject[]): string {
  return lines.map((line) => `${JSON.stringify(line)}\n`).join("");
}

function failed(status: number, message: string): Response {
  const error = { message, type: "invalid_request_error", param: null, code: null };
  return Response.json({ type: "error", error }, { status });
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
