// The types of messages, items, content parts and sources that may be sent to the gateway's own accounts at providers.

import { type JsonObject, isObject } from "../../base/json.ts";
import { isCallerData } from "./caller-data.ts";
import { type Members, withRules, isListed, membersOf } from "./known-members.ts";
import { ROOT } from "./reference-table.ts";

const TYPED_PARENTS: ReadonlySet<string> = new Set(
  "messages input content output images source".split(" "),
);
const KNOWN_TYPES: ReadonlySet<string> = new Set(
  (
    "message text refusal image image_url input_image input_text input_file input_audio input_video output_text reasoning_text " +
    "summary_text audio_url video_url document_url file_url document reference file thinking redacted_thinking reasoning compaction base64 url content json " +
    "search_result mid_conv_system fallback tool_use tool_result tool_reference tool_addition tool_removal server_tool_use " +
    "mcp_tool_use mcp_tool_result advisor_result advisor_redacted_result computer_screenshot encrypted_code_execution_result " +
    "function_call function_call_output custom_tool_call custom_tool_call_output computer_call computer_call_output " +
    "local_shell_call local_shell_call_output shell_call shell_call_output apply_patch_call apply_patch_call_output " +
    "file_search_call web_search_call x_search_call code_interpreter_call image_generation_call tool_search_call " +
    "tool_search_output mcp_call mcp_list_tools mcp_approval_request mcp_approval_response additional_tools program " +
    "program_output compaction_trigger web_search_result web_fetch_result tool_search_tool_search_result " +
    "mcp_tool_listing agent_message multi_agent_call multi_agent_call_output configuration_update context_compaction " +
    "encrypted_content"
  ).split(" "),
);
/** Results of Anthropic's tools, of which each has its own type. */
const RESULT_TYPE =
  /^(?:web_search|web_fetch|advisor|tool_search|(?:bash_|text_editor_)?code_execution)(?:_(?:create|view|str_replace))?(?:_tool)?(?:_result(?:_error)?|_output)$/;

/** A new type of message, item or part may be sent if it looks like one; its members are checked more strictly. */
const OPEN_PARENTS: ReadonlySet<string> = new Set("messages input content output".split(" "));
const TYPE_NAME = /^[a-z][a-z_]{0,47}(?:_\d{8})?$/;
/** Fields that have text for the model, or link the parts of a request, whatever the type of their object is. */
const PROSE =
  "type role status phase text content arguments output summary thinking encrypted_content signature cache_control call_id " +
  "tool_use_id tool_call_id";
const PROSE_MEMBERS: Members = withRules(PROSE.split(" "));
/** An object with one of these sends content, and needs no id; an object with an `id` and none of them can only name it. */
const PAYLOAD = ["text", "content", "arguments", "output", "summary", "encrypted_content"];

export function hasUnknownType({ type }: JsonObject, parent: string): boolean {
  return typeof type === "string" && !isKnownType(type, parent);
}

/** Whether an object of this type may be sent: a known one, or a new type of message, item or part. */
export function isAllowedType(type: string, parent: string): boolean {
  return isKnownType(type, parent) || (OPEN_PARENTS.has(parent) && TYPE_NAME.test(type));
}

/** The fields that an object of an unknown type may have with any text. */
export function membersOfUnknownType(): Members {
  return PROSE_MEMBERS;
}

/** Whether an object of an unknown type is complete without its id. */
export function isCompleteWithoutId(object: JsonObject, parent: string): boolean {
  return hasUnknownType(object, parent) && PAYLOAD.some((name) => isNonEmpty(object[name]));
}

function isNonEmpty(value: unknown): boolean {
  return (typeof value === "string" || Array.isArray(value)) && value.length > 0;
}

/** Only objects in fields of `TYPED_PARENTS` are checked here; whether a tool may be sent depends on its price. */
function isKnownType(type: string, parent: string): boolean {
  // A tool that is defined in the middle of a conversation. Prices are looked up for `tools` only, so no tool of the provider may be here.
  if (parent === "definition") return type === "custom";
  return !TYPED_PARENTS.has(parent) || KNOWN_TYPES.has(type) || RESULT_TYPE.test(type);
}

/**
 * Whether a request body has a field that the gateway does not know. On the gateway's accounts it may have no text that names
 * something, but the provider may run a feature because of it, which the cost estimate does not bound.
 */
export function hasUnknownField(object: JsonObject, parent = ROOT): boolean {
  if (hasUnknownType(object, parent)) return true;
  const members = membersOf(parent);
  // The fields of an object without text are not listed.
  if (members === undefined || !isListed(parent)) return false;
  return Object.entries(object).some(([name, value]) => {
    if (value === null) return false;
    const isSetting = parent !== ROOT && typeof value === "number";
    return (!members.has(name) && !isSetting) || isUnknownBelow(name, value, object, parent);
  });
}

function isUnknownBelow(name: string, value: unknown, holder: JsonObject, parent: string): boolean {
  if (typeof value !== "object" || isCallerData(name, holder, parent)) return false;
  return [value].flat().some((item) => isObject(item) && hasUnknownField(item, name));
}
