// Refuses tools that a provider runs at a cost that the gateway does not know. A tool with a fee has a price or is refused
// when the cost is estimated; any other tool must be one that costs tokens only.

import type { JsonObject } from "../../base/json.ts";
import { SERVER_TOOLS } from "../../models/tables/server-tools.ts";
import { PROVIDERS } from "../providers/providers.ts";
import { CALLER_TOOL_TYPE, feeOfTool, toolsOf } from "../request/tool-bounds.ts";
import { unknownToolFault } from "./faults.ts";
import type { Destination } from "./source-url.ts";

/** The operator's own servers and providers, and the simulator, bill nothing that the operator has not priced. */
const BILLING_PROVIDERS: ReadonlySet<string> = new Set(
  PROVIDERS.flatMap(({ id, isLocal }) => (isLocal || id === "sim" ? [] : [id])),
);

export function rejectUnknownTools(body: JsonObject, destination: Destination | undefined): void {
  if (destination === undefined || !BILLING_PROVIDERS.has(destination.provider.id)) return;
  const { provider, wire } = destination;
  // Requests to these APIs are always translated, and their writers write functions only.
  if (wire === "gemini" || wire === "converse") return;
  for (const [index, tool] of toolsOf(body).entries()) {
    const { type } = tool;
    if (typeof type !== "string" || CALLER_TOOL_TYPE.test(type) || feeOfTool(tool) !== undefined)
      continue;
    if (!hasTokenTool(provider.id, type))
      throw unknownToolFault(`tools[${index}]`, type, provider.name);
  }
}

function hasTokenTool(providerId: string, type: string): boolean {
  return SERVER_TOOLS.some(
    ({ fee, providers, name }) =>
      fee === undefined && providers.includes(providerId) && name.test(type),
  );
}
