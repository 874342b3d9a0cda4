// The fields below the top level that may carry text to the gateway's own accounts at providers, by the field that contains
// their object, also through a list: those of the providers' API references, read on 2026-11-23, and what their replies
// contain, because clients send replies back. One table for all, because providers accept fields of each other's APIs.

import { API_TRAITS } from "@postern/wires";
import { type FieldRule, fieldRule, ROOT } from "./reference-table.ts";

// The top-level fields that may carry text to the gateway's own accounts at providers: those of the providers' API
// references, read on 2026-11-23. One list for all, because providers accept fields of each other's APIs. Fields that always
// name something stored, or whose cost is unknown, are refused by other rules and are missing here. Fields of numbers are
// listed too, so that a text there gets the provider's error. The list adds to the fields that translation reads.
const FIELDS_BY_API = {
  chatCompletions: "audio moderation prediction prompt_cache_options web_search_options",
  responses: "context_management access_programs background_options max_tool_calls",
  messages:
    "anthropic_beta anthropic_version betas diagnostics inference_geo mcp_servers speed billing_policy compaction",
  postern: "client_metadata models postern provider",
  openrouter: "debug image_config min_p repetition_penalty route session_id top_a trace transforms",
  azure: "user_security_context",
  google: "extra_body safetySettings labels",
  mistral: "document_name guardrails prompt_mode random_seed",
  groq: "citation_options compound_custom documents exclude_domains include_domains reasoning_format search_settings",
  xai: "search_parameters",
  zai: "request_id user_id",
  together: "chat_template_kwargs compliance context_length_exceeded_behavior safety_model",
  fireworks: "prompt_cache_isolation_key reasoning_history speculation",
  cerebras: "chat_template_args",
  ollama: "format keep_alive options",
  perplexity:
    "country image_domain_filter image_format_filter language_preference last_updated_after_filter " +
    "last_updated_before_filter media_response search_after_date_filter search_before_date_filter search_domain_filter " +
    "search_context_size search_language_filter search_mode search_recency_filter search_type stream_mode",
  vllm: "bad_words grammar guided_choice guided_decoding_backend guided_grammar guided_json guided_regex structured_outputs",
} as const;

const KNOWN_FIELDS: ReadonlySet<string> = new Set([
  ...Object.values(API_TRAITS).flatMap(({ knownFields, relayed }) =>
    Array.from(knownFields).concat(relayed?.knownFields.split(" ") ?? []),
  ),
  ...Object.values(FIELDS_BY_API).flatMap((fields) => fields.split(" ")),
]);

/** The caller chooses the names in such an object. */
const ANY_NAME = "*";

const LOCATION = "type city country region timezone approximate";
const FORMAT = "type name description schema strict definition syntax grammar pattern regex";
const CONTENT =
  "type text refusal image_url input_audio audio_url video_url document_url file file_data file_url file_name filename detail data " +
  "annotations logprobs prompt_cache_breakpoint cache_control title context citations source content caller id name input " +
  "thinking summary signature encrypted_content encrypted_stdout tool_use_id server_name tool tool_name tool_references url " +
  "page_age retrieved_at stdout stderr return_code file_type lines old_lines new_lines error_code error_message stop_reason " +
  "from to trigger image index json mcp_server_name tools tool_changes instructions toolset_name role document_name";

const MEMBERS_BY_PARENT: Readonly<Record<string, string>> = {
  messages:
    "role content name refusal audio function_call tool_calls tool_call_id type phase channel images annotations citations " +
    "search_results reasoning reasoning_content reasoning_details reasoning_signature thinking thinking_blocks executed_tools " +
    "cache_control extra_content padding clear_at output_config internal_chat_message_metadata_passthrough",
  input:
    "type role content id status phase name namespace arguments call_id output input caller summary encrypted_content code " +
    "outputs container_id queries results result action actions environment execution fingerprint operation tools server_label " +
    "approval_request_id item_id reason error revised_prompt prompt size quality background format output_format " +
    "pending_safety_checks acknowledged_safety_checks created_by mode text image_url author recipient agent svg_usage " +
    "internal_chat_message_metadata_passthrough",
  content: CONTENT,
  output: `${CONTENT} outcome mode created_by`,
  images: "type image_url",
  system: "type text cache_control citations",
  thinking: "type display text signature keep",
  thinking_blocks: "type thinking signature data",
  reasoning: "effort summary generate_summary context mode",
  reasoning_details: "type text summary data signature format id",
  summary: "type text",
  executed_tools: "type name arguments output search_results",
  audio: "format voice data transcript",
  image_url: "url detail format",
  video_url: "url detail format",
  audio_url: "url format",
  document_url: "url format",
  file_url: "url",
  document: "data text title",
  image: "url",
  video: "url",
  input_audio: "data format",
  file: "file_data filename format url file_url",
  source: "type data media_type url content text json",
  documents: "id title text source content data snippet",
  logprobs: "token bytes top_logprobs content refusal",
  top_logprobs: "token bytes",
  cache_control: "type ttl scope",
  caching: "type ttl",
  prompt_cache_breakpoint: "mode",
  prompt_cache_options: "mode ttl",
  caller: "type tool_id caller_id",
  tool: "type name server_name definition",
  definition: "type name description input_schema input_examples allowed_callers cache_control",
  tool_changes: "type tool cache_control",
  agent: "agent_name",
  compaction: "type instructions",
  background_options: "completion_window",
  // Codex: labels of a message, which OpenAI's own clients send.
  internal_chat_message_metadata_passthrough: ANY_NAME,
  tool_references: "type tool_name cache_control",
  from: "model",
  to: "model",
  trigger: "type value category",
  error: "type code message content",
  operation: "type path diff",
  outcome: "type",
  actions: "type button keys path text",
  pending_safety_checks: "id code message",
  acknowledged_safety_checks: "id code message",
  tool_calls: "id type function custom cache_control extra_content",
  function_call: "name arguments",
  function: "name description parameters arguments strict",
  functions: "name description parameters",
  custom: "name description format input",
  extra_content: "google",
  google: "thought_signature thinking_config thinkingConfig safety_settings safetySettings",
  thinking_config: "thinking_level thinkingLevel",
  thinkingConfig: "thinking_level thinkingLevel",
  safety_settings: "category threshold method",
  safetySettings: "category threshold method",
  tools:
    "type name description parameters strict function custom input_schema output_schema input_examples format tools " +
    "allowed_callers allowed_domains blocked_domains excluded_domains allowed_tools annotations cache_control caching citations " +
    "configs default_config mcp_server_name server_label server_url server_description headers authorization require_approval " +
    "container environment execution filters ranking_options user_location search_context_size search_content_types " +
    "response_inclusion action background input_fidelity input_image_mask model moderation output_format quality size " +
    "allowed_x_handles excluded_x_handles from_date to_date enabled_tools wolfram_settings web_search url_sources",
  // Web fetch: whose results it may take URLs from, by the names of the request's tools.
  url_sources: "client_tool_results server_tool_results user_input",
  client_tool_results: "type tools",
  server_tool_results: "type tools",
  user_input: "type",
  // What a reply says of its own drawing.
  svg_usage: "model",
  annotations: "title",
  input_image_mask: "image_url",
  wolfram_settings: "authorization",
  web_search:
    "search_engine search_query search_prompt search_domain_filter search_recency_filter content_size",
  parameters: "engine allowed_domains excluded_domains search_context_size user_location",
  container: "type memory_limit network_policy skills",
  environment: "type memory_limit network_policy skills",
  network_policy: "type allowed_domains domain_secrets",
  domain_secrets: "domain name value",
  skills: "type name description path source version",
  filters: "type key value filters allowed_domains excluded_domains",
  ranking_options: "ranker hybrid_search",
  require_approval: "always never",
  always: "tool_names",
  never: "tool_names",
  user_location: LOCATION,
  approximate: LOCATION,
  mcp_servers: "type url name authorization_token tool_configuration",
  tool_configuration: "allowed_tools",
  tool_choice: "type name function custom server_label allowed_tools mode tools",
  allowed_tools: "mode tools tool_names",
  response_format: `${FORMAT} json_schema`,
  json_schema: FORMAT,
  format: FORMAT,
  regex: "regex",
  grammar: "definition syntax",
  text: "format verbosity",
  output_config: "effort format task_budget",
  output_format: "type name schema",
  task_budget: "type",
  context_management: "type edits",
  edits: "type trigger keep clear_at_least exclude_tools instructions",
  keep: "type",
  clear_at_least: "type",
  prediction: "type content",
  moderation: "model policy",
  policy: "input output",
  web_search_options: "search_context_size user_location search_type",
  search_parameters: "mode sources from_date to_date",
  sources:
    "type country url links allowed_websites excluded_websites x_handles included_x_handles excluded_x_handles",
  search_settings: "country exclude_domains include_domains",
  compound_custom: "models tools",
  models: "answering_model reasoning_model",
  media_response: "overrides",
  image_config: "aspect_ratio image_size",
  structured_outputs: "json regex choice grammar structural_tag",
  guardrails: "moderation_llm_v1 moderation_llm_v2",
  moderation_llm_v1: "model_name action custom_category_thresholds",
  moderation_llm_v2: "model_name action custom_category_thresholds",
  user_security_context: "application_name end_user_id end_user_tenant_id source_ip",
  // Google's generateContent: https://ai.google.dev/api/generate-content, read on 2026-11-28.
  contents: "role parts",
  systemInstruction: "role parts",
  parts:
    "text thought thoughtSignature inlineData fileData functionCall functionResponse executableCode codeExecutionResult " +
    "videoMetadata mediaResolution mediaProcessing partMetadata",
  inlineData: "mimeType data displayName",
  fileData: "mimeType fileUri displayName",
  functionCall: "id name args",
  functionResponse: "id name response parts scheduling",
  executableCode: "id language code",
  codeExecutionResult: "id outcome output",
  videoMetadata: "startOffset endOffset",
  mediaResolution: "level",
  functionDeclarations:
    "name description parameters parametersJsonSchema response responseJsonSchema behavior",
  googleSearch: "timeRangeFilter excludeDomains blockingConfidence searchTypes",
  timeRangeFilter: "startTime endTime",
  googleSearchRetrieval: "dynamicRetrievalConfig",
  dynamicRetrievalConfig: "mode",
  toolConfig: "functionCallingConfig retrievalConfig",
  functionCallingConfig: "mode allowedFunctionNames",
  retrievalConfig: "latLng languageCode",
  generationConfig:
    "stopSequences responseMimeType responseSchema responseJsonSchema _responseJsonSchema responseModalities mediaResolution " +
    "thinkingConfig speechConfig imageConfig",
  speechConfig: "languageCode voiceConfig multiSpeakerVoiceConfig",
  voiceConfig: "prebuiltVoiceConfig",
  prebuiltVoiceConfig: "voiceName",
  multiSpeakerVoiceConfig: "speakerVoiceConfigs",
  speakerVoiceConfigs: "speaker voiceConfig",
  imageConfig: "aspectRatio imageSize",
  // The gateway reads these two itself, strictly.
  postern: ANY_NAME,
  provider: ANY_NAME,
  // Labels, and settings of the caller's own server, container or template.
  trace: ANY_NAME,
  headers: ANY_NAME,
  env: ANY_NAME,
  configs: ANY_NAME,
  attributes: ANY_NAME,
  custom_category_thresholds: ANY_NAME,
  chat_template_kwargs: ANY_NAME,
  chat_template_args: ANY_NAME,
};

/** The known fields of an object, each with its rule in the table of references: one look-up serves both. */
export type Members = ReadonlyMap<string, FieldRule | null>;

const NO_MEMBERS: Members = new Map();
const KNOWN_MEMBERS: ReadonlyMap<string, Members | undefined> = new Map([
  [ROOT, withRules(KNOWN_FIELDS)],
  ...Object.entries(MEMBERS_BY_PARENT).map(
    ([parent, members]) =>
      [parent, members === ANY_NAME ? undefined : withRules(members.split(" "))] as const,
  ),
]);

/** Undefined if the object may have any field. */
export function membersOf(parent: string): Members | undefined {
  const members = KNOWN_MEMBERS.get(parent);
  return members === undefined && !KNOWN_MEMBERS.has(parent) ? NO_MEMBERS : members;
}

/** Whether the fields of this object are listed. */
export function isListed(parent: string): boolean {
  return KNOWN_MEMBERS.has(parent);
}

export function withRules(names: Iterable<string>): Members {
  return new Map([...names].map((name) => [name, fieldRule(name) ?? null]));
}
