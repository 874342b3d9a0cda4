// What SDKs can send and the gateway's accounts refuse, each with its reason. With the caller's own provider key all of it
// passes. A new name is reviewed before it comes here.

const STORED = "names something stored in the provider account";
const OWN_ACCOUNT = "belongs to the caller's own account at the provider";
const UNPRICED = "the harness's provider has no price for it";
const UNBOUNDED = "its cost is known only to the provider";
const ROUTING = "a routing preference whose value must be one of this gateway";

const NAMES_AN_ITEM = "has an id and nothing else to send, so it could only name a stored item";

const REASONS: readonly (readonly [name: RegExp, reason: string])[] = [
  [/^responses (?:conversation|previous_response_id|prompt)(?:\.|\[|$)/, STORED],
  [/^responses background_options\.continuation_id$/, STORED],
  [/^responses prompt_cache_options\.comparison_response_id$/, STORED],
  // The samples have no action, no settings and no output.
  [/^responses input\[computer_call\](?:\.agent)?$/, NAMES_AN_ITEM],
  [
    /^responses input\[(?:configuration_update|apply_patch_call_output|compaction_trigger)\]\.id$/,
    NAMES_AN_ITEM,
  ],
  [/^responses content\[input_(?:image|file)\]\.file_id$/, STORED],
  [/^responses tools\[file_search\]/, STORED],
  [/^responses tools\[mcp\]\.(?:connector_id|tunnel_id)$/, STORED],
  // The sample names a container.
  [/^responses tools\[code_interpreter\](?:\.allowed_callers)?$/, STORED],
  [/^responses tools\[image_generation\]/, UNPRICED],
  [/^responses multi_agent/, UNBOUNDED],
  [/^chat web_search_options/, UNPRICED],
  [/^chat messages\[assistant\]\.audio$/, STORED],
  [/^messages container/, STORED],
  [/^messages diagnostics\.previous_message_id$/, STORED],
  [/^messages thread/, STORED],
  [/^messages content\[container_upload\]/, STORED],
  [/^messages (?:fallback_credit_token|user_profile_id|workspace_id)/, OWN_ACCOUNT],
  [/^messages fallbacks/, UNBOUNDED],
  [/^messages tools\[advisor_\d+\]/, UNPRICED],
  // Without a model, whose price it has.
  [/^type advisor_\d+$/, UNPRICED],
  [/^gemini tools\[Tool\]\.(?:retrieval|fileSearch)$/, STORED],
  [/^gemini tools\[Tool\]\.mcpServers$/, "the sample has no URL of a server"],
  [
    /^gemini tools\[Tool\]\.(?:googleMaps|enterpriseWebSearch|exaAiSearch|parallelAiSearch|computerUse)$/,
    "a tool of Google's that has no price here",
  ],
  [/^chat plugins/, UNBOUNDED],
  [/^chat (?:models|provider\.(?:data_collection|ignore|only|order|sort))$/, ROUTING],
  [/^chat provider\.zdr$/, "the harness's provider says nothing of its data"],
  [
    /^chat provider\.(?:enforce_distillable_text|preferred_\w+|quantizations)$/,
    "a routing preference of OpenRouter that this gateway cannot keep",
  ],
  [/^chat (?:service_tier|tools)$/, "the sample is no value of this field"],
];

export function reasonFor(name: string): string | undefined {
  return REASONS.find(([pattern]) => pattern.test(name))?.[1];
}
