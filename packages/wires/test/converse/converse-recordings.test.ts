// Reads recorded replies of Converse, streamed and not, and compares the result with a second, simpler reading.

import { describe, expect, test } from "bun:test";
import {
  eventsOf,
  type Recording,
  recordings,
  replayBytes,
  skipWithoutRecordings,
} from "../../../../test/support/recordings/recordings.ts";
import type { CanonicalReply } from "../../src/canonical/canonical-reply.ts";
import { converseWire } from "../../src/converse/converse-wire.ts";
import { outboundContext, splitBytes } from "../gemini-converse/gemini-converse-arbitraries.ts";
import { sampleRecordings } from "../sample-recordings.ts";
import { collectReply, readEvents, validateCanonicalStream } from "../stream-helpers.ts";
import type { ConverseBlock, ConverseEvent, ConverseReply } from "./converse-types.ts";
import { readFrames } from "./encode-converse-frames.ts";

const context = outboundContext("converse");
const decoder = new TextDecoder();
const converseRecordings = (): Iterable<Recording> =>
  recordings(({ endpoint }) => endpoint.startsWith("bedrock.converse"));

interface ReplySummary {
  readonly text: string;
  readonly reasoning: string;
  readonly blobs: readonly string[];
  readonly calls: readonly string[];
  readonly natives: number;
  readonly finish: string | undefined;
}

function summarizeBlocks(
  blocks: readonly ConverseBlock[],
  finish: string | undefined,
): ReplySummary {
  const reasoning = blocks.flatMap((block) => block.reasoningContent ?? []);
  const uses = blocks.flatMap((block) => block.toolUse ?? []);
  return {
    text: blocks
      .map(
        ({ text, citationsContent: cited }) =>
          text ?? cited?.content.map((content) => content.text).join("") ?? "",
      )
      .join(""),
    reasoning: reasoning.map((one) => one.reasoningText?.text ?? "").join(""),
    blobs: reasoning.flatMap((one) => one.redactedContent ?? one.reasoningText?.signature ?? []),
    calls: uses
      .filter((use) => use.type !== "server_tool_use")
      .map((use) => `${use.toolUseId} ${use.name} ${JSON.stringify(use.input)}`),
    natives:
      uses.filter((use) => use.type === "server_tool_use").length +
      blocks.filter((block) => block.toolResult).length,
    finish,
  };
}

interface CollectedBlock {
  readonly start: ConverseBlock;
  text: string;
  reasoning: string;
  signature: string;
  redacted: string;
  input: string;
}

function summarizeStream(recording: Recording): ReplySummary {
  const blocks = new Map<number, CollectedBlock>();
  let finish: string | undefined;
  for (const { data } of eventsOf(recording)) {
    const event = JSON.parse(data) as ConverseEvent;
    finish = event.stopReason ?? finish;
    if (event.contentBlockIndex !== undefined) collectBlock(blocks, event, event.contentBlockIndex);
  }
  return summarizeBlocks([...blocks.values()].map(blockOf), finish);
}

function collectBlock(
  blocks: Map<number, CollectedBlock>,
  { start = {}, delta }: ConverseEvent,
  at: number,
) {
  const empty = { text: "", reasoning: "", signature: "", redacted: "", input: "" };
  const block: CollectedBlock = blocks.get(at) ?? { start, ...empty };
  blocks.set(at, block);
  const { text = "", reasoningContent: reasoning = {}, toolUse } = delta ?? {};
  block.text += text;
  block.reasoning += reasoning.text ?? "";
  block.signature += reasoning.signature ?? "";
  block.redacted += reasoning.redactedContent ?? "";
  block.input += toolUse?.input ?? "";
}

function blockOf({
  start,
  text,
  reasoning,
  signature,
  redacted,
  input,
}: CollectedBlock): ConverseBlock {
  if (start.toolUse !== undefined)
    return { toolUse: { ...start.toolUse, input: JSON.parse(input || "{}") as unknown } };
  if (start.toolResult !== undefined) return start;
  if (redacted !== "") return { reasoningContent: { redactedContent: redacted } };
  if (reasoning === "") return { text };
  const reasoningText = signature === "" ? { text: reasoning } : { text: reasoning, signature };
  return { reasoningContent: { reasoningText } };
}

function summarizeReply({ choices }: CanonicalReply): ReplySummary {
  const { parts = [], finish } = choices[0] ?? {};
  const joined = (type: "text" | "reasoning") =>
    parts.flatMap((part) => (part.type === type ? [part.text] : [])).join("");
  return {
    text: joined("text"),
    reasoning: joined("reasoning"),
    blobs: parts.flatMap((part) => (part.type === "reasoning" ? (part.blob?.data ?? []) : [])),
    calls: parts.flatMap((part) =>
      part.type === "tool_call"
        ? [`${part.id} ${part.name} ${JSON.stringify(JSON.parse(part.arguments))}`]
        : [],
    ),
    natives: parts.filter((part) => part.type === "native").length,
    finish: finish?.nativeReason,
  };
}

function bodyOf(recording: Recording): ConverseReply {
  return JSON.parse(decoder.decode(recording.responseBody)) as ConverseReply;
}

function read(recording: Recording): [CanonicalReply, ReplySummary] {
  if (recording.bodyFormat === "json") {
    const body = bodyOf(recording);
    const summary = summarizeBlocks(body.output?.message.content ?? [], body.stopReason);
    return [converseWire.readReply(body, context), summary];
  }
  const events = readEvents(converseWire, eventsOf(recording), context);
  expect(validateCanonicalStream(events)).toEqual([]);
  expect(events.some((event) => event.type === "error")).toBe(false);
  return [collectReply(events), summarizeStream(recording)];
}

/** Compares the reply with a second reading of it and with the manifest. */
function checkReply(recording: Recording): { reply: CanonicalReply; summary: ReplySummary } {
  const where = `${recording.file}#${recording.interaction}`;
  const [reply, summary] = read(recording);
  expect([where, summarizeReply(reply)]).toEqual([where, summary]);
  const { stopReasons, usage } = recording.summary;
  if (stopReasons.length > 0)
    expect([where, stopReasons.includes(summary.finish ?? "")]).toEqual([where, true]);
  if (summary.finish === "tool_use" || summary.finish === "end_turn")
    expect([where, reply.choices[0]?.finish.reason as string]).toEqual([
      where,
      summary.calls.length > 0 ? "tool_calls" : "stop",
    ]);
  if (typeof usage["totalTokens"] === "number") {
    const tokens = Object.values(reply.usage?.usage.tokens ?? {});
    const total = tokens.reduce((sum, count) => sum + count, 0);
    expect([where, total]).toEqual([where, usage["totalTokens"]]);
  }
  return { reply, summary };
}

function checkInChunks(recording: Recording): void {
  const bytes = replayBytes(recording);
  const expected = readFrames(converseWire.createStreamReader(context), [bytes]);
  const chunks = splitBytes(bytes, elevenByteSizes());
  expect(readFrames(converseWire.createStreamReader(context), chunks)).toEqual(expected);
}

test("reads the sample replies, whole and in chunks of 11 bytes", () => {
  const [whole, streamed] = sampleRecordings("converse").map((recording) => {
    if (recording.stream) checkInChunks(recording);
    return checkReply(recording).summary;
  });
  expect(streamed).toEqual(whole);
  expect(whole).toMatchObject({
    text: "Let me check.",
    reasoning: "The user asks for the weather.",
    calls: ['tooluse_1 weather {"city":"Oslo"}'],
  });
});

describe.skipIf(skipWithoutRecordings("Converse recordings"))(
  "Converse recordings (require ../shared/recordings)",
  () => {
    test("agree with a second reading and their manifest", () => {
      const counts = { whole: 0, streamed: 0, errors: 0, calls: 0, blobs: 0, citations: 0 };
      for (const recording of converseRecordings()) {
        if (recording.status >= 400) {
          counts.errors++;
          const { message } = bodyOf(recording);
          const error = converseWire.readError(recording.status, bodyOf(recording));
          expect([recording.file, error.message]).toEqual([recording.file, message ?? ""]);
          continue;
        }
        const { reply, summary } = checkReply(recording);
        counts[recording.bodyFormat === "json" ? "whole" : "streamed"]++;
        counts.calls += summary.calls.length;
        counts.blobs += summary.blobs.length;
        counts.citations += JSON.stringify(reply).split('"fields":{').length - 1;
      }
      console.log(`converse recordings: ${JSON.stringify(counts)}`);
      expect(counts.whole + counts.streamed).toBeGreaterThan(60);
    });

    test("give the same events in chunks of 11 bytes", () => {
      let streams = 0;
      for (const recording of converseRecordings()) {
        if (recording.bodyFormat === "json" || recording.status >= 400) continue;
        checkInChunks(recording);
        streams++;
      }
      console.log(`converse recordings: ${streams} streams read in chunks of 11 bytes`);
    });
  },
);

function* elevenByteSizes(): Generator<number> {
  for (;;) yield 11;
}
