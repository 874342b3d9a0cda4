// The batch APIs of OpenAI (with its files), Anthropic, Google, Mistral and Together, whose paths begin with /together. A batch runs
// its requests one after the other, as calls to the simulator itself. `POST /sim/batches` sets faults of later requests.

import {
  anthropicLine,
  type Batch,
  type Form,
  geminiResult,
  geminiView,
  type Item,
  openaiLine,
  stateOf,
  togetherError,
  togetherView,
  view,
} from "./batch-views.ts";
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
  /** The first so many results have no key. Google's only. */
  readonly omit_keys?: number;
  /** The results have the ids of another batch. OpenAI's form only. */
  readonly foreign_ids?: boolean;
  /** The reply to the request of this number, counted from when it was set, never comes. */
  readonly stall_at?: number;
  /** The whole batch fails with this code, because of this line if there is one. Not Anthropic's. */
  readonly fail?: { readonly code: string; readonly line?: number };
}

interface StoredFile {
  readonly id: string;
  readonly text: string;
  readonly createdAt: number;
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
  /^(.*?)\/(messages\/batches|batch\/jobs|batches|files)(?:\/(?!upload$)([\w-]+))?(?:[/:](cancel|results|content|upload))?$/;
const GEMINI_CREATE = /\/models\/([^/:]+):batchGenerateContent$/;
const PAGE = 20;
const HELD_POLL_MS = 5;

interface BatchState extends BatchDeps {
  readonly files: Map<string, StoredFile>;
  readonly batches: Map<string, Batch>;
  faults: BatchFaults;
  count: number;
  /** How often a batch was retrieved, how often they were listed, and how many new ones were refused. */
  reads: number;
  lists: number;
  refused: number;
  /** Requests since the faults were set, and whether the reply to one was withheld. */
  requests: number;
  isStalled: boolean;
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
    lists: 0,
    refused: 0,
    requests: 0,
    isStalled: false,
  };
  return {
    handle: (request) => {
      const { pathname } = new URL(request.url);
      if (pathname === "/sim/batches") return setFaults(state, request);
      const reply = dispatch(state, request, pathname);
      return reply && stall(state, reply);
    },
    reset: () => {
      state.faults = {};
      for (const batch of state.batches.values()) batch.isCanceling = true;
      state.batches.clear();
      state.files.clear();
    },
  };
}

function dispatch(
  state: BatchState,
  request: Request,
  pathname: string,
): Promise<Response> | undefined {
  if (GEMINI_CREATE.test(pathname)) return create(state, request, "gemini");
  const match = PATH.exec(pathname);
  if (match === null) return undefined;
  const [, root = "", kind = "", id = "", action = ""] = match;
  if (kind === "files") return handleFiles(state, request, [id, action]);
  return handleBatches(state, request, formOf(request, root, kind), [id, action]);
}

async function stall(state: BatchState, reply: Promise<Response>): Promise<Response> {
  state.requests += 1;
  if (state.requests !== state.faults.stall_at) return reply;
  await reply;
  state.isStalled = true;
  return new Promise(() => {});
}

function formOf({ headers }: Request, root: string, kind: string): Form {
  if (kind === "messages/batches") return "anthropic";
  if (kind === "batch/jobs") return "mistral";
  if (headers.has("x-goog-api-key")) return "gemini";
  return root.startsWith("/together") ? "together" : "openai";
}

async function setFaults(state: BatchState, request: Request): Promise<Response> {
  if (request.method === "POST") {
    const set: unknown = await request.json();
    state.faults = isObject(set) ? set : {};
    state.requests = 0;
    state.isStalled = false;
  }
  const { faults, batches, files, reads, lists, refused, isStalled: stalled } = state;
  const counts = { batches: batches.size, files: files.size, reads, lists, refused };
  return Response.json({ faults, ...counts, stalled });
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
    const form = await request.formData();
    const file = form.get("file");
    if (!(file instanceof Blob)) return failed(400, "Missing required parameter: 'file'.");
    if (action === "upload" && form.get("file_name") === null)
      return failed(400, "Missing required fields");
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
  if (refuse !== undefined) {
    state.refused += 1;
    return failed(refuse, "The batch was refused.");
  }
  const batch = newBatch(state, body, { form, url: request.url });
  if (batch === undefined) return failed(400, "Invalid input file.");
  state.batches.set(batch.id, batch);
  void run(state, batch, request);
  if (delayMs !== undefined) await pause(delayMs);
  if (lost === undefined && form === "together")
    return Response.json({ job: togetherView(batch) }, { status: 201 });
  return lost === undefined
    ? Response.json(view(batch, request.url))
    : failed(lost, "The server had an error while processing your request.");
}

/** Undefined without its requests. */
function newBatch(
  state: BatchState,
  body: JsonObject,
  { form, url }: { readonly form: Form; readonly url: string },
): Batch | undefined {
  const [firstFile]: readonly unknown[] = Array.isArray(body["input_files"])
    ? body["input_files"]
    : [];
  const fileId = stringOrEmpty(body["input_file_id"] ?? firstFile);
  const google = isObject(body["batch"]) ? body["batch"] : {};
  const lines = inlineLines(form, body, google) ?? linesOf(state.files.get(fileId)?.text);
  if (!Array.isArray(lines)) return undefined;
  const [, pathModel = ""] = GEMINI_CREATE.exec(new URL(url).pathname) ?? [];
  const endpoint = stringOrEmpty(body["endpoint"]);
  const model = pathModel || stringOrEmpty(body["model"]);
  return {
    id: newId(state, ID_PREFIXES[form]),
    form,
    createdAt: state.now(),
    endpoint,
    inputFileId: fileId === "" ? null : fileId,
    model,
    name: stringOrEmpty(google["display_name"]),
    metadata: body["metadata"] ?? null,
    items: lines.filter(isObject).map((line) => toItem(line, { form, endpoint, model })),
    failure: undefined,
    isCanceling: false,
    isEnded: false,
    outputFileId: null,
    errorFileId: null,
  };
}

const ID_PREFIXES: Readonly<Record<Form, string>> = {
  openai: "batch_sim",
  anthropic: "msgbatch_sim",
  gemini: "sim",
  mistral: "job-sim",
  together: "batch-sim",
};

/** The requests of a form that has them in the body. */
function inlineLines(form: Form, body: JsonObject, google: JsonObject): unknown {
  if (form === "anthropic") return body["requests"];
  if (form !== "gemini") return undefined;
  const { requests: outer } = isObject(google["input_config"]) ? google["input_config"] : {};
  return isObject(outer) ? outer["requests"] : undefined;
}

async function run(state: BatchState, batch: Batch, request: Request): Promise<void> {
  const { fail, expire_after: runMax, replace_replies: replies = [] } = state.faults;
  if (fail !== undefined) {
    batch.failure = { code: fail.code, line: fail.line ?? null };
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
  const kept = withResults(batch.items, state.faults);
  const results = { id: "", text: jsonl(kept.map(anthropicLine)), createdAt: 0 };
  if (batch.form === "anthropic") state.files.set(`results-${batch.id}`, results);
  else if (batch.form === "gemini") {
    const { omit_keys: omitted = 0 } = state.faults;
    const lines = kept.map((item, index) => geminiResult(item, index >= omitted));
    state.files.set(`results-${batch.id}`, { ...results, text: jsonl(lines) });
  } else {
    const isOutput = ({ status }: Item): boolean => status === 200;
    const [output, errors] = [kept.filter(isOutput), kept.filter((item) => !isOutput(item))];
    batch.outputFileId = fileOf(state, output.map(openaiLine));
    const errorLine = batch.form === "together" ? togetherError : openaiLine;
    batch.errorFileId = fileOf(state, errors.map(errorLine));
  }
  batch.isEnded = true;
}

/** The items that have results, as often as they have one. */
function withResults(
  items: readonly Item[],
  { drop_results: dropped = 0, repeat_results: more = 0, foreign_ids: isForeign }: BatchFaults,
): readonly Item[] {
  return items.slice(0, items.length - dropped).flatMap((item) => {
    const customId = isForeign === true ? foreignId(item.customId) : item.customId;
    const result = { ...item, customId };
    return Array.from({ length: 1 + more }, () => result);
  });
}

/** Of the same length, and with the same positions. */
function foreignId(customId: string): string {
  return customId.replace(/[0-9a-z](?=-\d+$)/, (last) => (last === "0" ? "1" : "0"));
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

function fileOf(state: BatchState, lines: readonly JsonObject[]): string | null {
  return lines.length === 0 ? null : addFile(state, jsonl(lines));
}

function list(state: BatchState, url: URL, form: Batch["form"]): Response {
  const { batches } = state;
  state.lists += 1;
  const given = ["limit", "page_size", "pageSize"].map((name) => url.searchParams.get(name));
  const limit = Number(given.find((one) => one !== null) ?? PAGE);
  const after = url.searchParams.get(form === "openai" ? "after" : "after_id");
  const all = [...batches.values()].filter((batch) => batch.form === form).toReversed();
  const page = Number(url.searchParams.get("page") ?? 0);
  const from = after === null ? page * limit : all.findIndex(({ id }) => id === after) + 1;
  const data = all.slice(from, from + limit).map((batch) => view(batch, url.href));
  if (form === "together") return Response.json(all.map((batch) => view(batch, url.href)));
  if (form === "gemini") return Response.json({ operations: data });
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
    state.files.delete(`results-${id}`);
    return Response.json({ id, type: "message_batch_deleted" });
  }
  if (action === "") state.reads += 1;
  if (action === "cancel") {
    if (batch.isEnded) return failed(409, "The batch has ended.");
    batch.isCanceling = true;
  }
  if (action === "results") return new Response(state.files.get(`results-${id}`)?.text ?? "");
  if (form !== "gemini" || !batch.isEnded) return Response.json(view(batch, request.url));
  return Response.json(geminiResults(state, batch));
}

/** The operation, with its results: one that was canceled or has expired has none. */
function geminiResults({ files }: BatchState, batch: Batch): JsonObject {
  const operation = geminiView(batch);
  if (stateOf(batch) !== "completed") return operation;
  const responses = linesOf(files.get(`results-${batch.id}`)?.text) ?? [];
  return { ...operation, response: { inlinedResponses: { inlinedResponses: responses } } };
}

function linesOf(text: string | undefined): unknown[] | undefined {
  return text
    ?.split("\n")
    .filter((line) => line !== "")
    .map((line): unknown => JSON.parse(line));
}

function toItem(
  line: JsonObject,
  { form, endpoint, model }: Pick<Batch, "form" | "endpoint" | "model">,
): Item {
  const body = line["body"] ?? line["params"] ?? line["request"];
  const { key } = isObject(line["metadata"]) ? line["metadata"] : {};
  const url = form === "gemini" ? `/v1/models/${model}:generateContent` : "/v1/messages";
  return {
    customId: stringOrEmpty(line["custom_id"] ?? key),
    url: stringOrEmpty(line["url"]) || endpoint || url,
    // Mistral's lines have no model: the job has it.
    body: { ...(isObject(body) ? body : {}), ...(form === "mistral" && { model }) },
    state: "pending",
    status: 0,
    result: {},
  };
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
