import { describe, expect, test } from "bun:test";
import {
  eventsOf,
  recordings,
  replayBytes,
  skipWithoutRecordings,
  type Recording,
} from "../../../../test/support/recordings/recordings.ts";
import { createSseParser } from "../../src/frames/sse.ts";
import { createStreamMeter, usageOf, type StreamedWire } from "../../src/usage/provider-usage.ts";
import {
  isReplyComplete,
  readEvent,
  type StreamMeter,
  usageSoFar,
  scanEvent,
} from "../../src/usage/stream-meter.ts";
import type { Usage } from "../../src/usage/usage-meters.ts";
import { sampleRecordings } from "../sample-recordings.ts";

type Numbers = Readonly<Record<string, unknown>>;
const RECORDED_WIRES = ["chat", "responses", "messages", "gemini", "converse"] as const;
type Metered = Recording & { readonly wire: StreamedWire };

// Replies with status 200 and a usage object that cannot be read, and why.
const UNREADABLE: ReadonlyMap<string, string> = new Map([
  [
    "vercel-ai/openai/responses__parallel-tool-call-wrapper.1.chunks.txt",
    "the last event lacks a closing brace, so it is not JSON",
  ],
]);

const hasWire = (recording: Recording): recording is Metered => recording.wire !== undefined;

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

// The total that the disjoint meters must add up to, from the provider's own numbers.
const TOTALS: Readonly<Record<StreamedWire, (usage: Numbers, provider: string) => number>> = {
  chat: (usage, provider) => {
    const [prompt, completion] = [
      numberAt(usage, "prompt_tokens"),
      numberAt(usage, "completion_tokens"),
    ];
    const reasoning = numberAt(usage, "completion_tokens_details", "reasoning_tokens");
    if (reasoning > completion && provider !== "openrouter") return prompt + completion + reasoning;
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
    const sum = (counts: unknown) =>
      fields.reduce((total, field) => total + numberAt(counts, field), 0);
    const iterations = (usage["iterations"] ?? []) as Numbers[];
    const hasFallback = iterations.some((one) => one["type"] === "fallback_message");
    return hasFallback || iterations.length === 0
      ? sum(usage)
      : iterations.reduce((total, one) => total + sum(one), 0);
  },
  gemini: (usage) => numberAt(usage, "totalTokenCount"),
  converse: (usage) => numberAt(usage, "totalTokens"),
};

const CACHE_READS: Readonly<Record<StreamedWire, (usage: Numbers) => number>> = {
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
      (total, one) => total + numberAt(one, "cache_read_input_tokens"),
      0,
    ),
  gemini: (usage) => numberAt(usage, "cachedContentTokenCount"),
  converse: (usage) => numberAt(usage, "cacheReadInputTokens"),
};

/** How the metered usage differs from the provider's own numbers; undefined if it does not. */
function problemOf(
  { wire, provider, summary, file, interaction }: Metered,
  usage: Usage,
): string | undefined {
  const parts = [usage, ...(wire === "messages" ? (usage.additional ?? []) : [])];
  const sum = parts.reduce((total, part) => total + sumOf(part), 0);
  const cacheRead = parts.reduce(
    (total, part) => total + (part.tokens.cache_read ?? 0) + (part.tokens.cache_read_audio ?? 0),
    0,
  );
  const total = TOTALS[wire](summary.usage, provider);
  return sum === total && cacheRead === CACHE_READS[wire](summary.usage)
    ? undefined
    : `${file} ${interaction}: ${sum} of ${total}, cached ${cacheRead}: ${JSON.stringify(summary.usage)} -> ${JSON.stringify(usage)}`;
}

/** Expects the same result of parsing each event and of scanning the stream's bytes in pieces. */
function checkScanned(recording: Metered): { readonly events: number; readonly read: number } {
  const { meter } = meterOf(recording);
  const byteMeter = createStreamMeter(recording.wire, recording.provider);
  const parser = createSseParser();
  const bytes = replayBytes(recording);
  const slices = Math.ceil(bytes.length / 777);
  const parsed = Array.from({ length: slices }, (_, at) =>
    parser.push(bytes.subarray(at * 777, (at + 1) * 777)),
  ).flat();

  const read = parsed.filter((event) => scanEvent(byteMeter, event) !== "plain").length;
  const rest = parser.end();
  for (const event of rest) scanEvent(byteMeter, event);
  expect(Buffer.concat([...parsed, ...rest].map((event) => event.raw)).equals(bytes)).toBe(true);
  const where = `${recording.file} ${recording.interaction}`;
  expect({
    where,
    usage: usageSoFar(byteMeter),
    bytes: byteMeter.outputBytes,
    model: byteMeter.model,
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
  expect(ends(byteMeter)).toEqual(ends(meter));
  return { events: parsed.length, read };
}

test("the sample replies are metered as their provider reports, also when scanned as bytes", () => {
  for (const recording of RECORDED_WIRES.flatMap(sampleRecordings).filter(hasWire)) {
    const { usage } = meterOf(recording);
    expect(usage).toBeDefined();
    if (usage !== undefined) expect(problemOf(recording, usage)).toBeUndefined();
    if (recording.stream && recording.wire !== "converse") checkScanned(recording);
  }
});

describe.skipIf(skipWithoutRecordings("metering recorded replies"))("recorded replies", () => {
  test("are metered as their provider reports, and none is missed", () => {
    const counts: Record<StreamedWire, number> = {
      chat: 0,
      responses: 0,
      messages: 0,
      gemini: 0,
      converse: 0,
    };
    const missed: string[] = [];
    const wrong: string[] = [];
    const withoutSummary: string[] = [];
    for (const recording of recordings()) {
      if (!hasWire(recording)) continue;
      const { usage } = meterOf(recording);
      const { wire, summary, file, interaction } = recording;
      if (usage === undefined) {
        // A non-empty usage object anywhere in the reply.
        const text =
          recording.bodyFormat === "frames" ? "" : new TextDecoder().decode(recording.responseBody);
        const hasUsageObject =
          /"usage(?:Metadata)?":\s*\{\s*"/.test(text) || Object.keys(summary.usage).length > 0;
        if (recording.status === 200 && hasUsageObject && !UNREADABLE.has(file))
          missed.push(`${file} ${interaction}`);
        continue;
      }
      counts[wire]++;
      // The manifest lacks the usage of one recording with a binary body.
      if (Object.keys(summary.usage).length === 0) {
        withoutSummary.push(file);
        continue;
      }
      const problem = problemOf(recording, usage);
      if (problem !== undefined) wrong.push(problem);
    }
    const all = Object.values(counts).reduce((sum, count) => sum + count, 0);
    console.log(
      `${all} recordings metered (${Object.entries(counts)
        .map(([wire, count]) => `${wire} ${count}`)
        .join(", ")})`,
    );
    expect(missed).toEqual([]);
    expect(withoutSummary.length).toBeLessThan(2);
    expect(wrong).toEqual([]);
  });

  test("give the same result when scanned as bytes without parsing most events", () => {
    let streams = 0;
    let events = 0;
    let read = 0;
    for (const recording of recordings()) {
      if (!hasWire(recording) || !recording.stream || recording.wire === "converse") continue;
      const scanned = checkScanned(recording);
      events += scanned.events;
      read += scanned.read;
      streams++;
    }
    console.log(
      `${streams} streams scanned as bytes: ${read} of ${events} events had usage, a failure or the end`,
    );
  });
});
