// Anthropic's Messages: input is counted without the cache, a stream corrects itself field by field, and a reply may have
// had several legs, each at its own price.

import type { TokenMeter, Usage } from "../../../base/usage-meters.ts";
import { readFeeCounts } from "./fee-counts.ts";
import type { ScanPlan } from "./event-scanner.ts";
import {
  createUsageMeter,
  detectError,
  setModel,
  addText,
  type StreamMeter,
  type StreamState,
} from "./stream-meter.ts";
import {
  valueAt,
  readCount,
  firstNumber,
  ownMember,
  readName,
  readStatedCost,
  readTier,
  buildUsage,
  clampToWhole,
  type ReadNotes,
} from "./read-numbers.ts";
import { arrayIn, objectIn, type JsonObject } from "../../../base/json.ts";

const ITERATIONS_MAX = 64;
// What a stream keeps of its usage objects.
const USAGE_FIELDS = [
  "input_tokens",
  "output_tokens",
  "cache_read_input_tokens",
  "cache_creation_input_tokens",
  "cache_creation",
  "output_tokens_details",
  "server_tool_use",
  "service_tier",
  "speed",
  "inference_geo",
  "iterations",
  "cost",
];

/** The usage that a message states. */
export function usageOfMessages(body: unknown, _provider: string): Usage | undefined {
  const usage = objectIn(ownMember(body, "usage"));
  return usage && readUsage(usage, readName(ownMember(body, "model")));
}

const SCAN_PLAN: ScanPlan = {
  textSlots: { text: 0, thinking: 0, partial_json: 0 },
  parseKeys: ["usage", "error"],
  parseTypes: ["message_start", "message_delta", "message_stop", "error"],
  ignoredTypes: ["content_block_start"],
};

export function createMessagesStreamMeter(_provider: string): StreamMeter {
  const fields = new Map<string, unknown>();
  return createUsageMeter({
    plan: SCAN_PLAN,
    read: (state, name, data) => readMessagesEvent(state, name, data, fields),
    usage: (state) =>
      fields.size === 0 ? undefined : readUsage(Object.fromEntries(fields), state.model),
  });
}

function readMessagesEvent(
  state: StreamState,
  name: string,
  data: JsonObject,
  fields: Map<string, unknown>,
): boolean {
  detectError(state, name, data);
  const type = readName(data["type"]) ?? name;
  if (type === "message_stop") state.finished = true;
  if (type === "content_block_delta") addBlockDelta(state, data["delta"]);
  if (type === "message_start") {
    setModel(state, valueAt(data, ["message", "model"]));
    return mergeUsage(fields, valueAt(data, ["message", "usage"]));
  }
  if (type !== "message_delta") return false;
  if (typeof valueAt(data, ["delta", "stop_reason"]) === "string") state.hasStopReason = true;
  const hasUsage = mergeUsage(fields, data["usage"]);
  state.isUsageFinal ||= hasUsage;
  return hasUsage;
}

function addBlockDelta(state: StreamState, delta: unknown): void {
  addText(state, ownMember(delta, "text"));
  addText(state, ownMember(delta, "thinking"));
  addText(state, ownMember(delta, "partial_json"));
}

// A later event repeats the fields that it corrects: it replaces them, and never adds.
function mergeUsage(fields: Map<string, unknown>, value: unknown): boolean {
  const usage = objectIn(value);
  if (
    usage === undefined ||
    firstNumber(usage, [["input_tokens"], ["output_tokens"]]) === undefined
  )
    return false;
  for (const name of USAGE_FIELDS) {
    const field = ownMember(usage, name);
    if (field !== undefined && field !== null) fields.set(name, field);
  }
  return true;
}

function readUsage(usage: JsonObject, model: string | undefined): Usage | undefined {
  if (firstNumber(usage, [["input_tokens"], ["output_tokens"]]) === undefined) return undefined;
  const notes: ReadNotes = { clamped: false };
  const shared = {
    serviceTier: readTier(usage["service_tier"]),
    speed: readName(usage["speed"]),
    region: regionOf(usage["inference_geo"]),
  };
  const [first, ...rest] = iterationsOf(notes, usage);
  const thinking = readCount(notes, valueAt(usage, ["output_tokens_details", "thinking_tokens"]));
  const additional = rest.map((iteration) => {
    const own: ReadNotes = { clamped: false };
    return buildUsage(
      {
        ...shared,
        tokens: tokensOf(own, iteration, 0),
        model: readName(iteration["model"]) ?? model,
      },
      own,
    );
  });
  return buildUsage(
    {
      ...shared,
      tokens: tokensOf(notes, first, thinking),
      fees: readFeeCounts(notes, usage),
      model: readName(first["model"]) ?? model,
      statedCostUsd: readStatedCost(usage),
      additional,
    },
    notes,
  );
}

/**
 * `iterations` names every leg, also those that the top level leaves out: a compaction, an advisor of another model. Each
 * stays a leg of its own, because a price may depend on how long its prompt was. After a fallback the top level is the
 * answer that was served, at the price of the model that served it.
 */
function iterationsOf(notes: ReadNotes, usage: JsonObject): [JsonObject, ...JsonObject[]] {
  const entries = arrayIn(usage["iterations"])
    .map(objectIn)
    .filter((entry) => entry !== undefined);
  if (entries.length > ITERATIONS_MAX) notes.clamped = true;
  const iterations = entries.slice(0, ITERATIONS_MAX);
  const fallback = iterations.findLast((iteration) => iteration["type"] === "fallback_message");
  if (fallback !== undefined) {
    const advisors = iterations.filter((iteration) => iteration["type"] === "advisor_message");
    return [{ ...usage, model: fallback["model"] }, ...advisors];
  }
  const mainIndex = Math.max(
    0,
    iterations.findIndex((iteration) => iteration["type"] === "message"),
  );
  const main = iterations[mainIndex];
  return main === undefined ? [usage] : [main, ...iterations.toSpliced(mainIndex, 1)];
}

function tokensOf(
  notes: ReadNotes,
  iteration: JsonObject,
  thinking: number,
): Partial<Record<TokenMeter, number>> {
  const hour = readCount(
    notes,
    valueAt(iteration, ["cache_creation", "ephemeral_1h_input_tokens"]),
  );
  const minutes = readCount(
    notes,
    valueAt(iteration, ["cache_creation", "ephemeral_5m_input_tokens"]),
  );
  // The split may be older than the sum, which a later event of the stream has corrected, or be missing.
  const written = readCount(notes, iteration["cache_creation_input_tokens"] ?? hour + minutes);
  const hourWritten = Math.min(hour, written);
  const output = readCount(notes, iteration["output_tokens"]);
  const reasoning = clampToWhole(notes, thinking, output);
  return {
    input: readCount(notes, iteration["input_tokens"]),
    cache_read: readCount(notes, iteration["cache_read_input_tokens"]),
    cache_write_5m: written - hourWritten,
    cache_write_1h: hourWritten,
    output: output - reasoning,
    reasoning,
  };
}

// "not_available" says nothing of where it ran.
function regionOf(value: unknown): string | undefined {
  const region = readName(value);
  return region === "not_available" ? undefined : region;
}
