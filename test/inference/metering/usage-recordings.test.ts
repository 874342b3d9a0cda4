import { describe, expect, test } from "bun:test";
import { createSseParser } from "../../../src/base/streams/sse.ts";
import type { Usage } from "../../../src/base/usage-meters.ts";
import {
  createStreamMeter,
  usageOf,
  type StreamedWire,
} from "../../../src/inference/metering/usage/usage.ts";
import {
  isReplyComplete,
  readEvent,
  type StreamMeter,
  usageSoFar,
  scanEvent,
} from "../../../src/inference/metering/usage/stream-meter.ts";
import {
  eventsOf,
  recordings,
  replayBytes,
  skipWithoutRecordings,
  type Recording,
} from "../../support/recordings/recordings.ts";

type Numbers = Readonly<Record<string, unknown>>;
type Metered = Recording & { readonly wire: StreamedWire };

// Replies of status 200 with a usage object that cannot be metered, and why.
const UNREADABLE: ReadonlyMap<string, string> = new Map([
  [
    "vercel-ai/openai/responses__parallel-tool-call-wrapper.1.chunks.txt",
    "its last event lacks a closing brace: it is no JSON",
  ],
]);

const metered = (recording: Recording): recording is Metered => recording.wire !== undefined;

function meterOf(recording: Metered): { usage: Usage | undefined; meter?: StreamMeter } {
  const { wire, provider } = recording;
  if (!recording.stream) return { usage: usageOf(wire, recording.responseBody, provider) };
  const meter = createStreamMeter(wire, provider);
  for (const { name, data } of eventsOf(recording)) readEvent(meter, name, data);
  return { usage: usageSoFar(meter), meter };
}

function sumOf(usage: Usage): number {
  return Object.values(usage.tokens).reduce((sum, amount) => sum + amount, 0);
}

function numberAt(value: unknown, ...path: string[]): number {
  let found: unknown = value;
  for (const key of path) found = (found as Numbers | undefined | null)?.[key];
  return typeof found === "number" ? found : 0;
}

// What the disjoint meters must sum to, by the provider's own arithmetic.
const TOTALS: Readonly<Record<StreamedWire, (usage: Numbers, provider: string) => number>> = {
  chat: (usage) => {
    const [prompt, completion] = [
      numberAt(usage, "prompt_tokens"),
      numberAt(usage, "completion_tokens"),
    ];
    const reasoning = numberAt(usage, "completion_tokens_details", "reasoning_tokens");
    if (reasoning > completion) return prompt + completion + reasoning;
    return numberAt(usage, "total_tokens") || prompt + completion;
  },
  responses: (usage) => numberAt(usage, "total_tokens"),
  messages: (usage) => {
    const fields = [
      "input_tokens",
      "output_tokens",
      "cache_read_input_tokens",
      "cache_creation_input_tokens",
    ];
    const sum = (leg: unknown) => fields.reduce((total, field) => total + numberAt(leg, field), 0);
    const iterations = (usage["iterations"] ?? []) as Numbers[];
    const fellBack = iterations.some((leg) => leg["type"] === "fallback_message");
    return fellBack || iterations.length === 0
      ? sum(usage)
      : iterations.reduce((total, leg) => total + sum(leg), 0);
  },
  gemini: (usage) => numberAt(usage, "totalTokenCount"),
  converse: (usage) => numberAt(usage, "totalTokens"),
};

const READS: Readonly<Record<StreamedWire, (usage: Numbers) => number>> = {
  chat: (usage) =>
    Math.min(
      numberAt(usage, "prompt_tokens"),
      numberAt(usage, "prompt_tokens_details", "cached_tokens") ||
        numberAt(usage, "cached_tokens") ||
        numberAt(usage, "cache_read_input_tokens"),
    ),
  responses: (usage) => numberAt(usage, "input_tokens_details", "cached_tokens"),
  messages: (usage) =>
    [...((usage["iterations"] ?? [usage]) as Numbers[])].reduce(
      (total, leg) => total + numberAt(leg, "cache_read_input_tokens"),
      0,
    ),
  gemini: (usage) => numberAt(usage, "cachedContentTokenCount"),
  converse: (usage) => numberAt(usage, "cacheReadInputTokens"),
};

describe.skipIf(skipWithoutRecordings("metering recorded replies"))("recorded replies", () => {
  test("are metered to what their provider says, and none is missed", () => {
    const counts: Record<StreamedWire, number> = {
      chat: 0,
      responses: 0,
      messages: 0,
      gemini: 0,
      converse: 0,
    };
    const missed: string[] = [];
    const wrong: string[] = [];
    const unstated: string[] = [];
    for (const recording of recordings()) {
      if (!metered(recording)) continue;
      const { usage } = meterOf(recording);
      const { wire, summary, file, interaction } = recording;
      if (usage === undefined) {
        // A usage object that is not null and not empty, wherever in the reply it lies.
        const text =
          recording.bodyFormat === "frames" ? "" : new TextDecoder().decode(recording.responseBody);
        const stated =
          /"usage(?:Metadata)?":\s*\{\s*"/.test(text) || Object.keys(summary.usage).length > 0;
        if (recording.status === 200 && stated && !UNREADABLE.has(file))
          missed.push(`${file} ${interaction}`);
        continue;
      }
      counts[wire]++;
      // One cassette's binary body was not read by those who made the manifest.
      if (Object.keys(summary.usage).length === 0) {
        unstated.push(file);
        continue;
      }
      const legs = [usage, ...(wire === "messages" ? (usage.additional ?? []) : [])];
      const sum = legs.reduce((total, leg) => total + sumOf(leg), 0);
      const read = legs.reduce(
        (total, leg) => total + (leg.tokens.cache_read ?? 0) + (leg.tokens.cache_read_audio ?? 0),
        0,
      );
      const total = TOTALS[wire](summary.usage, recording.provider);
      if (sum !== total || read !== READS[wire](summary.usage)) {
        wrong.push(
          `${file} ${interaction}: ${sum} of ${total}, cached ${read}: ${JSON.stringify(summary.usage)} -> ${JSON.stringify(usage)}`,
        );
      }
    }
    const all = Object.values(counts).reduce((sum, count) => sum + count, 0);
    console.log(
      `${all} recordings metered (${Object.entries(counts)
        .map(([wire, count]) => `${wire} ${count}`)
        .join(", ")})`,
    );
    expect(missed).toEqual([]);
    expect(unstated.length).toBeLessThan(2);
    expect(wrong).toEqual([]);
  });

  test("read the same as bytes, in which most events are only skimmed", () => {
    let streams = 0;
    let events = 0;
    let read = 0;
    for (const recording of recordings()) {
      if (!metered(recording) || !recording.stream || recording.wire === "converse") continue;
      const { meter } = meterOf(recording);
      const watched = createStreamMeter(recording.wire, recording.provider);
      const parser = createSseParser();
      const bytes = replayBytes(recording);
      const slices = Math.ceil(bytes.length / 777);
      const seen = Array.from({ length: slices }, (_, at) =>
        parser.push(bytes.subarray(at * 777, (at + 1) * 777)),
      ).flat();
      events += seen.length;
      read += seen.filter((event) => scanEvent(watched, event) !== "plain").length;
      const rest = parser.end();
      for (const event of rest) scanEvent(watched, event);
      expect(Buffer.concat([...seen, ...rest].map((event) => event.raw)).equals(bytes)).toBe(true);
      streams++;
      const where = `${recording.file} ${recording.interaction}`;
      expect({
        where,
        usage: usageSoFar(watched),
        bytes: watched.outputBytes,
        model: watched.model,
      }).toEqual({
        where,
        usage: meter && usageSoFar(meter),
        bytes: meter?.outputBytes ?? 0,
        model: meter?.model,
      });
      const ends = (one: StreamMeter | undefined) => ({
        where,
        ends: one && [one.isUsageFinal, isReplyComplete(one), one.failed],
      });
      expect(ends(watched)).toEqual(ends(meter));
    }
    console.log(
      `${streams} streams watched as bytes: ${read} of ${events} events bore usage, a failure or an end`,
    );
  });
});
