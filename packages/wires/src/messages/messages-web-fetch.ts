import { addHintLoss, addLoss, type Loss } from "../canonical/canonical-losses.ts";
import type {
  ServerToolDefinition,
  ServerToolRequestForm,
} from "../canonical/tools/server-tool.ts";
// Anthropic's fetching of pages that the conversation names.
import { isSet, unknownFields } from "../json-fields.ts";
import { readDomains } from "../search-settings.ts";
import { findNativeTool, isChosen, otherToolFields, withoutTool } from "../server-tool-fields.ts";

/** Limits of pages and of their length are hints: they bound the cost. */
const FIELDS: ReadonlySet<string> = new Set(
  "type name allowed_domains blocked_domains max_uses max_content_tokens".split(" "),
);

export const messagesFetch: ServerToolRequestForm<ServerToolDefinition> = {
  read(request) {
    const tool = findNativeTool(request, "messages", /^web_fetch_\d{8}$/);
    if (tool === undefined) return undefined;
    const { value, path = "tools" } = tool;
    const losses: Loss[] = [...otherToolFields(unknownFields(value, FIELDS), path, "messages")];
    for (const field of ["allowed_domains", "blocked_domains"]) {
      const at = `${path}.${field}`;
      if (readDomains(value[field], at) !== undefined)
        addLoss(losses, at, "This provider cannot restrict fetching to domains.");
    }
    for (const field of ["max_uses", "max_content_tokens"])
      if (isSet(value[field]))
        addHintLoss(losses, `${path}.${field}`, "This provider has no such limit.");
    const isRequired = isChosen(request, tool);
    const rest = withoutTool(request, tool);
    return {
      tool: { path, isRequired, losses },
      rest: isRequired ? { ...rest, toolChoice: undefined } : rest,
    };
  },
};
