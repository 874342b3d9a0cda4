// Encodes canonical streams as Converse frames, and replies as bodies, for round-trip tests.

import { encodeEventFrame } from "@postern/simulator";
import type { CanonicalEvent, PartHead } from "../../src/canonical/canonical-events.ts";
import type { OpaqueBlob, Part } from "../../src/canonical/canonical-parts.ts";
import type { CanonicalReply, Finish, UsageReport } from "../../src/canonical/canonical-reply.ts";
import type { WireEvent, WireStreamReader } from "../../src/canonical/wire-interfaces.ts";
import { createEventFrameParser } from "../../src/frames/aws-event-stream.ts";
import { frameToEvent } from "../../src/frames/aws-frames.ts";

const STOP_REASONS: Readonly<Record<string, string>> = {
  stop: "end_turn",
  tool_calls: "tool_use",
  length: "max_tokens",
  stop_sequence: "stop_sequence",
  content_filter: "content_filtered",
  context_full: "model_context_window_exceeded",
};
const encoder = new TextEncoder();

export function encodeFrame({ name, data }: WireEvent, kind = "event"): Uint8Array {
  const headers = {
    [`:${kind}-type`]: name,
    ":content-type": "application/json",
    ":message-type": kind,
  };
  return encodeEventFrame(headers, encoder.encode(data));
}

/** The events of a stream whose bytes come in these pieces. */
export function readFrames(
  reader: WireStreamReader,
  pieces: Iterable<Uint8Array>,
): CanonicalEvent[] {
  const parser = createEventFrameParser();
  const out: CanonicalEvent[] = [];
  for (const piece of pieces)
    for (const frame of parser.push(piece)) out.push(...reader.push(frameToEvent(frame)));
  return [...out, ...reader.end()];
}

/** The stream's events. As at the provider, text blocks have no start event. */
export function eventsOf(events: readonly CanonicalEvent[]): WireEvent[] {
  const out: WireEvent[] = [];
  const push = (name: string, payload: unknown) =>
    out.push({ name, data: JSON.stringify(payload) });
  let head: PartHead = { type: "text" };
  for (const event of events) {
    const at = "part" in event ? { contentBlockIndex: event.part } : {};
    switch (event.type) {
      case "start":
        push("messageStart", { role: "assistant" });
        break;
      case "part_start":
        head = event.head;
        if (head.type !== "tool_call") break;
        push("contentBlockStart", {
          ...at,
          start: { toolUse: { toolUseId: head.id, name: head.name } },
        });
        break;
      case "delta":
        push("contentBlockDelta", { ...at, delta: deltaOf(head, event.text) });
        break;
      case "blob":
        push("contentBlockDelta", { ...at, delta: { reasoningContent: blobDelta(event.blob) } });
        break;
      case "part_end":
        push("contentBlockStop", at);
        break;
      case "finish":
        push("messageStop", stopOf(event.finish));
        break;
      case "usage":
        push("metadata", { metrics: { latencyMs: 1 }, usage: usageOf(event.report) });
        break;
      case "citation":
      case "error":
    }
  }
  return out;
}

export function bodyOf({ choices, usage }: CanonicalReply): unknown {
  const { parts = [], finish = { reason: "stop" } } = choices[0] ?? {};
  return {
    output: { message: { role: "assistant", content: parts.map(blockOf) } },
    ...stopOf(finish),
    usage: usage && usageOf(usage),
    metrics: { latencyMs: 1 },
  };
}

function deltaOf(head: PartHead, text: string): unknown {
  if (head.type === "tool_call") return { toolUse: { input: text } };
  return head.type === "reasoning" ? { reasoningContent: { text } } : { text };
}

function blobDelta({ kind, data }: OpaqueBlob): unknown {
  return kind === "encrypted" ? { redactedContent: data } : { signature: data };
}

function blockOf(part: Part): unknown {
  if (part.type === "tool_call")
    return {
      toolUse: {
        toolUseId: part.id,
        name: part.name,
        input: JSON.parse(part.arguments) as unknown,
      },
    };
  if (part.type === "text") return { text: part.text };
  if (part.type !== "reasoning" || part.blob === undefined) return {};
  return part.blob.kind === "encrypted"
    ? { reasoningContent: { redactedContent: part.blob.data } }
    : { reasoningContent: { reasoningText: { text: part.text, signature: part.blob.data } } };
}

function stopOf({ reason, stopSequence }: Finish): object {
  return {
    stopReason: STOP_REASONS[reason],
    ...(stopSequence === undefined
      ? undefined
      : { additionalModelResponseFields: { stop_sequence: stopSequence } }),
  };
}

function usageOf({ usage: { tokens } }: UsageReport): unknown {
  const { input = 0, cache_read = 0, output = 0, reasoning = 0 } = tokens;
  return {
    inputTokens: input,
    outputTokens: output + reasoning,
    totalTokens: input + cache_read + output + reasoning,
    cacheReadInputTokens: cache_read,
  };
}
