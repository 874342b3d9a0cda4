// Blocks of Anthropic's server tools: calls, and their results.

import type { NativePart } from "../canonical/canonical-parts.ts";
import type { JsonObject } from "../json-fields.ts";

/** Id prefix of calls that another provider made. Anthropic could reject their results. */
export const FOREIGN_USE = "srvtoolu_pst_";
export const FOREIGN_MCP_USE = "mcptoolu_pst_";

const CALL_TYPE = /^(server|mcp)_tool_use$/;
const RESULT =
  /^(web_search_tool|web_fetch_tool|advisor_tool|((bash|text_editor)_)?code_execution_tool|mcp_tool)_result$/;

/** A call or a result. Searches for tools are not calls of the provider's own tools. */
export function isServerCallBlock({ type, name }: JsonObject): boolean {
  if (typeof type !== "string") return false;
  return CALL_TYPE.test(type) ? !String(name).startsWith("tool_search_tool_") : RESULT.test(type);
}

/** Whether this gateway wrote the block for a call of another provider. */
export function isForeignCallBlock(block: JsonObject): boolean {
  const { id, tool_use_id: callId } = block;
  const own = typeof id === "string" ? id : callId;
  return (
    typeof own === "string" && (own.startsWith(FOREIGN_USE) || own.startsWith(FOREIGN_MCP_USE))
  );
}

export function nativeBlock(value: JsonObject): NativePart {
  return { type: "native", wire: "messages", value };
}
