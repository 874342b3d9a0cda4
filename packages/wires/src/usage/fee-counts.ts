// Reads counts of charged tool uses from a usage object. The field names differ by provider, so one table serves all.

import { lookUp } from "../json-fields.ts";
import { readCount, ownMember, type ReadNotes } from "./read-numbers.ts";
import type { FeeMeter } from "./usage-meters.ts";

export type Fees = Partial<Record<FeeMeter, number>>;

const FEE_COUNT_FIELDS: Readonly<Record<string, readonly (readonly [name: string, FeeMeter])[]>> = {
  // Anthropic, also when called through other providers.
  server_tool_use: [
    ["web_search_requests", "web_search"],
    ["web_fetch_requests", "web_fetch"],
    ["code_execution_requests", "code_execution"],
  ],
  // OpenRouter.
  server_tool_use_details: [["web_search_requests", "web_search"]],
  // xAI. Calls of an MCP server cost tokens only.
  server_side_tool_usage_details: [
    ["web_search_calls", "web_search"],
    ["x_search_calls", "x_search"],
    ["code_interpreter_calls", "code_execution"],
    ["file_search_calls", "file_search"],
    ["document_search_calls", "other_tool"],
    ["image_generation_calls", "image_generation"],
  ],
};

/** The fees that the usage object counts. */
export function readFeeCounts(notes: ReadNotes, usage: unknown): Fees {
  const fees: Fees = {};
  for (const field in FEE_COUNT_FIELDS) {
    const counts = ownMember(usage, field);
    if (counts === undefined) continue;
    for (const [name, meter] of lookUp(FEE_COUNT_FIELDS, field) ?? []) {
      const amount = readCount(notes, ownMember(counts, name));
      if (amount > 0) addFee(fees, meter, amount);
    }
  }
  // Perplexity's deep research.
  const searches = readCount(notes, ownMember(usage, "num_search_queries"));
  if (searches > 0) addFee(fees, "web_search", searches);
  return fees;
}

export function addFee(fees: Fees, meter: FeeMeter, amount = 1): void {
  fees[meter] = (fees[meter] ?? 0) + amount;
}
