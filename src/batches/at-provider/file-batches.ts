// Batch APIs of OpenAI's form: the requests are a file, and so are the results. Groq has OpenAI's; Mistral and Together differ in
// paths and in the names of fields.

import { isObject, type JsonObject, parseObject } from "../../base/json.ts";
import type { UpstreamWire } from "../../inference/providers/providers.ts";
import {
  CLOCK_SKEW_MS,
  idIn,
  LIST_PAGE,
  type LostSubmission,
  type ProviderBatchApi,
  readJsonLines,
  type Remote,
  type RemoteBatch,
  type RemoteFailure,
  type RemoteLine,
  type RemoteResult,
  requestJson,
  tryDelete,
} from "./provider-batch-api.ts";

interface NewBatch {
  readonly fileId: string | null;
  readonly endpoint: string;
  readonly model: string;
}

interface FileBatchForm {
  readonly path: string;
  readonly uploadPath: string;
  /** Fields of the form beside the file. */
  readonly uploadFields: (filename: string) => Readonly<Record<string, string>>;
  readonly toLine: (line: RemoteLine, endpoint: string) => string;
  readonly toBody: (batch: NewBatch) => JsonObject;
  /** The query of a page, newest first; undefined after the first page of an API without pages. */
  readonly listQuery: (page: ListPage) => string | undefined;
}

interface ListPage {
  readonly number: number;
  /** The last batch of the page before. */
  readonly after: string | undefined;
}

const ENDPOINTS: Partial<Record<UpstreamWire, string>> = {
  chat: "/v1/chat/completions",
  responses: "/v1/responses",
  embeddings: "/v1/embeddings",
};
/** What a crash leaves of an upload is deleted by a provider that knows these fields. */
const EXPIRY = { "expires_after[anchor]": "created_at", "expires_after[seconds]": "259200" };
const SUBMISSION_MAX_BYTES = 32 * 1_048_576;

const OPENAI_FORM: FileBatchForm = {
  path: "/batches",
  uploadPath: "/files",
  uploadFields: () => ({ purpose: "batch", ...EXPIRY }),
  toLine: ({ customId, body }, endpoint) =>
    `{"custom_id":${JSON.stringify(customId)},"method":"POST","url":"${endpoint}","body":${body}}`,
  toBody: ({ fileId, endpoint }) => ({
    input_file_id: fileId,
    endpoint,
    completion_window: "24h",
  }),
  listQuery: ({ after }) => `?limit=${LIST_PAGE}${after === undefined ? "" : `&after=${after}`}`,
};

export const openaiBatches = fileBatches(OPENAI_FORM);

export const mistralBatches = fileBatches({
  path: "/batch/jobs",
  uploadPath: "/files",
  uploadFields: () => ({ purpose: "batch" }),
  // The job names the model of all lines.
  toLine: ({ customId, body: text }) => {
    const { model: _model, ...body } = parseObject(text) ?? {};
    return JSON.stringify({ custom_id: customId, body });
  },
  toBody: ({ fileId, endpoint, model }) => ({
    input_files: [fileId],
    endpoint,
    model,
    timeout_hours: 24,
  }),
  listQuery: ({ number }) => `?page_size=${LIST_PAGE}&page=${number}&order_by=-created`,
});

export const togetherBatches = fileBatches({
  ...OPENAI_FORM,
  uploadPath: "/files/upload",
  uploadFields: (filename) => ({ purpose: "batch-api", file_name: filename }),
  toLine: ({ customId, body }) => `{"custom_id":${JSON.stringify(customId)},"body":${body}}`,
  listQuery: ({ number }) => (number === 0 ? "" : undefined),
});

function fileBatches(form: FileBatchForm): ProviderBatchApi {
  const { path, uploadPath } = form;
  return {
    maxBytes: SUBMISSION_MAX_BYTES,
    lineOf: (line, wire) => form.toLine(line, endpointOf(wire)),
    upload: async (remote, { tag, lines }) => {
      const filename = `${tag}.jsonl`;
      const body = new FormData();
      for (const [name, value] of Object.entries(form.uploadFields(filename)))
        body.set(name, value);
      body.set("file", new Blob([`${lines.join("\n")}\n`]), filename);
      return idIn(await requestJson(remote, { method: "POST", path: uploadPath, body }));
    },
    create: async (remote, { tag, fileId }) => {
      const endpoint = endpointOf(remote.wire);
      const body = JSON.stringify(form.toBody({ fileId, endpoint, model: remote.model }));
      const headers = { "idempotency-key": tag };
      const json = await requestJson(remote, { method: "POST", path, body, headers });
      return idIn(isObject(json["job"]) ? json["job"] : json);
    },
    find: (remote, lost) => findByFile(form, remote, lost),
    read: async (remote, id) =>
      toRemoteBatch(await requestJson(remote, { method: "GET", path: `${path}/${id}` })),
    readResults: readJsonLines,
    resultOf,
    cancel: async (remote, id) => {
      await requestJson(remote, { method: "POST", path: `${path}/${id}/cancel`, body: "{}" });
    },
    remove: async (remote, { fileIds }) => {
      for (const id of fileIds) await tryDelete(remote, `/files/${id}`);
    },
  };
}

function endpointOf(wire: UpstreamWire): string {
  const endpoint = ENDPOINTS[wire];
  if (endpoint === undefined) throw new Error(`no batches for ${wire}`);
  return endpoint;
}

/** Each submission has an upload of its own. */
async function findByFile(
  { path, listQuery }: FileBatchForm,
  remote: Remote,
  { fileId, attemptedAt }: LostSubmission,
): ReturnType<ProviderBatchApi["find"]> {
  let after: string | undefined;
  for (let number = 0; ; number++) {
    const query = listQuery({ number, after });
    if (query === undefined) return "absent";
    const json = await requestJson(remote, { method: "GET", path: path + query });
    const list: unknown = Array.isArray(json) ? json : json["data"];
    const page = Array.isArray(list) ? list.filter(isObject) : [];
    const found = page.find((batch) => fileIdsOf(batch).input === fileId);
    if (found !== undefined) return { id: idIn(found) };
    const last = page.at(-1);
    if (last === undefined || page.length < LIST_PAGE) return "absent";
    if (createdAt(last) < attemptedAt - CLOCK_SKEW_MS) return "absent";
    after = idIn(last);
  }
}

function createdAt({ created_at: at }: JsonObject): number {
  return typeof at === "number" ? at * 1_000 : Date.parse(String(at));
}

function fileIdsOf(batch: JsonObject) {
  const [first]: readonly unknown[] = Array.isArray(batch["input_files"])
    ? batch["input_files"]
    : [];
  return {
    input: batch["input_file_id"] ?? first,
    output: batch["output_file_id"] ?? batch["output_file"],
    errors: batch["error_file_id"] ?? batch["error_file"],
  };
}

/** The states in which a batch has ended, in small letters. */
const ENDS: Readonly<Record<string, RemoteBatch["unprocessed"] | "failed">> = {
  completed: "errored",
  success: "errored",
  failed: "failed",
  expired: "expired",
  timeout_exceeded: "expired",
  cancelled: "canceled",
};

function toRemoteBatch(json: JsonObject): RemoteBatch {
  const { input, output, errors } = fileIdsOf(json);
  const isId = (id: unknown): id is string => typeof id === "string" && /^[\w-]{1,200}$/.test(id);
  const results = [output, errors].filter(isId);
  const end = ENDS[String(json["status"]).toLowerCase()];
  return {
    isEnded: end !== undefined,
    fileIds: [input, ...results].filter(isId),
    resultPaths: results.map((id) => `/files/${id}/content`),
    failure: end === "failed" ? failureOf(json) : undefined,
    unprocessed: end === undefined || end === "failed" ? "errored" : end,
  };
}

/** So the account has as many requests or tokens in batches as it may have. */
const TEMPORARY = /limit_exceeded|rate_limit|quota/;

function failureOf({ errors, error }: JsonObject): RemoteFailure {
  const list: unknown = isObject(errors) ? errors["data"] : errors;
  const found = Array.isArray(list) ? list.filter(isObject) : [];
  const lines = found.flatMap(({ line }) => (typeof line === "number" ? [line - 1] : []));
  const [first = typeof error === "string" ? { message: error } : {}] = found;
  const isTemporary = found.some(({ code }) => TEMPORARY.test(String(code)));
  return { text: JSON.stringify({ error: first }), isTemporary, lines };
}

function resultOf({ custom_id: customId, response, error }: JsonObject): RemoteResult | undefined {
  if (typeof customId !== "string") return undefined;
  if (isObject(response) && isObject(response["body"])) {
    const { status_code: status, body } = response;
    return { customId, outcome: { kind: "reply", status: Number(status), body } };
  }
  const code = isObject(error) ? String(error["code"]) : "";
  const status = NOT_RUN[code];
  if (status !== undefined || !isObject(error))
    return { customId, outcome: { kind: "none", status: status ?? "errored" } };
  // Together names whose fault it is, and no status.
  const httpStatus = /client|invalid/.test(code) ? 400 : 500;
  return { customId, outcome: { kind: "reply", status: httpStatus, body: { error } } };
}

const NOT_RUN: Readonly<Record<string, "expired" | "canceled">> = {
  batch_expired: "expired",
  batch_cancelled: "canceled",
};
