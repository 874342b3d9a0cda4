// Bedrock's Converse: like Anthropic's Messages, input is counted without the cache; a stream tells usage in its last frame.

import type { Usage } from "../../base/meters.ts";
import { countedFees } from "./fees.ts";
import { createMeter, noteText, utf8Bytes, type StreamMeter, type StreamState } from "./stream.ts";
import {
  at,
  count,
  firstNumber,
  listOf,
  member,
  nameOf,
  objectOf,
  tierOf,
  usageFrom,
  type Json,
  type Path,
  type Tally,
} from "./tally.ts";

const COUNTED: readonly Path[] = [["inputTokens"], ["outputTokens"], ["totalTokens"]];
const CACHE_READ: readonly Path[] = [["cacheReadInputTokens"], ["cacheReadInputTokenCount"]];
const CACHE_WRITTEN: readonly Path[] = [["cacheWriteInputTokens"], ["cacheWriteInputTokenCount"]];

/** The usage that a reply, or the `metadata` event of a stream, states. */
export function usageOfConverse(body: unknown, _provider: string): Usage | undefined {
  const usage = objectOf(member(body, "usage"));
  if (usage === undefined || firstNumber(usage, COUNTED) === undefined) return undefined;
  const tally: Tally = { clamped: false };
  const written = count(tally, firstNumber(usage, CACHE_WRITTEN));
  const writtenForAnHour = Math.min(written, hourCount(tally, usage["cacheDetails"]));
  return usageFrom(
    {
      tokens: {
        input: count(tally, usage["inputTokens"]),
        output: count(tally, usage["outputTokens"]),
        cache_read: count(tally, firstNumber(usage, CACHE_READ)),
        cache_write_5m: written - writtenForAnHour,
        cache_write_1h: writtenForAnHour,
      },
      fees: countedFees(tally, usage),
      model: nameOf(at(body, ["trace", "promptRouter", "invokedModelId"])),
      serviceTier: tierOf(at(body, ["serviceTier", "type"])),
      speed: speedOf(at(body, ["performanceConfig", "latency"])),
    },
    tally,
  );
}

/** Takes each frame's `:event-type` (or `:exception-type`) as the name, and its payload. */
export function createConverseStreamMeter(provider: string): StreamMeter {
  const seen = { stop: false, metadata: false };
  return createMeter({
    read: (state, name, data) => {
      const [type, payload] = eventOf(name, data);
      if (/exception$/i.test(type)) state.failed = true;
      if (type === "contentBlockDelta") noteDelta(state, member(payload, "delta"));
      if (type === "messageStop") {
        seen.stop = true;
        state.answered = true;
      }
      const usage = type === "metadata" ? usageOfConverse(payload, provider) : undefined;
      if (type === "metadata") seen.metadata = true;
      state.finished = seen.stop && seen.metadata;
      if (usage === undefined) return false;
      state.usage = usage;
      state.model = usage.model;
      state.exact = true;
      return true;
    },
  });
}

// As a JSON line the name of the event is the only key; as a frame it is a header.
function eventOf(name: string, data: Json): [string, unknown] {
  if (name !== "") return [name, data];
  const [only = ""] = Object.keys(data);
  return [only, data[only]];
}

function noteDelta(state: StreamState, delta: unknown): void {
  noteText(state, member(delta, "text"));
  noteText(state, at(delta, ["reasoningContent", "text"]));
  const input = at(delta, ["toolUse", "input"]);
  if (typeof input === "string") state.outputBytes += utf8Bytes(input);
}

function hourCount(tally: Tally, details: unknown): number {
  let total = 0;
  for (const entry of listOf(details)) {
    if (member(entry, "ttl") === "1h") total += count(tally, member(entry, "inputTokens"));
  }
  return total;
}

function speedOf(value: unknown): string | undefined {
  const latency = nameOf(value);
  return latency === "standard" ? undefined : latency;
}
