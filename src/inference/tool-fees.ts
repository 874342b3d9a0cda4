// The most pieces that a request's server-side tools can charge for. A provider bounds some of them by a field of the
// tool; where it does not, a stated number is held, and the reply decides what is charged.

import type { FeeMeter } from "../base/meters.ts";

/** Held for a tool whose request sets no limit of its own. */
const CALLS_HELD = 10;

const TOOL_FEES: readonly (readonly [type: RegExp, fee: FeeMeter])[] = [
  [/^web_search/, "web_search"],
  [/^web_fetch/, "web_fetch"],
  [/^(code_execution|code_interpreter)/, "code_execution"],
  [/^(file_search|collections_search)/, "file_search"],
  [/^x_search/, "x_search"],
  [/^image_generation/, "image_generation"],
  [/^(google_search|url_context)/, "grounding"],
];

/** What most requests ask for; this very object, so that it can be told from others at a glance. */
export const NO_FEES: Readonly<Partial<Record<FeeMeter, number>>> = {};

export function mostFees(
  json: Readonly<Record<string, unknown>>,
): Readonly<Partial<Record<FeeMeter, number>>> {
  const { tools } = json;
  const lent = toolsAmong(json["input"]);
  // The chat wire asks for a search by an option beside the tools.
  const searches =
    json["web_search_options"] !== undefined || json["search_parameters"] !== undefined;
  if (!searches && tools === undefined && lent === undefined) return NO_FEES;
  const fees: Partial<Record<FeeMeter, number>> = {};
  for (const tool of [...(Array.isArray(tools) ? tools : []), ...(lent ?? [])]) addTool(fees, tool);
  if (searches) add(fees, "web_search", CALLS_HELD);
  return fees;
}

// The Responses API takes tools among the items as well (`additional_tools`, `tool_search_output`).
function toolsAmong(input: unknown): readonly unknown[] | undefined {
  if (!Array.isArray(input)) return undefined;
  let found: unknown[] | undefined;
  // Safe because nothing is said of what the array holds.
  for (const item of input as readonly unknown[])
    if (typeof item === "object" && item !== null && "tools" in item && Array.isArray(item.tools))
      // Safe because nothing is said of what the array holds.
      (found ??= []).push(...(item.tools as readonly unknown[]));
  return found;
}

function addTool(fees: Partial<Record<FeeMeter, number>>, tool: unknown): void {
  if (
    typeof tool !== "object" ||
    tool === null ||
    !("type" in tool) ||
    typeof tool.type !== "string"
  )
    return;
  const { type } = tool;
  const fee = isHostedShell(tool)
    ? "code_execution"
    : TOOL_FEES.find(([pattern]) => pattern.test(type))?.[1];
  if (fee !== undefined) add(fees, fee, usesOf(tool));
}

// A shell on the caller's own machine costs nothing; one in the provider's container costs that container.
function isHostedShell(tool: object): boolean {
  if (!("type" in tool) || tool.type !== "shell" || !("environment" in tool)) return false;
  const { environment } = tool;
  return (
    typeof environment === "object" &&
    environment !== null &&
    "type" in environment &&
    environment.type !== "local"
  );
}

function usesOf(tool: object): number {
  const limit = "max_uses" in tool ? tool.max_uses : undefined;
  return typeof limit === "number" && Number.isInteger(limit) && limit >= 0
    ? Math.min(limit, 1_000)
    : CALLS_HELD;
}

function add(fees: Partial<Record<FeeMeter, number>>, fee: FeeMeter, count: number): void {
  fees[fee] = (fees[fee] ?? 0) + count;
}
