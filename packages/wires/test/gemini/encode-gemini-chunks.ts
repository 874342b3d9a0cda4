// Encodes canonical streams as Gemini chunks, for round-trip tests.

import type { CanonicalEvent, PartHead } from "../../src/canonical/canonical-events.ts";
import type { UsageReport } from "../../src/canonical/canonical-reply.ts";
import type { GeminiChunk, GeminiPart } from "./gemini-types.ts";

const FINISH_REASONS: Readonly<Record<string, string>> = {
  stop: "STOP",
  tool_calls: "STOP",
  length: "MAX_TOKENS",
  content_filter: "SAFETY",
};

interface OpenCall {
  readonly head: PartHead;
  args: string;
}

/** One event per chunk. As at the provider, each chunk has usage, and only the last one is final. */
export function encodeChunks(events: readonly CanonicalEvent[]): GeminiChunk[] {
  const chunks: GeminiChunk[] = [];
  const open = new Map<string, OpenCall>();
  let head: GeminiChunk = {};
  for (const event of events) {
    if (event.type === "start") head = headOf(event);
    else if (event.type === "usage") setFinalUsage(chunks, event.report);
    else if (event.type === "finish")
      chunks.push({
        ...head,
        candidates: [{ index: event.choice, finishReason: FINISH_REASONS[event.finish.reason] }],
        usageMetadata: { totalTokenCount: 2 },
      });
    else if (event.type !== "error")
      for (const part of partsOf(event, open))
        chunks.push({
          ...head,
          candidates: [{ index: event.choice, content: { role: "model", parts: [part] } }],
          usageMetadata: { totalTokenCount: 1 },
        });
  }
  return chunks;
}

function headOf(start: Extract<CanonicalEvent, { type: "start" }>): GeminiChunk {
  return {
    responseId: start.id,
    modelVersion: start.model,
    createTime: new Date((start.createdSeconds ?? 0) * 1_000).toISOString(),
  };
}

function setFinalUsage(chunks: readonly GeminiChunk[], { usage }: UsageReport): void {
  const { input = 0, cache_read: cached = 0, output = 0, reasoning = 0 } = usage.tokens;
  const last = chunks.at(-1);
  if (last !== undefined)
    last.usageMetadata = {
      promptTokenCount: input + cached,
      cachedContentTokenCount: cached,
      candidatesTokenCount: output,
      thoughtsTokenCount: reasoning,
      totalTokenCount: input + cached + output + reasoning,
    };
}

type PartEvent = Extract<CanonicalEvent, { part: number }>;

function partsOf(event: PartEvent, parts: Map<string, OpenCall>): readonly GeminiPart[] {
  const key = `${event.choice}.${event.part}`;
  if (event.type === "part_start") parts.set(key, { head: event.head, args: "" });
  const open = parts.get(key);
  if (open === undefined) return [];
  const { head } = open;
  if (head.type === "tool_call") {
    if (event.type === "delta") open.args += event.text;
    if (event.type !== "part_end") return [];
    const functionCall = { id: head.id, name: head.name, args: JSON.parse(open.args) as unknown };
    return [{ functionCall, thoughtSignature: head.signature?.data }];
  }
  const thought = head.type === "reasoning" || undefined;
  if (event.type === "delta") return [{ text: event.text, thought }];
  if (event.type !== "blob") return [];
  return [{ text: "", thought, thoughtSignature: event.blob.data }];
}
