// Refuses what the gateway does not know, on its own accounts at providers: top-level fields with text, which could name
// something stored there, and tools that a provider runs at an unknown cost. A tool with a fee has a price or is refused when
// the cost is estimated; any other tool must be one that costs tokens only.

import type { JsonObject } from "../../base/json.ts";
import { SERVER_TOOLS } from "../../models/tables/server-tools.ts";
import { PROVIDERS } from "../providers/providers.ts";
import { CALLER_TOOL_TYPE, feeOfTool, toolsOf } from "../request/tool-bounds.ts";
import { unknownFieldFault, unknownToolFault } from "./faults.ts";
import { KNOWN_FIELDS } from "./known-fields.ts";
import type { Destination } from "./source-url.ts";

/** In the operator's own servers and providers, only the operator stores anything, and bills what it has priced. */
const SHARED_PROVIDERS: ReadonlySet<string> = new Set(
  PROVIDERS.flatMap(({ id, isLocal }) => (isLocal || id === "sim" ? [] : [id])),
);

export function rejectUnknown(body: JsonObject, destination: Destination | undefined): void {
  if (destination === undefined || !SHARED_PROVIDERS.has(destination.provider.id)) return;
  const { provider, wire } = destination;
  // Requests to these APIs are always translated, and their writers write known fields and functions only.
  if (wire === "gemini" || wire === "converse") return;
  for (const name in body)
    if (!KNOWN_FIELDS.has(name) && mayName(body[name]))
      throw unknownFieldFault(name, provider.name);
  for (const [index, tool] of toolsOf(body).entries()) {
    const { type } = tool;
    if (typeof type !== "string" || CALLER_TOOL_TYPE.test(type) || feeOfTool(tool) !== undefined)
      continue;
    if (!hasTokenTool(provider.id, type))
      throw unknownToolFault(`tools[${index}]`, type, provider.name);
  }
}

/** Numbers and booleans name nothing. */
function mayName(value: unknown): boolean {
  if (typeof value === "object" && value !== null) return Object.keys(value).length > 0;
  return typeof value === "string" && value !== "";
}

function hasTokenTool(providerId: string, type: string): boolean {
  return SERVER_TOOLS.some(
    ({ fee, providers, name }) =>
      fee === undefined && providers.includes(providerId) && name.test(type),
  );
}
