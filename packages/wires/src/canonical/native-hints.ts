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
  gemini: {
    safetySettings: "output",
    labels: "labels",
    "toolConfig.retrievalConfig": "tools",
    "generationConfig.mediaResolution": "output",
    "generationConfig.audioTimestamp": "output",
    "generationConfig.enableEnhancedCivicAnswers": "output",
    response: "tools",
    responseJsonSchema: "tools",
    behavior: "tools",
    willContinue: "tools",
    scheduling: "tools",
    videoMetadata: "output",
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

/**
 * Fields of a request that change what is asked for, or who answers and where. Every other field that the canonical form does not
 * have is a label or a setting that only its own API knows.
 */
const NATIVE_MEANING: ReadonlySet<string> = new Set(
  (
    "audio modalities moderation web_search_options data_sources documents document_name search_settings search_parameters " +
    "compound_custom citation_options exclude_domains include_domains guardrails safe_prompt safety_model safety_settings " +
    "compliance plugins image_config extra_body user_security_context structured_outputs grammar bad_words web_search web_fetch " +
    "generationConfig.responseModalities generationConfig.speechConfig generationConfig.imageConfig " +
    "generationConfig.responseMimeType generationConfig.responseSchema generationConfig.translationConfig cachedContent " +
    "toolConfig.includeServerSideToolInvocations background conversation previous_response_id prompt image multi_agent text container mcp_servers thread fallbacks " +
    "fallback_credit_token inference_geo user_profile_id workspace_id"
  ).split(" "),
);
const MEANING_PREFIX = /^(?:text\.|guided_|search_|media_)/;

export function isHintField(field: RequestField): boolean {
  return field in HINT_FIELDS;
}

/** `path` is that of the object with the field: empty for the request. Below its turns, only parts and tools have a meaning. */
export function isNativeLabel(path: string, key: string): boolean {
  return path === ""
    ? !NATIVE_MEANING.has(key) && !MEANING_PREFIX.test(key)
    : /^(?:messages|input|system|instructions)\b/.test(path);
}

export function isNativeHint(wire: WireName, key: string, value: unknown): boolean {
  return hasNoEffect(value) || NATIVE_HINTS[wire]?.[key] !== undefined;
}
