// Hints: fields that tune how a reply is made or describe the call, but do not change what it must contain. A hint that the
// target does not take is dropped and listed to the caller; every other field is refused.

import { isObject } from "../json-fields.ts";
import type { WireName } from "./canonical-parts.ts";
import type { RequestField } from "./canonical-request.ts";

/** Fields of the canonical form. */
export const HINT_FIELDS = {
  temperature: "sampling",
  topP: "sampling",
  topK: "sampling",
  seed: "sampling",
  frequencyPenalty: "sampling",
  presencePenalty: "sampling",
  logitBias: "sampling",
  stop: "output",
  maxOutputTokens: "output",
  verbosity: "output",
  logprobs: "output",
  topLogprobs: "output",
  reasoning: "reasoning",
  parallelToolCalls: "tools",
  user: "labels",
  safetyIdentifier: "labels",
  metadata: "labels",
  store: "storage",
  cache: "caching",
  cacheKey: "caching",
  cacheRetention: "caching",
} as const satisfies Readonly<Partial<Record<RequestField, HintGroup>>>;

export type HintGroup =
  | "sampling"
  | "output"
  | "reasoning"
  | "tools"
  | "labels"
  | "storage"
  | "caching"
  | "history";

/** Fields of one API that the canonical form does not have: in the request, a message, a tool or a content part. */
export const NATIVE_HINTS: Readonly<
  Partial<Record<WireName, Readonly<Record<string, HintGroup>>>>
> = {
  chat: {
    min_p: "sampling",
    top_a: "sampling",
    repetition_penalty: "sampling",
    prediction: "output",
    clear_thinking: "reasoning",
    reasoning_format: "reasoning",
    include_reasoning: "reasoning",
    prompt_mode: "reasoning",
    prompt_cache_options: "caching",
    session_id: "labels",
    reasoning_signature: "history",
    phase: "history",
    prefix: "history",
  },
  responses: {
    "reasoning.context": "reasoning",
    "reasoning.mode": "reasoning",
    truncation: "history",
    context_management: "history",
    client_metadata: "labels",
    include: "output",
    "stream_options.include_obfuscation": "output",
    stream_options: "output",
    max_tool_calls: "tools",
    output_schema: "tools",
    allowed_callers: "tools",
    caller: "tools",
    defer_loading: "tools",
    prompt_cache_options: "caching",
    phase: "history",
    detail: "output",
  },
  messages: {
    context_management: "history",
    phase: "history",
    defer_loading: "tools",
    eager_input_streaming: "tools",
    input_examples: "tools",
    allowed_callers: "tools",
    speed: "output",
    betas: "labels",
  },
};

/** Other providers' fields for reasoning on the chat wire: read into the canonical form, and kept for the chat wire. */
export const REASONING_DIALECT_FIELDS: ReadonlySet<string> = new Set([
  "thinking",
  "enable_thinking",
  "thinking_budget",
  "chat_template_kwargs",
]);

/** Values that have no effect in any field. */
function hasNoEffect(value: unknown): boolean {
  return (
    value === null ||
    value === false ||
    (Array.isArray(value) && value.length === 0) ||
    (isObject(value) && Object.keys(value).length === 0)
  );
}

export function isHintField(field: RequestField): boolean {
  return field in HINT_FIELDS;
}

export function isNativeHint(wire: WireName, key: string, value: unknown): boolean {
  return hasNoEffect(value) || NATIVE_HINTS[wire]?.[key] !== undefined;
}
