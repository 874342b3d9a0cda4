// Google's batches of the Gemini API: the requests are in the body, and the results in the operation.

import { isObject, type JsonObject, parseObject, stringIn } from "../../base/json.ts";
import {
  LIST_PAGE,
  type LostSubmission,
  type ProviderBatchApi,
  readContent,
  type Remote,
  requestJson,
  tryDelete,
} from "./provider-batch-api.ts";

/** A request may have 20 MB; what is written for Google may be longer than what was sent. */
const SUBMISSION_MAX_BYTES = 12 * 1_048_576;
/** Statuses of the codes that gRPC has. */
const STATUSES: Readonly<Record<number, number>> = {
  3: 400,
  4: 504,
  5: 404,
  7: 403,
  8: 429,
  9: 400,
  11: 400,
  14: 503,
  16: 401,
};
const RESOURCE_EXHAUSTED = 8;

export const geminiBatches: ProviderBatchApi = {
  maxBytes: SUBMISSION_MAX_BYTES,
  lineOf: ({ customId, body }) =>
    `{"request":${body},"metadata":{"key":${JSON.stringify(customId)}}}`,
  upload: () => Promise.resolve(null),
  create: async (remote, { tag, lines }) => {
    const path = `/models/${remote.model}:batchGenerateContent`;
    const body = `{"batch":{"display_name":"${tag}","input_config":{"requests":{"requests":[${lines.join(",")}]}}}}`;
    return idOf(await requestJson(remote, { method: "POST", path, body }));
  },
  find: findByName,
  read: async (remote, id) => {
    const json = await requestJson(remote, { method: "GET", path: `/batches/${id}` });
    const { error, metadata } = json;
    const state = isObject(metadata) ? String(metadata["state"]) : "";
    const code = isObject(error) ? error["code"] : undefined;
    const isFailed = state.endsWith("_FAILED");
    return {
      isEnded: json["done"] === true || /_(SUCCEEDED|FAILED|CANCELLED|EXPIRED)$/.test(state),
      fileIds: [],
      resultPaths: [`/batches/${id}`],
      failure: isFailed
        ? {
            text: JSON.stringify({ error: isObject(error) ? error : {} }),
            isTemporary: code === RESOURCE_EXHAUSTED,
            lines: [],
          }
        : undefined,
      unprocessed: state.endsWith("_EXPIRED")
        ? "expired"
        : state.endsWith("_CANCELLED")
          ? "canceled"
          : "errored",
    };
  },
  readResults: async function* readResults(remote, path) {
    let text = "";
    for await (const part of readContent(remote, path)) text += part;
    const { response } = parseObject(text) ?? {};
    const { inlinedResponses: outer } = isObject(response) ? response : {};
    const { inlinedResponses: list } = isObject(outer) ? outer : {};
    yield* Array.isArray(list) ? list.filter(isObject) : [];
  },
  // Documented to have the order of the requests. Responses with a key are matched by it: they may be in another order.
  resultOf: ({ metadata, response, error }) => {
    const customId = isObject(metadata) ? stringIn(metadata["key"]) : undefined;
    if (isObject(response))
      return { customId, outcome: { kind: "reply", status: 200, body: response } };
    const reason = isObject(error) ? error : {};
    const body = { error: reason };
    return { customId, outcome: { kind: "reply", status: statusOf(reason), body } };
  },
  cancel: async (remote, id) => {
    await requestJson(remote, { method: "POST", path: `/batches/${id}:cancel`, body: "{}" });
  },
  remove: async (remote, { id }) => {
    if (id !== null) await tryDelete(remote, `/batches/${id}`);
  },
};

function statusOf({ code }: JsonObject): number {
  const number = Number(code);
  return number >= 400 && number < 600 ? number : (STATUSES[number] ?? 500);
}

function idOf({ name }: JsonObject): string {
  const [, id] = /^batches\/([\w-]{1,200})$/.exec(String(name)) ?? [];
  if (id === undefined) throw new Error("the reply has no name of a batch");
  return id;
}

/** Reads all pages, because their order is not documented. Batches are deleted once their results are read, so there are few. */
async function findByName(
  remote: Remote,
  { tag }: LostSubmission,
): ReturnType<ProviderBatchApi["find"]> {
  for (let token = ""; ;) {
    const path = `/batches?pageSize=${LIST_PAGE}${token}`;
    const { operations, nextPageToken: next } = await requestJson(remote, { method: "GET", path });
    const page = Array.isArray(operations) ? operations.filter(isObject) : [];
    const found = page.find(
      ({ metadata }) => isObject(metadata) && metadata["displayName"] === tag,
    );
    if (found !== undefined) return { id: idOf(found) };
    if (typeof next !== "string" || next === "") return "absent";
    token = `&pageToken=${encodeURIComponent(next)}`;
  }
}
