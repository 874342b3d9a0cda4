// The limit of calls of the provider's own tools, where the caller set none: the hold of the call covers no more.

import { type UpstreamWireName, WIRE_TRAITS } from "@postern/wires";
import { isObject, type JsonObject } from "../../../base/json.ts";
import { LIMITED_BY_USES } from "../../request/tool-bounds.ts";

/** The fields of a request that limit its tools; none on a wire without such fields. */
export function limitedTools(
  wire: UpstreamWireName,
  { tools }: JsonObject,
  limit: number,
): JsonObject {
  const field = WIRE_TRAITS[wire].toolLimitField;
  if (field === "max_tool_calls") return { [field]: limit };
  if (field === undefined || !Array.isArray(tools)) return {};
  return {
    tools: tools.map((tool: unknown) =>
      isObject(tool) && tool["max_uses"] === undefined && LIMITED_BY_USES.test(String(tool["type"]))
        ? { ...tool, max_uses: limit }
        : tool,
    ),
  };
}
