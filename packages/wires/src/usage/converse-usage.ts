// Usage on the converse wire (Amazon Bedrock). Input excludes cached tokens; a stream reports usage in its last frame.

import { arrayIn, objectIn, type JsonObject } from "../json-fields.ts";
import { readFeeCounts } from "./fee-counts.ts";
import {
  valueAt,
  readCount,
  firstNumber,
  ownMember,
  readName,
  readTier,
  buildUsage,
  type Path,
  type ReadNotes,
} from "./read-numbers.ts";
import { createUsageMeter, addText, type StreamMeter, type StreamState } from "./stream-meter.ts";
import type { Usage } from "./usage-meters.ts";

const COUNT_PATHS: readonly Path[] = [["inputTokens"], ["outputTokens"], ["totalTokens"]];
const CACHE_READ_PATHS: readonly Path[] = [["cacheReadInputTokens"], ["cacheReadInputTokenCount"]];
const CACHE_WRITE_PATHS: readonly Path[] = [
  ["cacheWriteInputTokens"],
  ["cacheWriteInputTokenCount"],
];

/** The usage of a reply, or of the `metadata` event of a stream. */
export function usageOfConverse(body: unknown, _provider: string): Usage | undefined {
  const usage = objectIn(ownMember(body, "usage"));
  if (usage === undefined || firstNumber(usage, COUNT_PATHS) === undefined) return undefined;
  const notes: ReadNotes = { clamped: false };
  const written = readCount(notes, firstNumber(usage, CACHE_WRITE_PATHS));
  const written1h = Math.min(written, oneHourCacheTokens(notes, usage["cacheDetails"]));
  return buildUsage(
    {
      tokens: {
        input: readCount(notes, usage["inputTokens"]),
        output: readCount(notes, usage["outputTokens"]),
        cache_read: readCount(notes, firstNumber(usage, CACHE_READ_PATHS)),
        cache_write_5m: written - written1h,
        cache_write_1h: written1h,
      },
      fees: readFeeCounts(notes, usage),
      model: readName(valueAt(body, ["trace", "promptRouter", "invokedModelId"])),
      serviceTier: readTier(valueAt(body, ["serviceTier", "type"])),
      speed: speedOf(valueAt(body, ["performanceConfig", "latency"])),
    },
    notes,
  );
}

/** The name of an event is its frame's `:event-type` or `:exception-type`; its data is the payload. */
export function createConverseStreamMeter(provider: string): StreamMeter {
  const seen = { stop: false, metadata: false };
  return createUsageMeter({
    read: (state, name, data) => {
      const [type, payload] = eventOf(name, data);
      if (/exception$/i.test(type)) state.failed = true;
      if (type === "contentBlockDelta") addDelta(state, ownMember(payload, "delta"));
      if (type === "messageStop") {
        seen.stop = true;
        state.hasStopReason = true;
      }
      const usage = type === "metadata" ? usageOfConverse(payload, provider) : undefined;
      if (type === "metadata") seen.metadata = true;
      state.finished = seen.stop && seen.metadata;
      if (usage === undefined) return false;
      state.usage = usage;
      state.model = usage.model;
      state.isUsageFinal = true;
      return true;
    },
  });
}

// In a JSON line the event name is the only key; in a frame it is a header.
function eventOf(name: string, data: JsonObject): [string, unknown] {
  if (name !== "") return [name, data];
  const [only = ""] = Object.keys(data);
  return [only, data[only]];
}

function addDelta(state: StreamState, delta: unknown): void {
  addText(state, ownMember(delta, "text"));
  addText(state, valueAt(delta, ["reasoningContent", "text"]));
  addText(state, valueAt(delta, ["toolUse", "input"]));
}

function oneHourCacheTokens(notes: ReadNotes, details: unknown): number {
  let total = 0;
  for (const entry of arrayIn(details)) {
    if (ownMember(entry, "ttl") === "1h")
      total += readCount(notes, ownMember(entry, "inputTokens"));
  }
  return total;
}

function speedOf(value: unknown): string | undefined {
  const latency = readName(value);
  return latency === "standard" ? undefined : latency;
}
