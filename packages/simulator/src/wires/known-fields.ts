// The top-level fields of the APIs that the simulator implements.

import { type JsonObject, lookUp } from "../json-readers.ts";
import { invalidRequest, type InvalidRequest } from "../reply/normalized-request.ts";

const OPENAI_FIELDS =
  "metadata model moderation parallel_tool_calls prompt_cache_key prompt_cache_options prompt_cache_retention reasoning " +
  "safety_identifier service_tier store stream stream_options temperature tool_choice tools top_logprobs top_p user";

/** The fields of OpenAI's reference, and those that OpenRouter and Open Responses add. */
const CHAT_FIELDS = fieldNames(
  `${OPENAI_FIELDS} audio cache_control frequency_penalty function_call functions logit_bias logprobs max_completion_tokens ` +
    "max_tokens messages modalities n prediction presence_penalty reasoning_effort response_format seed stop top_k usage " +
    "verbosity web_search_options",
);
const RESPONSES_FIELDS = fieldNames(
  `${OPENAI_FIELDS} background client_metadata context_management conversation frequency_penalty include input instructions ` +
    "max_output_tokens max_tool_calls presence_penalty previous_response_id prompt text truncation",
);
/** `user` has the pseudonym of an end user that the gateway sends. */
const MESSAGES_FIELDS = fieldNames(
  "cache_control container context_management diagnostics fallbacks inference_geo max_tokens mcp_servers messages metadata " +
    "model output_config output_format service_tier speed stop_sequences stream system temperature thinking tool_choice tools " +
    "top_k top_p user",
);
const EMBEDDING_FIELDS = fieldNames("dimensions encoding_format input model user");
const IMAGE_FIELDS = fieldNames(
  "background model moderation n output_compression output_format partial_images prompt quality response_format size stream " +
    "style user",
);
const IMAGE_EDIT_FIELDS = fieldNames(
  "background image images input_fidelity mask model n output_compression output_format partial_images prompt quality size " +
    "stream user",
);
const SPEECH_FIELDS = fieldNames(
  "input instructions model response_format speed stream_format voice",
);
const TRANSCRIPTION_FIELDS = fieldNames(
  "chunking_strategy file include keywords known_speaker_names known_speaker_references language languages model prompt " +
    "response_format stream temperature timestamp_granularities",
);
const TRANSLATION_FIELDS = fieldNames("file model prompt response_format temperature");
const RERANK_FIELDS = fieldNames(
  "documents max_tokens_per_doc model priority query top_k top_n truncation",
);
const DECISION_FIELDS = fieldNames(
  "input model prompt_cache_key prompt_cache_options questions safety_identifier",
);
const COMPLETION_FIELDS = fieldNames(
  "best_of echo frequency_penalty logit_bias logprobs max_tokens model n presence_penalty prompt seed stop stream " +
    "stream_options suffix temperature top_p user",
);
const MODERATION_FIELDS = fieldNames("input model");

/** The APIs to which callers' fields are passed through. Requests to the others are written by the gateway's translation. */
const FIELDS = {
  chat: CHAT_FIELDS,
  responses: RESPONSES_FIELDS,
  messages: MESSAGES_FIELDS,
  embeddings: EMBEDDING_FIELDS,
  images: IMAGE_FIELDS,
  image_edits: IMAGE_EDIT_FIELDS,
  speech: SPEECH_FIELDS,
  transcriptions: TRANSCRIPTION_FIELDS,
  translations: TRANSLATION_FIELDS,
  rerank: RERANK_FIELDS,
  moderations: MODERATION_FIELDS,
  decisions: DECISION_FIELDS,
  completions: COMPLETION_FIELDS,
} as const;

/** The provider's error for a field that its API does not have. */
export function unknownFieldError(api: string, body: JsonObject): InvalidRequest | undefined {
  const known = lookUp(FIELDS, api);
  if (known === undefined) return undefined;
  const name = Object.keys(body).find((field) => !known.has(field));
  if (name === undefined) return undefined;
  if (api === "messages") return invalidRequest(400, `${name}: Extra inputs are not permitted`);
  const meant = closestName(name, [...known]);
  const hint = meant === undefined ? "" : ` Did you mean '${meant}'?`;
  return invalidRequest(400, `Unknown parameter: '${name}'.${hint}`, name, "unknown_parameter");
}

function fieldNames(names: string): ReadonlySet<string> {
  return new Set(names.split(" "));
}

/** The name that differs least, if at most a third of the characters do. */
function closestName(wanted: string, names: readonly string[]): string | undefined {
  const ranked = names
    .map((name) => ({ name, distance: editDistance(wanted, name) }))
    .toSorted((left, right) => left.distance - right.distance);
  const [nearest] = ranked;
  return nearest !== undefined && nearest.distance <= wanted.length / 3 ? nearest.name : undefined;
}

/** Levenshtein distance. */
function editDistance(left: string, right: string): number {
  let previous = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (const [row, character] of [...left].entries()) {
    const current = [row + 1];
    for (let column = 1; column <= right.length; column++) {
      const substitution = (previous[column - 1] ?? 0) + Number(right[column - 1] !== character);
      const shorter = Math.min(previous[column] ?? 0, current[column - 1] ?? 0);
      current.push(Math.min(shorter + 1, substitution));
    }
    previous = current;
  }
  return previous[right.length] ?? 0;
}
