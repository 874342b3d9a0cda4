// The top-level fields that may carry text to the gateway's own accounts at providers: those of the providers' API
// references, read on 2026-11-23. One list for all, because providers accept fields of each other's APIs. Fields that always
// name something stored, or whose cost is unknown, are refused by other rules and are missing here. Fields of numbers are
// listed too, so that a text there gets the provider's error. The list adds to the fields that translation reads.

import { API_TRAITS } from "@postern/wires";

const FIELDS_BY_API = {
  chatCompletions: "audio moderation prediction prompt_cache_options web_search_options",
  responses: "context_management access_programs background_options max_tool_calls",
  embeddings:
    "dimensions encoding_format input_type instruction output_dimension output_dtype prompt_template task",
  messages:
    "anthropic_beta anthropic_version betas diagnostics inference_geo mcp_servers speed billing_policy compaction",
  postern: "client_metadata models postern provider",
  openrouter: "debug image_config min_p repetition_penalty route session_id top_a trace transforms",
  azure: "user_security_context",
  google: "extra_body",
  mistral: "document_name guardrails prompt_mode random_seed",
  groq: "citation_options compound_custom documents exclude_domains include_domains reasoning_format search_settings",
  xai: "search_parameters",
  zai: "request_id user_id",
  together: "chat_template_kwargs compliance context_length_exceeded_behavior safety_model",
  fireworks: "prompt_cache_isolation_key reasoning_history speculation",
  cerebras: "chat_template_args",
  perplexity:
    "country image_domain_filter image_format_filter language_preference last_updated_after_filter " +
    "last_updated_before_filter media_response search_after_date_filter search_before_date_filter search_domain_filter " +
    "search_context_size search_language_filter search_mode search_recency_filter search_type stream_mode",
  vllm: "bad_words grammar guided_choice guided_decoding_backend guided_grammar guided_json guided_regex structured_outputs",
} as const;

export const KNOWN_FIELDS: ReadonlySet<string> = new Set([
  ...Object.values(API_TRAITS).flatMap(({ knownFields }) => Array.from(knownFields)),
  ...Object.values(FIELDS_BY_API).flatMap((fields) => fields.split(" ")),
]);
