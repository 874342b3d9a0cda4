// Refuses tools that a provider runs at an unknown cost, on the gateway's own accounts. A tool with a fee has a price or is
// refused when the cost is estimated; any other tool must be one that costs tokens only.

import { isObject, type JsonObject } from "../../base/json.ts";
import { SERVER_TOOLS } from "../../models/tables/server-tool-prices.ts";
import { PROVIDERS } from "../providers/providers.ts";
import { CALLER_TOOL_TYPE, feeOfTool, toolsOf } from "../request/tool-bounds.ts";
import { unknownToolFault } from "./faults.ts";
import type { Destination } from "./source-url.ts";

/** At the operator's own servers, a tool costs no more than at the provider that defined it. */
const HOSTED_PROVIDERS: ReadonlySet<string> = new Set(
  PROVIDERS.flatMap(({ id, isLocal }) => (isLocal ? [] : [id])),
);

export function rejectUnknownTools(body: JsonObject, destination: Destination | undefined): void {
  if (destination === undefined || destination.allowsUnknown) return;
  const { provider } = destination;
  for (const [index, tool] of toolsOf(body).entries()) {
    const { type } = tool;
    const path = `tools[${index}]`;
    rejectNestedTools(tool, path, provider.name);
    if (typeof type !== "string" || CALLER_TOOL_TYPE.test(type) || feeOfTool(tool) !== undefined)
      continue;
    if (!hasTokenTool(provider.id, type)) throw unknownToolFault(path, type, provider.name);
  }
}

// A namespace groups the caller's own tools; the fees of other tools in it are not metered.
function rejectNestedTools({ tools }: JsonObject, path: string, provider: string): void {
  if (!Array.isArray(tools)) return;
  for (const [index, tool] of tools.entries()) {
    const type: unknown = isObject(tool) ? (tool["type"] ?? "function") : tool;
    if (type !== "function" && type !== "custom")
      throw unknownToolFault(`${path}.tools[${index}]`, String(type), provider);
  }
}

function hasTokenTool(providerId: string, type: string): boolean {
  const isHosted = HOSTED_PROVIDERS.has(providerId);
  return SERVER_TOOLS.some(
    ({ fee, providers, name }) =>
      fee === undefined && (!isHosted || providers.includes(providerId)) && name.test(type),
  );
}
