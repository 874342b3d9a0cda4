import type { Tool } from "../../canonical/canonical-request.ts";
// Tools that items of the conversation load. This API reads them there, so that a prompt cache stays valid; other APIs get
// them with the rest.
import { isObject } from "../../json-fields.ts";
import { readTools } from "./read-responses-tools.ts";

/** The tools of the request, and those of its items that it does not list. */
export function readAllTools(tools: unknown, input: unknown): readonly Tool[] | undefined {
  const listed = readTools(tools);
  if (!Array.isArray(input)) return listed;
  const names = new Set(listed?.map(({ name }) => name));
  const loaded: Tool[] = [];
  for (const [at, item] of input.entries()) {
    if (!isObject(item) || !LOADING_ITEMS.has(item["type"])) continue;
    for (const tool of readTools(item["tools"], `input[${at}].tools`) ?? []) {
      if (tool.type === "native" || names.has(tool.name)) continue;
      names.add(tool.name);
      loaded.push({ ...tool, isLoaded: true });
    }
  }
  return loaded.length === 0 ? listed : [...(listed ?? []), ...loaded];
}

const LOADING_ITEMS: ReadonlySet<unknown> = new Set(["tool_search_output", "additional_tools"]);
