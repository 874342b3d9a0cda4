// Usage on the messages wire (Anthropic). Input excludes cached tokens, later events of a stream correct earlier ones field
// by field, and a reply may consist of several iterations, each priced separately.

import { arrayIn, objectIn, type JsonObject } from "../json-fields.ts";
import type { ScanPlan } from "./event-scanner.ts";
import { addFee, readFeeCounts } from "./fee-counts.ts";
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
import {
  createUsageMeter,
  detectError,
  setModel,
  addText,
  addToolCall,
  type StreamMeter,
  type StreamState,
} from "./stream-meter.ts";
import type { FeeMeter, TokenMeter, Usage } from "./usage-meters.ts";

const ITERATIONS_MAX = 64;
// The fields kept from the usage objects of a stream.
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

/** The usage of a message. */
export function usageOfMessages(body: unknown, _provider: string): Usage | undefined {
  const usage = objectIn(ownMember(body, "usage"));
  const runs = arrayIn(ownMember(body, "content")).filter(isCodeRun).length;
  return usage && withCodeRuns(readUsage(usage, readName(ownMember(body, "model"))), runs);
}

function isCodeRun(block: unknown): boolean {
  return feeOfBlock(block) === "code_execution";
}

/** The usage object does not always count the runs of code. */
function withCodeRuns(usage: Usage | undefined, runs: number): Usage | undefined {
  return usage !== undefined && runs > (usage.fees.code_execution ?? 0)
    ? { ...usage, fees: { ...usage.fees, code_execution: runs } }
    : usage;
}

const SCAN_PLAN: ScanPlan = {
  textSlots: { text: 0, thinking: 0, partial_json: 0 },
  parseKeys: ["usage", "error"],
  parseTypes: ["message_start", "content_block_start", "message_delta", "message_stop", "error"],
};

export function createMessagesStreamMeter(_provider: string): StreamMeter {
  const fields = new Map<string, unknown>();
  return createUsageMeter({
    plan: SCAN_PLAN,
    read: (state, name, data) => readMessagesEvent(state, name, data, fields),
    usage: (state) =>
      fields.size === 0
        ? undefined
        : withCodeRuns(
            readUsage(Object.fromEntries(fields), state.model),
            state.fees.code_execution ?? 0,
          ),
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
  if (type === "content_block_start") addBlock(state, data["content_block"]);
  if (type === "content_block_delta") addBlockDelta(state, data["delta"]);
  if (type === "message_start") {
    state.providerCalls ??= 0;
    setModel(state, valueAt(data, ["message", "model"]));
    return mergeUsage(fields, valueAt(data, ["message", "usage"]));
  }
  if (type !== "message_delta") return false;
  if (typeof valueAt(data, ["delta", "stop_reason"]) === "string") state.hasStopReason = true;
  const hasUsage = mergeUsage(fields, data["usage"]);
  state.isUsageFinal ||= hasUsage;
  return hasUsage;
}

const SERVER_TOOL_FEES: ReadonlyMap<unknown, FeeMeter> = new Map([
  ["web_search", "web_search"],
  ["web_fetch", "web_fetch"],
  ["code_execution", "code_execution"],
  ["bash_code_execution", "code_execution"],
  ["text_editor_code_execution", "code_execution"],
]);

const PROVIDER_CALL = /^(?:server|mcp)_tool_use$/;

function addBlock(state: StreamState, block: unknown): void {
  if (PROVIDER_CALL.test(String(ownMember(block, "type"))))
    state.providerCalls = (state.providerCalls ?? 0) + 1;
  if (ownMember(block, "type") === "tool_use") addToolCall(state, ownMember(block, "name"));
  const fee = feeOfBlock(block);
  if (fee !== undefined) addFee(state.fees, fee);
}

function feeOfBlock(block: unknown): FeeMeter | undefined {
  return ownMember(block, "type") === "server_tool_use"
    ? SERVER_TOOL_FEES.get(ownMember(block, "name"))
    : undefined;
}

function addBlockDelta(state: StreamState, delta: unknown): void {
  addText(state, ownMember(delta, "text"));
  addText(state, ownMember(delta, "thinking"));
  addText(state, ownMember(delta, "partial_json"));
}

// A later event replaces the fields that it repeats; counts are never added up.
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
 * `iterations` lists every model run of the call, including compactions and advisor models, which the top-level counts
 * omit. Each is priced separately, because a price may depend on the length of its prompt. After a fallback, the top-level
 * counts are those of the model that answered.
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
  const reported1h = readCount(
    notes,
    valueAt(iteration, ["cache_creation", "ephemeral_1h_input_tokens"]),
  );
  const reported5m = readCount(
    notes,
    valueAt(iteration, ["cache_creation", "ephemeral_5m_input_tokens"]),
  );
  // The breakdown may be missing, or older than the sum, which later events correct.
  const written = readCount(
    notes,
    iteration["cache_creation_input_tokens"] ?? reported1h + reported5m,
  );
  const written1h = Math.min(reported1h, written);
  const output = readCount(notes, iteration["output_tokens"]);
  const reasoning = clampToWhole(notes, thinking, output);
  return {
    input: readCount(notes, iteration["input_tokens"]),
    cache_read: readCount(notes, iteration["cache_read_input_tokens"]),
    cache_write_5m: written - written1h,
    cache_write_1h: written1h,
    output: output - reasoning,
    reasoning,
  };
}

// "not_available" means that the region is unknown.
function regionOf(value: unknown): string | undefined {
  const region = readName(value);
  return region === "not_available" ? undefined : region;
}
