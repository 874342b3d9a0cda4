// Items of OpenAI's server tools: calls with their results.

import { isForeignContainer } from "../canonical/tools/canonical-code-execution.ts";
import type { JsonObject } from "../json-fields.ts";

const CALLS: ReadonlySet<unknown> = new Set([
  "web_search_call",
  "file_search_call",
  "code_interpreter_call",
  "mcp_call",
  "mcp_list_tools",
]);

export function isServerCallItem({ type }: JsonObject): boolean {
  return CALLS.has(type);
}

/** Whether this gateway wrote the item for a run at another provider; OpenAI would look for its container. */
export function isForeignRun({ type, container_id: container }: JsonObject): boolean {
  return (
    type === "code_interpreter_call" &&
    typeof container === "string" &&
    isForeignContainer(container)
  );
}
