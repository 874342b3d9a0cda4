// What is charged by the piece, where a usage object counts it. The names are so particular that one table serves all.

import type { FeeMeter } from "../../base/meters.ts";
import { at, count, type Path, type Tally } from "./tally.ts";

export type Fees = Partial<Record<FeeMeter, number>>;

const COUNTED_FEES: readonly (readonly [Path, FeeMeter])[] = [
  // Anthropic, also through others.
  [["server_tool_use", "web_search_requests"], "web_search"],
  [["server_tool_use", "web_fetch_requests"], "web_fetch"],
  [["server_tool_use", "code_execution_requests"], "code_execution"],
  // OpenRouter.
  [["server_tool_use_details", "web_search_requests"], "web_search"],
  // xAI. Calls of an MCP server cost tokens only.
  [["server_side_tool_usage_details", "web_search_calls"], "web_search"],
  [["server_side_tool_usage_details", "x_search_calls"], "x_search"],
  [["server_side_tool_usage_details", "code_interpreter_calls"], "code_execution"],
  [["server_side_tool_usage_details", "file_search_calls"], "file_search"],
  [["server_side_tool_usage_details", "document_search_calls"], "other_tool"],
  [["server_side_tool_usage_details", "image_generation_calls"], "image_generation"],
  // Perplexity's deep research.
  [["num_search_queries"], "web_search"],
];

/** The fees that the usage object itself counts. */
export function countedFees(tally: Tally, usage: unknown): Fees {
  const fees: Fees = {};
  for (const [path, meter] of COUNTED_FEES) {
    const amount = count(tally, at(usage, path));
    if (amount > 0) fees[meter] = (fees[meter] ?? 0) + amount;
  }
  return fees;
}

export function addFee(fees: Fees, meter: FeeMeter, amount = 1): void {
  fees[meter] = (fees[meter] ?? 0) + amount;
}
