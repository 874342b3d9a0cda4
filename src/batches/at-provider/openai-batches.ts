// Batches of OpenAI's API, which Groq has, too: the requests are a file, and so are the results.

import { isObject, type JsonObject } from "../../base/json.ts";
import type { UpstreamWire } from "../../inference/providers/providers.ts";
import {
  idIn,
  type ProviderBatchApi,
  type Remote,
  type RemoteBatch,
  type RemoteFailure,
  requestJson,
  tryDelete,
} from "./provider-batch-api.ts";

const ENDPOINTS: Partial<Record<UpstreamWire, string>> = {
  chat: "/v1/chat/completions",
  responses: "/v1/responses",
  embeddings: "/v1/embeddings",
};
const ENDED: ReadonlySet<unknown> = new Set(["completed", "failed", "expired", "cancelled"]);
/** What a crash leaves of an upload is deleted by the provider. */
const FILE_EXPIRES_SECONDS = 259_200;
const PAGE = 100;
/** The provider's clock may be behind. */
const CLOCK_SKEW_MS = 300_000;
const TAG = "postern_batch";

export const openaiBatches: ProviderBatchApi = {
  lineOf: ({ customId, body }, wire) =>
    `{"custom_id":${JSON.stringify(customId)},"method":"POST","url":"${endpointOf(wire)}","body":${body}}`,
  upload: async (remote, { tag, lines }) => {
    const form = new FormData();
    form.set("purpose", "batch");
    form.set("expires_after[anchor]", "created_at");
    form.set("expires_after[seconds]", String(FILE_EXPIRES_SECONDS));
    form.set("file", new Blob([`${lines.join("\n")}\n`]), `${tag}.jsonl`);
    return idIn(await requestJson(remote, { method: "POST", path: "/files", body: form }));
  },
  create: async (remote, { tag, fileId }) => {
    const body = JSON.stringify({
      input_file_id: fileId,
      endpoint: endpointOf(remote.wire),
      completion_window: "24h",
      metadata: { [TAG]: tag },
    });
    const headers = { "idempotency-key": tag };
    return idIn(await requestJson(remote, { method: "POST", path: "/batches", body, headers }));
  },
  find: async (remote, { tag, attemptedAt }) => {
    for (let after = ""; ;) {
      const path = `/batches?limit=${PAGE}${after}`;
      const { data, has_more: hasMore } = await requestJson(remote, { method: "GET", path });
      const page = Array.isArray(data) ? data.filter(isObject) : [];
      const found = page.find(({ metadata }) => isObject(metadata) && metadata[TAG] === tag);
      if (found !== undefined) return { id: idIn(found) };
      const last = page.at(-1);
      const createdAt = Number(last?.["created_at"] ?? 0) * 1_000;
      if (last === undefined || hasMore !== true || createdAt < attemptedAt - CLOCK_SKEW_MS)
        return "absent";
      after = `&after=${idIn(last)}`;
    }
  },
  read: async (remote, id) =>
    toRemoteBatch(await requestJson(remote, { method: "GET", path: `/batches/${id}` })),
  resultOf: ({ custom_id: customId, response, error }) => {
    if (typeof customId !== "string") return undefined;
    if (!isObject(response) || !isObject(response["body"]))
      return { customId, outcome: { kind: "none", status: missingStatus(error) } };
    const { status_code: status, body } = response;
    return { customId, outcome: { kind: "reply", status: Number(status), body } };
  },
  cancel: async (remote, id) => {
    await requestJson(remote, { method: "POST", path: `/batches/${id}/cancel`, body: "{}" });
  },
  remove: (remote, _id, { fileIds }) => removeFiles(remote, fileIds),
};

async function removeFiles(remote: Remote, ids: readonly string[]): Promise<void> {
  for (const id of ids) await tryDelete(remote, `/files/${id}`);
}

function endpointOf(wire: UpstreamWire): string {
  const endpoint = ENDPOINTS[wire];
  if (endpoint === undefined) throw new Error(`no batches for ${wire}`);
  return endpoint;
}

function toRemoteBatch(json: JsonObject): RemoteBatch {
  const { status, output_file_id: output, error_file_id: errors, input_file_id: input } = json;
  const isId = (id: unknown): id is string => typeof id === "string" && /^[\w-]{1,200}$/.test(id);
  const results = [output, errors].filter(isId);
  return {
    isEnded: ENDED.has(status),
    fileIds: [input, ...results].filter(isId),
    resultPaths: results.map((id) => `/files/${id}/content`),
    failure: status === "failed" ? failureOf(json["errors"]) : undefined,
    unprocessed: status === "expired" ? "expired" : status === "cancelled" ? "canceled" : "errored",
  };
}

/** So the account has as many requests or tokens in batches as it may have. */
const TEMPORARY = /limit_exceeded|rate_limit|quota/;

function failureOf(errors: unknown): RemoteFailure {
  const data = isObject(errors) && Array.isArray(errors["data"]) ? errors["data"] : [];
  const found = data.filter(isObject);
  const lines = found.flatMap(({ line }) => (typeof line === "number" ? [line - 1] : []));
  const [first] = found;
  const isTemporary = found.some(({ code }) => TEMPORARY.test(String(code)));
  return { text: JSON.stringify({ error: first ?? {} }), isTemporary, lines };
}

function missingStatus(error: unknown): "expired" | "canceled" | "errored" {
  const code = isObject(error) ? error["code"] : undefined;
  if (code === "batch_expired") return "expired";
  return code === "batch_cancelled" ? "canceled" : "errored";
}
