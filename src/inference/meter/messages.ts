// Anthropic's Messages: input is counted without the cache, a stream corrects itself field by field, and a reply may have
// had several legs, each at its own price.

import type { TokenMeter, Usage } from "../../base/meters.ts";
import { countedFees } from "./fees.ts";
import type { SkimPlan } from "./skim.ts";
import {
  createMeter,
  noteError,
  noteModel,
  noteText,
  type StreamMeter,
  type StreamState,
} from "./stream.ts";
import {
  at,
  count,
  firstNumber,
  listOf,
  member,
  nameOf,
  objectOf,
  statedCost,
  tierOf,
  usageFrom,
  within,
  type Json,
  type Tally,
} from "./tally.ts";

const MAX_LEGS = 64;
// What a stream keeps of its usage objects.
const FIELDS = [
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
  const usage = objectOf(member(body, "usage"));
  return usage && readUsage(usage, nameOf(member(body, "model")));
}

const PLAN: SkimPlan = {
  counts: { text: 0, thinking: 0, partial_json: 0 },
  reads: ["usage", "error"],
  types: ["message_start", "message_delta", "message_stop", "error"],
  silent: ["content_block_start"],
};

export function createMessagesStreamMeter(_provider: string): StreamMeter {
  const fields = new Map<string, unknown>();
  return createMeter({
    plan: PLAN,
    read: (state, name, data) => readEvent(state, name, data, fields),
    usage: (state) =>
      fields.size === 0 ? undefined : readUsage(Object.fromEntries(fields), state.model),
  });
}

function readEvent(
  state: StreamState,
  name: string,
  data: Json,
  fields: Map<string, unknown>,
): boolean {
  noteError(state, name, data);
  const type = nameOf(data["type"]) ?? name;
  if (type === "message_stop") state.finished = true;
  if (type === "content_block_delta") noteBlockDelta(state, data["delta"]);
  if (type === "message_start") {
    noteModel(state, at(data, ["message", "model"]));
    return noteUsage(fields, at(data, ["message", "usage"]));
  }
  if (type !== "message_delta") return false;
  if (typeof at(data, ["delta", "stop_reason"]) === "string") state.answered = true;
  const told = noteUsage(fields, data["usage"]);
  state.exact ||= told;
  return told;
}

function noteBlockDelta(state: StreamState, delta: unknown): void {
  noteText(state, member(delta, "text"));
  noteText(state, member(delta, "thinking"));
  noteText(state, member(delta, "partial_json"));
}

// A later event repeats the fields that it corrects: it replaces them, and never adds.
function noteUsage(fields: Map<string, unknown>, value: unknown): boolean {
  const usage = objectOf(value);
  if (
    usage === undefined ||
    firstNumber(usage, [["input_tokens"], ["output_tokens"]]) === undefined
  )
    return false;
  for (const name of FIELDS) {
    const field = member(usage, name);
    if (field !== undefined && field !== null) fields.set(name, field);
  }
  return true;
}

function readUsage(usage: Json, model: string | undefined): Usage | undefined {
  if (firstNumber(usage, [["input_tokens"], ["output_tokens"]]) === undefined) return undefined;
  const tally: Tally = { clamped: false };
  const shared = {
    serviceTier: tierOf(usage["service_tier"]),
    speed: nameOf(usage["speed"]),
    region: regionOf(usage["inference_geo"]),
  };
  const [first, ...rest] = legsOf(tally, usage);
  const thinking = count(tally, at(usage, ["output_tokens_details", "thinking_tokens"]));
  const also = rest.map((leg) => {
    const own: Tally = { clamped: false };
    return usageFrom(
      { ...shared, tokens: tokensOf(own, leg, 0), model: nameOf(leg["model"]) ?? model },
      own,
    );
  });
  return usageFrom(
    {
      ...shared,
      tokens: tokensOf(tally, first, thinking),
      fees: countedFees(tally, usage),
      model: nameOf(first["model"]) ?? model,
      statedCostUsd: statedCost(usage),
      also,
    },
    tally,
  );
}

/**
 * `iterations` names every leg, also those that the top level leaves out: a compaction, an advisor of another model. Each
 * stays a leg of its own, because a price may depend on how long its prompt was. After a fallback the top level is the
 * answer that was served, at the price of the model that served it.
 */
function legsOf(tally: Tally, usage: Json): [Json, ...Json[]] {
  const entries = listOf(usage["iterations"])
    .map(objectOf)
    .filter((entry) => entry !== undefined);
  if (entries.length > MAX_LEGS) tally.clamped = true;
  const legs = entries.slice(0, MAX_LEGS);
  const fallback = legs.findLast((leg) => leg["type"] === "fallback_message");
  if (fallback !== undefined) {
    const advisors = legs.filter((leg) => leg["type"] === "advisor_message");
    return [{ ...usage, model: fallback["model"] }, ...advisors];
  }
  const mainIndex = Math.max(
    0,
    legs.findIndex((leg) => leg["type"] === "message"),
  );
  const main = legs[mainIndex];
  return main === undefined ? [usage] : [main, ...legs.toSpliced(mainIndex, 1)];
}

function tokensOf(tally: Tally, leg: Json, thinking: number): Partial<Record<TokenMeter, number>> {
  const hour = count(tally, at(leg, ["cache_creation", "ephemeral_1h_input_tokens"]));
  const minutes = count(tally, at(leg, ["cache_creation", "ephemeral_5m_input_tokens"]));
  // The split may be older than the sum, which a later event of the stream has corrected, or be missing.
  const written = count(tally, leg["cache_creation_input_tokens"] ?? hour + minutes);
  const hourWritten = Math.min(hour, written);
  const output = count(tally, leg["output_tokens"]);
  const reasoning = within(tally, thinking, output);
  return {
    input: count(tally, leg["input_tokens"]),
    cache_read: count(tally, leg["cache_read_input_tokens"]),
    cache_write_5m: written - hourWritten,
    cache_write_1h: hourWritten,
    output: output - reasoning,
    reasoning,
  };
}

// "not_available" says nothing of where it ran.
function regionOf(value: unknown): string | undefined {
  const region = nameOf(value);
  return region === "not_available" ? undefined : region;
}
