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
  // The chat wire asks for a search by an option beside the tools.
  const searches =
    json["web_search_options"] !== undefined || json["search_parameters"] !== undefined;
  if (!searches && tools === undefined) return NO_FEES;
  const fees: Partial<Record<FeeMeter, number>> = {};
  for (const tool of Array.isArray(tools) ? tools : []) addTool(fees, tool);
  if (searches) add(fees, "web_search", CALLS_HELD);
  return fees;
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
  const fee = TOOL_FEES.find(([pattern]) => pattern.test(type))?.[1];
  if (fee !== undefined) add(fees, fee, usesOf(tool));
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
