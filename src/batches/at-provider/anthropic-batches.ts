// Anthropic's Message Batches. A batch has no name of ours: a lost one is recognized by the custom ids of its results.

import { isObject, type JsonObject } from "../../base/json.ts";
import {
  CLOCK_SKEW_MS,
  type FoundSubmission,
  idIn,
  LIST_PAGE,
  type LostSubmission,
  type ProviderBatchApi,
  readJsonLines,
  type Remote,
  requestJson,
  tryDelete,
} from "./provider-batch-api.ts";

const PATH = "/v1/messages/batches";
const SUBMISSION_MAX_BYTES = 32 * 1_048_576;
/** Errors of a request have no status in the results: this one is of an error of the request itself. */
const STATUSES: Readonly<Record<string, number>> = {
  invalid_request_error: 400,
  authentication_error: 401,
  permission_error: 403,
  not_found_error: 404,
  request_too_large: 413,
  rate_limit_error: 429,
  overloaded_error: 529,
};

export const anthropicBatches: ProviderBatchApi = {
  maxBytes: SUBMISSION_MAX_BYTES,
  lineOf: ({ customId, body }) => `{"custom_id":${JSON.stringify(customId)},"params":${body}}`,
  upload: () => Promise.resolve(null),
  create: async (remote, { tag, lines, headers }) => {
    const body = `{"requests":[${lines.join(",")}]}`;
    const sent = { ...headers, "idempotency-key": tag };
    return idIn(await requestJson(remote, { method: "POST", path: PATH, body, headers: sent }));
  },
  find: findLost,
  read: async (remote, id) => {
    const json = await requestJson(remote, { method: "GET", path: `${PATH}/${id}` });
    const hasResults = typeof json["results_url"] === "string";
    return {
      isEnded: json["processing_status"] === "ended",
      fileIds: [],
      resultPaths: hasResults ? [resultsPath(id)] : [],
      unprocessed: json["cancel_initiated_at"] === null ? "errored" : "canceled",
    };
  },
  readResults: readJsonLines,
  resultOf: ({ custom_id: customId, result }) => {
    if (typeof customId !== "string" || !isObject(result)) return undefined;
    const { type, message, error } = result;
    if (type === "succeeded" && isObject(message))
      return { customId, outcome: { kind: "reply", status: 200, body: message } };
    if (type === "errored" && isObject(error))
      return { customId, outcome: { kind: "reply", status: statusOf(error), body: error } };
    const status = type === "expired" || type === "canceled" ? type : "errored";
    return { customId, outcome: { kind: "none", status } };
  },
  cancel: async (remote, id) => {
    await requestJson(remote, { method: "POST", path: `${PATH}/${id}/cancel`, body: "{}" });
  },
  remove: async (remote, { id }) => {
    if (id !== null) await tryDelete(remote, `${PATH}/${id}`);
  },
};

function resultsPath(id: string): string {
  return `${PATH}/${id}/results`;
}

function statusOf({ error }: JsonObject): number {
  const type = isObject(error) ? error["type"] : undefined;
  return STATUSES[String(type)] ?? 500;
}

async function findLost(remote: Remote, lost: LostSubmission): Promise<FoundSubmission> {
  let isUnverified = false;
  for (let after = ""; ;) {
    const path = `${PATH}?limit=${LIST_PAGE}${after}`;
    const { data, has_more: hasMore } = await requestJson(remote, { method: "GET", path });
    const page = Array.isArray(data) ? data.filter(isObject) : [];
    for (const one of page) {
      if (!(await canBe(one, lost))) continue;
      if (one["processing_status"] !== "ended") isUnverified = true;
      else if (await hasItemsOf(remote, idIn(one), lost)) return { id: idIn(one) };
    }
    const last = page.at(-1);
    if (last === undefined || hasMore !== true || createdAt(last) < oldest(lost))
      return isUnverified ? "unverified" : "absent";
    after = `&after_id=${idIn(last)}`;
  }
}

async function canBe(batch: JsonObject, lost: LostSubmission): Promise<boolean> {
  const counts = isObject(batch["request_counts"]) ? Object.values(batch["request_counts"]) : [];
  const requests = counts.reduce((sum: number, count) => sum + Number(count), 0);
  if (requests !== lost.requests || createdAt(batch) < oldest(lost)) return false;
  return !(await lost.isKnown(idIn(batch)));
}

function createdAt(batch: JsonObject): number {
  return Date.parse(String(batch["created_at"]));
}

function oldest({ attemptedAt }: LostSubmission): number {
  return attemptedAt - CLOCK_SKEW_MS;
}

async function hasItemsOf(remote: Remote, id: string, lost: LostSubmission): Promise<boolean> {
  for await (const { custom_id: customId } of readJsonLines(remote, resultsPath(id)))
    return typeof customId === "string" && customId.startsWith(lost.customIdPrefix);
  return false;
}
