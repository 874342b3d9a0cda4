// Replays recorded replies of the five wires through the gateway over each of the three APIs, and compares what the
// official client reads with what the wire reads. The wires' own reading is checked in test/wires.

import { describe, expect, test } from "bun:test";
import { type CanonicalReply, type FinishReason, usageOf, OUTBOUND_WIRES } from "@postern/wires";
import { sampleRecordings } from "../../../packages/wires/test/sample-recordings.ts";
import { collectReply, readEvents } from "../../../packages/wires/test/stream-helpers.ts";
import type { JsonObject } from "../../../src/base/json.ts";
import { every } from "../../support/full.ts";
import {
  eventsOf,
  type RecordedEvent,
  type Recording,
  recordings,
  replayBytes,
  skipWithoutRecordings,
} from "../../support/recordings/recordings.ts";
import { checkExchanges } from "../support/check-exchanges.ts";
import {
  type Api,
  APIS,
  modelOn,
  PRICES,
  recordedExchanges,
  startHarness,
  type Wire,
  WIRES,
  type Harness,
} from "../support/harness.ts";
import { type Prompt, createSdkClients, type NormalizedReply } from "../support/sdk-clients.ts";

const decoder = new TextDecoder();
/** In the short form, the test replays every n-th recording. */
const SAMPLE_EVERY = 18;

/**
 * Errors of official clients on passthrough replies: other servers' deviations, broken fixtures, several streams in one
 * file. The clients can read the same replies after translation.
 */
const UNREADABLE_RECORDINGS =
  /missing (finish_reason|role) for choice|Lifecycle response identity|malformed server-sent event|Unexpected event order, got message_start|invalid tool call index|evaluating '(call\.custom|toolCall\.id|usage\?)|Unhandled response stream event|got response\.queued|snapshot missing `type`|expected output item id|expected item_id '/;

/** Files with several streams: they read as the last one. */
const MULTI_REPLY_RECORDINGS =
  /anthropic-programmatic-tool-calling|anthropic-tool-search-(bm25|regex)|reasoning-encrypted-content/;

interface Case {
  readonly recording: Recording;
  readonly wire: Wire;
  readonly reply: CanonicalReply;
  readonly failed: boolean;
}

/** Files that are not a single reply. */
const NO_REPLY: ReadonlyMap<string, string> = new Map([
  ["anthropic-tool-search-deferred-regex.chunks.txt", "the streams of three calls"],
  ["anthropic-tool-search-deferred-bm25.chunks.txt", "the streams of several calls"],
]);

test("sample replies read the same with the official clients of all three APIs", async () => {
  const cases = WIRES.flatMap(sampleRecordings).flatMap((recording) => caseOf(recording) ?? []);
  expect(cases).toHaveLength(10);
  expect(await replay(cases, "sample replies")).toEqual([]);
});

describe.skipIf(skipWithoutRecordings("recordings through translation"))(
  "recorded replies (require ../shared/recordings)",
  () => {
    test("read the same with the official clients of all three APIs", async () => {
      const cases = [...recordings()].flatMap((recording) => caseOf(recording) ?? []);
      const sample = every(SAMPLE_EVERY, cases);
      const problems = await replay(sample, "recorded replies");
      expect(problems.slice(0, 25)).toEqual([]);
      expect(sample.length).toBeGreaterThan(1_200 / SAMPLE_EVERY);
    });
  },
);

/** Replays the cases over all three APIs, and returns what a client read otherwise. */
async function replay(cases: readonly Case[], title: string): Promise<readonly string[]> {
  const harness = await startHarness();
  const all: string[] = [];
  let unreadable = 0;
  for (const testCase of cases) {
    const { recording, wire } = testCase;
    for (const api of APIS) {
      const problems = await problemsOf(harness, api, testCase);
      if (api === wire && UNREADABLE_RECORDINGS.test(problems.join())) unreadable += 1;
      else if (problems.length > 0)
        all.push(
          `${recording.file}#${recording.interaction} (${wire}) over ${api}: ${problems.join("; ")}`,
        );
    }
  }
  const byWire = WIRES.map(
    (wire) => `${wire} ${cases.filter((testCase) => testCase.wire === wire).length}`,
  );
  console.log(
    `» ${title}: ${cases.length} replayed (${byWire.join(", ")}), ${all.length} with differences, ${unreadable} unreadable without translation`,
  );
  await checkExchanges(harness, title, {
    shouldSkip: ({ api, request, headers }) =>
      request["model"] === modelOn(api) || UNMETERED.has(headers.get("x-request-id") ?? ""),
  });
  await harness.stop();
  return all;
}

function caseOf(recording: Recording): Case | undefined {
  const { wire, file, status, bodyFormat, requestBody } = recording;
  if (wire === undefined || status !== 200 || bodyFormat === "other") return undefined;
  if (NO_REPLY.has(file.split("/").at(-1) ?? "")) return undefined;
  if (recording.responseBody.length === 0 || (requestBody ?? "").startsWith('{"prompt"'))
    return undefined;
  const context = {
    origin: { provider: `on-${wire}`, model: "m" },
    readUsage: (body: JsonObject) => usageOf(wire, body, `on-${wire}`),
  };
  if (!recording.stream) {
    const body = JSON.parse(decoder.decode(recording.responseBody)) as Record<string, unknown>;
    if (!isReply(wire, body)) return undefined;
    return { recording, wire, failed: false, reply: OUTBOUND_WIRES[wire].readReply(body, context) };
  }
  const events = eventsOf(recording);
  if (wire === "chat" && bodyFormat !== "sse" && bodyFormat !== "frames")
    events.push({ name: "", data: "[DONE]" });
  if (events.some(({ data }) => data.includes('"text_completion"'))) return undefined;
  const canonical = readEvents(OUTBOUND_WIRES[wire], events, context);
  // Some fixtures lack the usage event that ends every complete Bedrock stream: they count as truncated.
  const isTruncated = wire === "converse" && !events.some((event) => isMetadata(event));
  const failed = isTruncated || canonical.some((event) => event.type === "error");
  return { recording, wire, failed, reply: collectReply(canonical) };
}

function isMetadata({ name, data }: RecordedEvent): boolean {
  return name === "metadata" || data.startsWith('{"metadata"');
}

function isReply(wire: Wire, body: Record<string, unknown>): boolean {
  const field = {
    chat: "choices",
    responses: "output",
    messages: "content",
    gemini: "candidates",
    converse: "output",
  };
  return (
    body[field[wire]] !== undefined || (wire === "gemini" && body["promptFeedback"] !== undefined)
  );
}

/** Request ids of calls whose recording has no usage. */
const UNMETERED = new Set<string>();

async function problemsOf(harness: Harness, api: Api, testCase: Case): Promise<readonly string[]> {
  const { recording, wire } = testCase;
  harness.providerResponse = () =>
    new Response(new Uint8Array(replayBytes(recording)), {
      headers: { "content-type": contentType(recording, wire) },
    });
  const prompt: Prompt = { model: modelOn(wire), text: "hello", maxTokens: 9_000 };
  const client = createSdkClients(harness)[api];
  let reply: NormalizedReply | undefined;
  let error = "";
  try {
    reply = await client[recording.stream ? "stream" : "complete"](prompt);
  } catch (caught) {
    error = String(caught);
  }
  if (testCase.failed) return reply === undefined ? [] : ["no error was reported"];
  // A reply that the provider ended with an error is a failed response.
  if (api === "responses" && testCase.reply.choices[0]?.finish.reason === "error") return [];
  if (reply === undefined) return [error];
  await recordedExchanges();
  const id = harness.exchanges.at(-1)?.headers.get("x-request-id");
  if (testCase.reply.usage === undefined && typeof id === "string") UNMETERED.add(id);
  // A passthrough reply only has to be readable.
  return api === wire ? [] : differences(api, testCase, reply);
}

function contentType({ stream }: Recording, wire: Wire): string {
  if (!stream) return "application/json";
  return wire === "converse" ? "application/vnd.amazon.eventstream" : "text/event-stream";
}

const FINISHES: Readonly<Record<FinishReason, string>> = {
  stop: "stop",
  stop_sequence: "stop",
  pause: "stop",
  tool_calls: "tool_calls",
  length: "length",
  context_full: "length",
  refusal: "content_filter",
  content_filter: "content_filter",
  bad_tool_call: "",
  error: "",
};

function differences(
  api: Api,
  { reply, recording }: Case,
  received: NormalizedReply,
): readonly string[] {
  const choice = reply.choices[0];
  const parts = choice?.parts ?? [];
  const problems: string[] = [];
  const expectSame = (field: string, expected: unknown, actual: unknown): void => {
    if (!Bun.deepEquals(expected, actual))
      problems.push(
        `${field} ${JSON.stringify(actual)?.slice(0, 200)}, expected ${JSON.stringify(expected)?.slice(0, 200)}`,
      );
  };
  const texts = parts.map((part) => (part.type === "text" ? part.text : ""));
  const refusals = parts.map((part) => (part.type === "refusal" ? part.text : ""));
  // On OpenAI's APIs a refusal is a separate part and may have the finish reason `stop`.
  const refused = choice?.finish.reason === "refusal";
  if (!refused || api === "messages")
    expectSame("text", texts.join("") + (api === "chat" ? "" : refusals.join("")), received.text);
  const calls = parts.flatMap((part) => (part.type === "tool_call" ? [part] : []));
  expectSame(
    "calls",
    calls.map((call) => call.name),
    received.calls.map((call) => call.name),
  );
  for (const [index, call] of calls.entries()) {
    const parsedArguments = argumentsOf(call.arguments);
    if (parsedArguments !== undefined && call.custom !== true)
      expectSame(`arguments of ${call.name}`, parsedArguments, received.calls[index]?.arguments);
  }
  const finish = FINISHES[choice?.finish.reason ?? "error"];
  if (finish !== "" && !(refused && received.finish === "stop" && api !== "messages"))
    expectSame("finish", finish, received.finish);
  const usage = reply.usage?.usage;
  if (usage === undefined) return problems;
  const { tokens } = usage;
  const sum = (...meters: readonly (keyof typeof tokens)[]): number =>
    meters.reduce((total, meter) => total + (tokens[meter] ?? 0), 0);
  const cached = sum("cache_read", "cache_read_audio");
  const written = sum("cache_write_5m", "cache_write_1h");
  expectSame(
    "input",
    sum("input", "input_audio", "input_image") + cached + written,
    received.usage.input,
  );
  expectSame("cached", cached, received.usage.cached);
  expectSame(
    "output",
    sum("output", "reasoning", "output_audio", "output_image"),
    received.usage.output,
  );
  if (api !== "messages") expectSame("reasoning", sum("reasoning"), received.usage.reasoning);
  // A charge is capped by its hold, which is small for "hello". Files with several streams are not one call.
  const isSingleCall = !MULTI_REPLY_RECORDINGS.test(recording.file) && costOf(tokens) < 50_000_000;
  const isPriced = Object.keys(tokens).every((meter) => meter in PRICES);
  if (isSingleCall && isPriced && usage.additional === undefined)
    expectSame("cost", costOf(tokens), Math.round(received.usage.cost * 1e9));
  return problems;
}

/** In nano-USD, at the prices of the test's models. */
function costOf(tokens: Readonly<Partial<Record<string, number>>>): number {
  return Object.entries(tokens).reduce((sum, [meter, count]) => {
    const found = Object.entries(PRICES).find(([name]) => name === meter);
    return sum + (count ?? 0) * Number(found?.[1] ?? 0n);
  }, 0);
}

function argumentsOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
