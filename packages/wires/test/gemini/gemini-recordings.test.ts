// Reads recorded replies of Gemini, streamed and not, and compares the result with a second, simpler reading.

import { describe, expect, test } from "bun:test";
import { arrayIn } from "../../../../src/base/json.ts";
import {
  eventsOf,
  type Recording,
  recordings,
  replayBytes,
  skipWithoutRecordings,
} from "../../../../test/support/recordings/recordings.ts";
import type { CanonicalReply } from "../../src/canonical/canonical-reply.ts";
import { geminiWire } from "../../src/gemini/gemini-wire.ts";
import { outboundContext, splitBytes } from "../gemini-converse/gemini-converse-arbitraries.ts";
import { sampleRecordings } from "../sample-recordings.ts";
import {
  collectReply,
  readEvents,
  readPieces,
  validateCanonicalStream,
} from "../stream-helpers.ts";
import type { GeminiCandidate, GeminiChunk } from "./gemini-types.ts";

const context = outboundContext("gemini");
const decoder = new TextDecoder();
const geminiRecordings = (): Iterable<Recording> =>
  recordings(({ endpoint }) => /^gemini\.(?:stream)?[gG]enerateContent$/.test(endpoint));

interface ReplySummary {
  readonly text: string;
  readonly thoughts: string;
  readonly calls: readonly string[];
  readonly natives: number;
  readonly media: number;
}

function summarizeChunks(chunks: readonly GeminiChunk[]): ReplySummary {
  const candidates = chunks.flatMap((chunk) => chunk.candidates?.[0] ?? []);
  const parts = candidates.flatMap((candidate) => candidate.content?.parts ?? []);
  const texts = (thought: boolean) =>
    parts
      .filter((part) => (part.thought ?? false) === thought)
      .map((part) => part.text ?? "")
      .join("");
  const calls = parts.flatMap((part) => part.functionCall ?? []);
  const streamed = calls.some((call) => call.partialArgs !== undefined);
  return {
    text: texts(false),
    thoughts: texts(true),
    calls: calls.flatMap(({ name, args }) =>
      name === undefined ? [] : [name + (streamed ? "" : JSON.stringify(args ?? {}))],
    ),
    natives:
      parts.filter((part) => part.executableCode ?? part.codeExecutionResult).length +
      new Set(candidates.flatMap(displayFields)).size,
    media: parts.filter((part) => part.inlineData).length,
  };
}

/** The metadata that becomes a native part, by field. */
function displayFields({
  groundingMetadata,
  urlContextMetadata,
}: GeminiCandidate): readonly string[] {
  const hasQueries = arrayIn(groundingMetadata?.["webSearchQueries"]).length > 0;
  return [
    ...(hasQueries ? ["webSearchQueries"] : []),
    ...(groundingMetadata?.["searchEntryPoint"] === undefined ? [] : ["searchEntryPoint"]),
    ...(urlContextMetadata === undefined ? [] : ["urlContextMetadata"]),
  ];
}

function summarizeReply(reply: CanonicalReply, streamedArguments: boolean): ReplySummary {
  const parts = reply.choices[0]?.parts ?? [];
  const joined = (type: "text" | "reasoning") =>
    parts.flatMap((part) => (part.type === type ? [part.text] : [])).join("");
  return {
    text: joined("text"),
    thoughts: joined("reasoning"),
    calls: parts.flatMap((part) =>
      part.type === "tool_call" ? [part.name + (streamedArguments ? "" : part.arguments)] : [],
    ),
    natives: parts.filter((part) => part.type === "native").length,
    media: parts.filter((part) => part.type === "image" || part.type === "audio").length,
  };
}

function chunksOf(recording: Recording): readonly GeminiChunk[] {
  if (recording.bodyFormat !== "json")
    return eventsOf(recording).map((event) => JSON.parse(event.data) as GeminiChunk);
  const body = JSON.parse(decoder.decode(recording.responseBody)) as GeminiChunk | GeminiChunk[];
  return Array.isArray(body) ? body : [body];
}

function read(recording: Recording, chunks: readonly GeminiChunk[]): CanonicalReply {
  if (recording.bodyFormat === "json")
    return geminiWire.readReply(JSON.parse(decoder.decode(recording.responseBody)), context);
  const wireEvents = chunks.map((chunk) => ({ name: "", data: JSON.stringify(chunk) }));
  const events = readEvents(geminiWire, wireEvents, context);
  expect(validateCanonicalStream(events)).toEqual([]);
  expect(events.some((event) => event.type === "error")).toBe(false);
  return collectReply(events);
}

const CODES: Readonly<Record<number, string>> = {
  400: "provider_not_configured",
  404: "model_not_found",
  429: "rate_limited",
};

/** The finish reason agrees with the manifest and with the calls. */
function checkFinish(where: string, recording: Recording, { choices }: CanonicalReply): void {
  const { finish, parts = [] } = choices[0] ?? {};
  const { stopReasons } = recording.summary;
  if (stopReasons.length > 0)
    expect([where, stopReasons.includes(finish?.nativeReason ?? "")]).toEqual([where, true]);
  const calls = parts.some((part) => part.type === "tool_call");
  if (finish?.nativeReason === "STOP")
    expect([where, finish.reason]).toEqual([where, calls ? "tool_calls" : "stop"]);
}

/** Each citation's range is its cited text. */
function checkCitations(where: string, { choices }: CanonicalReply): number {
  let count = 0;
  for (const part of choices[0]?.parts ?? []) {
    if (part.type !== "text") continue;
    for (const { citedText, start, end } of part.citations ?? []) {
      count++;
      expect([where, part.text.slice(start, end)]).toEqual([where, citedText ?? part.text]);
    }
  }
  return count;
}

/** Compares the reply with a second reading of it and with the manifest. */
function checkReply(recording: Recording, chunks: readonly GeminiChunk[]): CanonicalReply {
  const where = `${recording.file}#${recording.interaction}`;
  const reply = read(recording, chunks);
  const hasPartialArguments = decoder.decode(recording.responseBody).includes("partialArgs");
  expect([where, summarizeReply(reply, hasPartialArguments)]).toEqual([
    where,
    summarizeChunks(chunks),
  ]);
  checkFinish(where, recording, reply);
  const tokens = Object.values(reply.usage?.usage.tokens ?? {});
  const total = tokens.reduce((sum, count) => sum + count, 0);
  expect([where, total]).toEqual([where, totalOf(chunks)]);
  expect(reply.model).toBe(chunks[0]?.modelVersion);
  return reply;
}

function checkInChunks(bytes: Uint8Array): void {
  const expected = readPieces(geminiWire.createStreamReader(context), [bytes]);
  const chunks = splitBytes(bytes, sevenByteSizes());
  expect(readPieces(geminiWire.createStreamReader(context), chunks)).toEqual(expected);
}

test("reads the sample replies, whole and in chunks of 7 bytes", () => {
  for (const recording of sampleRecordings("gemini")) {
    if (recording.stream) checkInChunks(recording.responseBody);
    const reply = checkReply(recording, chunksOf(recording));
    expect(summarizeReply(reply, false)).toEqual({
      text: "Let me check.",
      thoughts: "The user asks for the weather.",
      calls: ['weather{"city":"Oslo"}'],
      natives: 0,
      media: 0,
    });
  }
});

describe.skipIf(skipWithoutRecordings("Gemini recordings"))(
  "Gemini recordings (require ../shared/recordings)",
  () => {
    test("agree with a second reading and their manifest", () => {
      const counts = { whole: 0, streamed: 0, errors: 0, calls: 0, signatures: 0, citations: 0 };
      for (const recording of geminiRecordings()) {
        const chunks = chunksOf(recording);
        const nativeError = chunks[0]?.error;
        if (nativeError !== undefined) {
          counts.errors++;
          const { message, code } = geminiWire.readError(recording.status, chunks[0]);
          expect([recording.file, message, code as string]).toEqual([
            recording.file,
            nativeError.message,
            CODES[nativeError.code] ?? "",
          ]);
          continue;
        }
        const reply = checkReply(recording, chunks);
        counts[recording.bodyFormat === "json" ? "whole" : "streamed"]++;
        counts.calls += summarizeReply(reply, true).calls.length;
        counts.signatures += JSON.stringify(reply).split('"wire":"gemini"').length - 1;
        counts.citations += checkCitations(recording.file, reply);
      }
      console.log(`gemini recordings: ${JSON.stringify(counts)}`);
      expect(counts.whole + counts.streamed).toBeGreaterThan(150);
    });

    test("give the same events in chunks of 7 bytes", () => {
      let streams = 0;
      for (const recording of geminiRecordings()) {
        const bytes = replayBytes(recording);
        if (recording.bodyFormat === "json" || recording.status >= 400 || bytes.length > 60_000)
          continue;
        checkInChunks(bytes);
        streams++;
      }
      console.log(`gemini recordings: ${streams} streams read in chunks of 7 bytes`);
    });
  },
);

function* sevenByteSizes(): Generator<number> {
  for (;;) yield 7;
}

// The total of the last chunk that has one; Vertex streams have it once.
function totalOf(chunks: readonly GeminiChunk[]): number {
  const counted = chunks.findLast((chunk) => chunk.usageMetadata?.totalTokenCount !== undefined);
  return counted?.usageMetadata?.totalTokenCount ?? 0;
}
