// The types of messages, items, content parts and sources that may be sent to the gateway's own accounts at providers.

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
    "program_output compaction_trigger web_search_result web_fetch_result tool_search_tool_search_result"
  ).split(" "),
);
/** Results of Anthropic's tools, of which each has its own type. */
const RESULT_TYPE =
  /^(?:web_search|web_fetch|advisor|tool_search|(?:bash_|text_editor_)?code_execution)(?:_(?:create|view|str_replace))?(?:_tool)?(?:_result(?:_error)?|_output)$/;

/** Whether an object in the field `parent` may have this `type`. The types of tools are decided by their price. */
export function isKnownType(type: string, parent: string): boolean {
  return !TYPED_PARENTS.has(parent) || KNOWN_TYPES.has(type) || RESULT_TYPE.test(type);
}
