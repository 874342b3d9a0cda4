// Shared parts of the model endpoints: limits, documented headers, and the input of a call.

import { API_TRAITS } from "@postern/wires";
import type { Caller, RouteInput } from "../../http/route.ts";
import { readCallLabels } from "../../usage/session-labels.ts";
import type { CallInput } from "../lifecycle/call.ts";
import { readSessionLimit } from "../request/call-options.ts";
import { jsonOfForm } from "../request/form-json.ts";
import { readForwardedHeaders } from "../request/forwarded-headers.ts";
import type { Api } from "../request/parse-request.ts";

const BODY_LIMIT_BYTES = 32 * 1_048_576;

/** The headers that `reply-headers.ts` returns. */
const RELAYED_HEADER_DOCS = {
  "retry-after-ms": "`retry-after` of the provider, in milliseconds.",
  "x-should-retry": "Whether a retry can help.",
  "x-ratelimit-*": "The provider's rate limits, in OpenAI's form.",
  "anthropic-ratelimit-*": "The provider's rate limits, in Anthropic's form.",
  "anthropic-fast-*": "Anthropic's rate limits for fast mode.",
  "openai-processing-ms": "OpenAI's processing time, in milliseconds.",
  "openai-model": "OpenAI's own name of the model.",
} as const;

export const MODEL_ROUTE = {
  tag: "Models",
  bodyLimitBytes: BODY_LIMIT_BYTES,
  bodyType: "raw",
} as const;

export const CALL_ROUTE = { ...MODEL_ROUTE, relayedHeaders: RELAYED_HEADER_DOCS } as const;

export type ModelInput = RouteInput<undefined, undefined, unknown, Caller>;

/** What a call needs of its request, whatever its path and query are. */
export type CallRouteInput = Omit<ModelInput, "params" | "query"> &
  Pick<CallInput, "received" | "sentForm">;

export function callInputOf(
  api: Api,
  input: CallRouteInput,
  { idempotent, hasPayment = false }: Pick<Partial<CallInput>, "idempotent" | "hasPayment"> = {},
): CallInput {
  const { caller, requestId, now, headers, request, bodyText, form, formBytes, allowsStep } = input;
  const { relayed } = API_TRAITS[api];
  const sent =
    form === undefined || relayed?.form === undefined
      ? { text: bodyText, files: undefined }
      : jsonOfForm(form, relayed.form);
  const { labels, sessionId } = readCallLabels(headers);
  const limit = readSessionLimit(headers, sessionId);
  return {
    api,
    ...sent,
    received: input.received ?? (form === undefined ? bodyText : formBytes),
    sentForm: input.sentForm,
    caller,
    requestId,
    now,
    headers,
    forwardedHeaders: readForwardedHeaders(headers, API_TRAITS[api].forwardsHeaders),
    signal: request.signal,
    labels,
    session: sessionId === undefined ? undefined : { id: sessionId, limit },
    idempotent,
    hasPayment,
    allowsStep,
  };
}
