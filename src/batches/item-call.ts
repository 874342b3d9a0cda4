// The call of an item: which API its endpoint is, and the input of the call.

import { API_TRAITS } from "@postern/wires";
import { errorBody, publicError } from "../base/error-body.ts";
import type { Fault } from "../base/fault.ts";
import type { Caller } from "../http/route.ts";
import type { BatchItem } from "../inference/lifecycle/batch-item.ts";
import type { CallInput } from "../inference/lifecycle/call.ts";
import { readForwardedHeaders } from "../inference/request/forwarded-headers.ts";
import type { Api } from "../inference/request/parse-request.ts";
import { LABELS_HEADER } from "../usage/labels.ts";
import { readCallLabels, withBatchLabel } from "../usage/session-labels.ts";

export const BATCH_ENDPOINTS = [
  "/v1/chat/completions",
  "/v1/responses",
  "/v1/messages",
  "/v1/embeddings",
] as const;
export type BatchEndpoint = (typeof BATCH_ENDPOINTS)[number];

const APIS: Readonly<Record<BatchEndpoint, Api>> = {
  "/v1/chat/completions": "chat",
  "/v1/responses": "responses",
  "/v1/messages": "messages",
  "/v1/embeddings": "embeddings",
};

function apiOf(endpoint: string): Api {
  const found = BATCH_ENDPOINTS.find((path) => path === endpoint);
  if (found === undefined) throw new Error(`no batches for ${endpoint}`);
  return APIS[found];
}

/** The headers of a batch that its calls have. */
const KEPT_HEADERS = [
  "anthropic-version",
  "anthropic-beta",
  LABELS_HEADER,
  "x-postern-lossy",
  "x-postern-strict",
  "x-postern-max-cost-usd",
  "x-postern-on-max-cost",
] as const;

export function keptHeaders(headers: Headers): Readonly<Record<string, string>> {
  return Object.fromEntries(
    KEPT_HEADERS.flatMap((name) => {
      const value = headers.get(name);
      return value === null ? [] : [[name, value]];
    }),
  );
}

export interface ItemCall {
  readonly endpoint: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly caller: Caller;
  readonly text: string;
  readonly requestId: string;
  readonly now: number;
  readonly batchItem?: BatchItem;
}

export function itemInput({ endpoint, headers: kept, batchItem, ...call }: ItemCall): CallInput {
  const api = apiOf(endpoint);
  const headers = new Headers(kept);
  const { labels } = readCallLabels(headers);
  return {
    ...call,
    api,
    headers,
    forwardedHeaders: readForwardedHeaders(headers, API_TRAITS[api].forwardsHeaders),
    // No caller waits, so none can leave.
    signal: new AbortController().signal,
    labels: isInBatch(batchItem) ? withBatchLabel(labels, batchItem.holdId) : labels,
    session: undefined,
    idempotent: undefined,
    ...(batchItem === undefined ? {} : { batchItem }),
  };
}

function isInBatch(item: BatchItem | undefined): item is BatchItem {
  return item !== undefined && item.response === undefined;
}

/** The body that the call would have had as an error response. */
export function itemErrorBody(endpoint: string, fault: Fault, requestId: string): string {
  const format = apiOf(endpoint) === "messages" ? "messages" : "openai";
  return JSON.stringify(errorBody(format, publicError(fault), requestId));
}
