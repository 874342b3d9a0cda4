// The table of what refers to storage in a provider's account, by wire and provider. All rules apply to every body: a
// field of one API does not exist in the others, and providers accept fields of each other's APIs.
//
// Chat (OpenAI):        file_id, audio.id, audio.voice.id
// Chat (Mistral):       library_ids, connector_id, file_id and agent_id beside their type
// Chat (Google):        extra_body.google.cached_content, and media URLs of Google's hosts
// Chat (Azure):         data_sources
// Responses (OpenAI):   previous_response_id, conversation, prompt.id, file_id(s), container(_id), vector_store_ids, skill_id,
//                       tunnel_id, connector_id, item_reference
// Responses (xAI):      collection_ids, vector_store_ids
// Messages (Anthropic): source.file_id, container, container_upload, skill_id, thread, previous_message_id
// Gemini and Vertex AI: cachedContent, fileData.fileUri (gs:, files/, Google's hosts), fileSearchStoreNames, vertexAiSearch,
//                       vertexRagStore, previous_interaction_id
// Converse (Bedrock):   s3Location, knowledgeBaseId, guardrailIdentifier, promptVariables

export interface ReferenceRule {
  readonly kind: "reference";
  readonly alternative: string;
}

/** `media`: the content of an image or file, or its URL. `url`: text that may be such a URL. `text`: text for the model or the caller. */
export type FieldRule = ReferenceRule | { readonly kind: "media" | "url" | "text" };

/** As the parent field: the body itself. */
export const ROOT = "";

const SEND_FILE = "Send the file's content in the request";
const SEND_CONTENT = "Send the content in the request";
const SEND_DOCUMENTS = "Send the documents in the request";
export const SEND_HISTORY = "Send the earlier turns of the conversation in the request";
const NEW_CONTAINER = "Let the provider create a new container";

/** By name in snake case, at any depth. */
export const REFERENCE_NAMES: readonly (readonly [name: RegExp, alternative: string])[] = [
  [/(^|_)files?_?ids?$/, SEND_FILE],
  [/^(s3|gcs|gs)_(locations?|uris?|urls?|sources?|buckets?)$|^bucket_owner$/, SEND_FILE],
  [/(^|_)cached?_contents?(_ids?|_names?)?$|^cache_(id|name)$/, SEND_CONTENT],
  [/(^|_)containers?_ids?$/, NEW_CONTAINER],
  [
    /(^|_)(vector_stores?|file_search_stores?|memory_stores?|vertex_rag_store|vertex_ai_search|rag_(corpus|corpora|resources)|data_?stores?|data_sources)(_ids?|_names?|_specs)?$/,
    SEND_DOCUMENTS,
  ],
  [
    /(^|_)(collection|librar(y|ies)|knowledge_base|corpus|dataset|rag_file)_?(ids?|names?)$/,
    SEND_DOCUMENTS,
  ],
  [/^connectors?(_ids?)?$|^tunnel_ids?$/, "Name the server by its `server_url`"],
  [/^(previous|comparison)_(response|interaction|message)_ids?$/, SEND_HISTORY],
  [/^(response|interaction|conversation|thread|assistant|agent)_ids?$/, SEND_HISTORY],
  [/^(batch|upload|prompt|preset|user_profile)_ids?$/, "Send its content in the request"],
  [/^skill_ids?$/, "Send the skill itself"],
  [/^(guardrail_identifier|prompt_variables)$/, "Remove it"],
];

/** Top-level fields that name stored state or other models, whatever their value. */
export const ROOT_REFERENCES: ReadonlyMap<string, string> = new Map([
  ["conversation", SEND_HISTORY],
  ["thread", SEND_HISTORY],
  ["container", NEW_CONTAINER],
  ["preset", "Send its settings in the request"],
  // The provider would answer with a model whose price was not reserved.
  ["fallbacks", "List the models in `models`"],
]);

/** Objects whose `id` names something stored. */
export const ID_HOLDERS: ReadonlyMap<string, string> = new Map([
  ["prompt", "Send the prompt's text in the request"],
  ["conversation", SEND_HISTORY],
  ["container", NEW_CONTAINER],
  ["voice", "Use a built-in voice"],
  ["audio", "Send the transcript as text"],
  ["file", SEND_FILE],
  ["document", SEND_FILE],
  ["source", SEND_FILE],
]);

export const REFERENCE_TYPES: ReadonlyMap<string, string> = new Map([
  ["item_reference", SEND_HISTORY],
  ["container_upload", SEND_FILE],
  ["container_reference", NEW_CONTAINER],
  ["skill_reference", "Send the skill itself"],
]);

const MEDIA_NAMES = names(
  "image_url video_url audio_url document_url file_url file_data file_uri input_image input_video",
);
const URL_NAMES = names(
  "url uri source image video audio document file path location data input_audio",
);
const TEXT_NAMES = names(
  "text content arguments input output instructions system description title name filename file_name display_name refusal " +
    "thinking reasoning reasoning_content summary transcript context signature encrypted_content thought_signature bytes " +
    "stop stop_sequences code query queries prefix suffix definition delta user safety_identifier prompt_cache_key model role",
);
const RULES_BY_NAME: ReadonlyMap<string, FieldRule> = new Map<string, FieldRule>([
  ...[...MEDIA_NAMES].map((name) => [name, { kind: "media" }] as const),
  ...[...URL_NAMES].map((name) => [name, { kind: "url" }] as const),
  ...[...TEXT_NAMES].map((name) => [name, { kind: "text" }] as const),
]);

const CACHED_NAMES_MAX = 4_096;
const CACHED_NAME_LENGTH_MAX = 64;
const cachedRules = new Map<string, FieldRule | null>();

/** Reads a name in snake or camel case. */
export function fieldRule(name: string): FieldRule | undefined {
  const cached = cachedRules.get(name);
  if (cached !== undefined) return cached ?? undefined;
  const rule = computeRule(snakeCase(name));
  if (name.length <= CACHED_NAME_LENGTH_MAX) {
    if (cachedRules.size >= CACHED_NAMES_MAX) cachedRules.clear();
    cachedRules.set(name, rule ?? null);
  }
  return rule;
}

function computeRule(name: string): FieldRule | undefined {
  const known = RULES_BY_NAME.get(name);
  if (known !== undefined) return known;
  const reference = REFERENCE_NAMES.find(([pattern]) => pattern.test(name));
  return reference && { kind: "reference", alternative: reference[1] };
}

export function snakeCase(name: string): string {
  return name
    .replace(/([a-z0-9])([A-Z])/g, "$1_$2")
    .replace(/[-. ]/g, "_")
    .toLowerCase();
}

function names(list: string): ReadonlySet<string> {
  return new Set(list.split(" "));
}

/** The fields of `extra_body.google` that may be sent on the gateway's account. */
export const GOOGLE_EXTRA_FIELDS: ReadonlySet<string> = names("thinking_config safety_settings");
