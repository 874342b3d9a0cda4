// Every recorded reply of Gemini must be understood: text, thoughts, calls, finish and usage, whole and streamed. What a
// recording says is read here a second time, in the plainest way.
import { describe, expect, test } from "bun:test";
import type { CanonicalReply } from "../../src/inference/canonical.ts";
import { geminiWire } from "../../src/inference/wires/gemini/gemini.ts";
import { eventsOf, recordings, replayBytes, skipNotice } from "../support/recordings.ts";
import type { Recording } from "../support/recordings.ts";
import { outboundContext } from "./gemini-converse-arbitrary.ts";
import { checkCanonical, collect, readEvents, readPieces } from "./streams.ts";

type Json = Record<string, any>;
const context = outboundContext("gemini");
const decoder = new TextDecoder();
const all = (): Iterable<Recording> =>
  recordings(({ endpoint }) => /^gemini\.(?:stream)?[gG]enerateContent$/.test(endpoint));

interface Said {
  readonly text: string;
  readonly thoughts: string;
  readonly calls: readonly string[];
  readonly natives: number;
  readonly media: number;
}

function chunksSay(chunks: readonly Json[]): Said {
  const parts: Json[] = chunks.flatMap((chunk) => chunk["candidates"]?.[0]?.content?.parts ?? []);
  const texts = (thought: boolean) =>
    parts
      .filter((part) => (part["thought"] ?? false) === thought)
      .map((part) => part["text"] ?? "")
      .join("");
  const named = parts.flatMap((part) => (part["functionCall"]?.name ? [part["functionCall"]] : []));
  const streamed = parts.some((part) => part["functionCall"]?.partialArgs);
  return {
    text: texts(false),
    thoughts: texts(true),
    calls: named.map((call) => call.name + (streamed ? "" : JSON.stringify(call.args ?? {}))),
    natives: parts.filter((part) => part["executableCode"] || part["codeExecutionResult"]).length,
    media: parts.filter((part) => part["inlineData"]).length,
  };
}

function replySays(reply: CanonicalReply, streamedArguments: boolean): Said {
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

function chunksOf(recording: Recording): Json[] {
  if (recording.form !== "json")
    return eventsOf(recording).map((event) => JSON.parse(event.data) as Json);
  const body: Json | Json[] = JSON.parse(decoder.decode(recording.responseBody));
  return Array.isArray(body) ? body : [body];
}

function read(recording: Recording, chunks: readonly Json[]): CanonicalReply {
  if (recording.form === "json")
    return geminiWire.readReply(JSON.parse(decoder.decode(recording.responseBody)), context);
  const events = readEvents(
    geminiWire,
    chunks.map((chunk) => ({ name: "", data: JSON.stringify(chunk) })),
    context,
  );
  expect(checkCanonical(events)).toEqual([]);
  expect(events.some((event) => event.type === "error")).toBe(false);
  return collect(events);
}

describe.skipIf(skipNotice("Gemini's recordings"))("Gemini's recordings", () => {
  test("are understood, and agree with their manifest", () => {
    const counts = { whole: 0, streamed: 0, errors: 0, calls: 0, signatures: 0, citations: 0 };
    for (const recording of all()) {
      const where = `${recording.file}#${recording.interaction}`;
      const chunks = chunksOf(recording);
      if (recording.status >= 400 || chunks[0]?.["error"]) {
        counts.errors++;
        const error = geminiWire.readError(recording.status, chunks[0]);
        expect([where, error.message]).toEqual([where, chunks[0]?.["error"].message]);
        expect(String(error.code)).toBe(errorCode(chunks[0]?.["error"]));
        continue;
      }
      const reply = read(recording, chunks);
      const streamed = decoder.decode(recording.responseBody).includes("partialArgs");
      expect([where, replySays(reply, streamed)]).toEqual([where, chunksSay(chunks)]);
      const finish = reply.choices[0]?.finish;
      if (recording.summary.stopReasons.length > 0)
        expect([where, recording.summary.stopReasons]).toEqual([
          where,
          expect.arrayContaining([finish?.native ?? ""]),
        ]);
      const calls = reply.choices[0]?.parts.filter((part) => part.type === "tool_call").length ?? 0;
      if (finish?.native === "STOP")
        expect([where, finish.reason]).toEqual([where, calls > 0 ? "tool_calls" : "stop"]);
      const tokens = Object.values(reply.usage?.usage.tokens ?? {}).reduce(
        (sum, one) => sum + one,
        0,
      );
      expect([where, tokens]).toEqual([where, totalOf(recording, chunks)]);
      expect(reply.model).toBe(chunks[0]?.["modelVersion"]);
      counts[recording.form === "json" ? "whole" : "streamed"]++;
      counts.calls += calls;
      counts.signatures += JSON.stringify(reply).split('"wire":"gemini"').length - 1;
      for (const part of reply.choices[0]?.parts ?? []) {
        if (part.type !== "text") continue;
        for (const { citedText, start, end } of part.citations ?? []) {
          counts.citations++;
          expect([where, part.text.slice(start, end)]).toEqual([where, citedText ?? part.text]);
        }
      }
    }
    console.log(`gemini recordings: ${JSON.stringify(counts)}`);
    expect(counts.whole + counts.streamed).toBeGreaterThan(150);
  });

  test("streams do not depend on how their bytes are cut", () => {
    let cut = 0;
    for (const recording of all()) {
      if (recording.form === "json" || recording.status >= 400) continue;
      const bytes = replayBytes(recording);
      if (bytes.length > 60_000) continue;
      const pieces = Array.from({ length: Math.ceil(bytes.length / 7) }, (_, at) =>
        bytes.subarray(at * 7, at * 7 + 7),
      );
      const one = readPieces(geminiWire.createStreamReader(context), [bytes]);
      expect(readPieces(geminiWire.createStreamReader(context), pieces)).toEqual(one);
      cut++;
    }
    console.log(`gemini recordings: ${cut} streams cut into pieces of 7 bytes`);
  });
});

function errorCode(error: Json): string {
  if (error["code"] === 404) return "model_not_found";
  return error["code"] === 429 ? "rate_limited" : "provider_not_configured";
}

// The last chunk that counts; a stream of Vertex says its total once.
function totalOf(recording: Recording, chunks: readonly Json[]): number {
  const counted = chunks.findLast((chunk) => chunk["usageMetadata"]?.totalTokenCount !== undefined);
  const usage = counted?.["usageMetadata"] ?? recording.summary.usage;
  return usage.totalTokenCount ?? 0;
}
