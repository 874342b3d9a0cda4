// The top-level fields that may carry text to the gateway's own accounts at providers: those of the providers' API
// references, read on 2026-11-23. One list for all, because providers accept fields of each other's APIs. Fields that always
// name something stored, or whose cost is unknown, are refused by other rules and are missing here. Fields of numbers are
// listed too, so that a text there gets the provider's error.

const FIELDS_BY_API = {
  chatCompletions:
    "audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens messages metadata " +
    "modalities model moderation n parallel_tool_calls prediction presence_penalty prompt_cache_key prompt_cache_options " +
    "prompt_cache_retention reasoning_effort response_format safety_identifier seed service_tier stop store stream " +
    "stream_options temperature tool_choice tools top_logprobs top_p user verbosity web_search_options",
  responses:
    "background context_management access_programs background_options include input instructions max_output_tokens max_tool_calls reasoning text truncation",
  embeddings:
    "dimensions encoding_format input_type instruction output_dimension output_dtype prompt_template task",
  messages:
    "anthropic_beta anthropic_version betas cache_control diagnostics inference_geo mcp_servers output_config " +
    "output_format speed stop_sequences system thinking top_k billing_policy compaction",
  postern: "client_metadata models postern provider",
  openrouter:
    "debug image_config min_p repetition_penalty route session_id top_a trace transforms usage",
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

export const KNOWN_FIELDS: ReadonlySet<string> = new Set(
  Object.values(FIELDS_BY_API).flatMap((fields) => fields.split(" ")),
);
