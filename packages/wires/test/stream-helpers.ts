// Helpers of the wire tests: contexts, and reading, writing and validating streams.

import type { CanonicalEvent } from "../src/canonical/canonical-events.ts";
import type { CanonicalReply } from "../src/canonical/canonical-reply.ts";
import type { CanonicalRequest } from "../src/canonical/canonical-request.ts";
import { createReplyCollector } from "../src/canonical/collect-reply.ts";
import type {
  InboundWire,
  OutboundWire,
  ReplyReadContext,
  ReplyWriteContext,
  WireEvent,
  WireStreamReader,
} from "../src/canonical/wire-interfaces.ts";
import { createSseParser, readSse, type SseEvent } from "../src/frames/sse.ts";
import { usageOf } from "../src/usage/provider-usage.ts";

export const ORIGIN = { provider: "acme", model: "deep-1" };
const encoder = new TextEncoder();

export function readContext(wire: "chat" | "messages", provider = "openai"): ReplyReadContext {
  return { origin: ORIGIN, readUsage: (body) => usageOf(wire, body, provider) };
}

export function writeContext(request: Partial<CanonicalRequest> = {}): ReplyWriteContext {
  const asked: CanonicalRequest = { model: "deep-1", turns: [], includeUsage: true, ...request };
  return { id: "req_1", model: "acme/deep-1", createdSeconds: 1_700_000_000, request: asked };
}

export function sseEvents(bytes: Uint8Array | string): WireEvent[] {
  const parser = createSseParser();
  const all = [
    ...parser.push(typeof bytes === "string" ? encoder.encode(bytes) : bytes),
    ...parser.end(),
  ];
  return all.flatMap((event) => readSse(event) ?? []);
}

/** The events of a stream whose bytes arrive in these chunks. */
export function readPieces(
  reader: WireStreamReader,
  pieces: Iterable<Uint8Array>,
): CanonicalEvent[] {
  const parser = createSseParser();
  const out: CanonicalEvent[] = [];
  const take = (events: readonly SseEvent[]) => {
    for (const event of events.flatMap((one) => readSse(one) ?? []))
      out.push(...reader.push(event));
  };
  for (const piece of pieces) take(parser.push(piece));
  take(parser.end());
  return [...out, ...reader.end()];
}

export function readEvents(
  wire: OutboundWire,
  events: Iterable<WireEvent>,
  context: ReplyReadContext,
): CanonicalEvent[] {
  const reader = wire.createStreamReader(context);
  const out: CanonicalEvent[] = [];
  for (const event of events) out.push(...reader.push(event));
  return [...out, ...reader.end()];
}

export function writeEvents(
  wire: InboundWire,
  events: Iterable<CanonicalEvent>,
  context: ReplyWriteContext,
): string {
  const writer = wire.createStreamWriter(context);
  let text = "";
  for (const event of events) text += writer.push(event);
  return text + writer.end();
}

export function collectReply(events: Iterable<CanonicalEvent>): CanonicalReply {
  const collector = createReplyCollector();
  for (const event of events) collector.push(event);
  return collector.reply();
}

/** The violations of the order that `CanonicalEvent` documents. */
export function validateCanonicalStream(events: readonly CanonicalEvent[]): string[] {
  const state: ValidatorState = {
    problems: [],
    open: new Set(),
    next: new Map(),
    finished: new Set(),
  };
  let failed = false;
  for (const [at, event] of events.entries()) {
    if (failed) state.problems.push(`${at}: ${event.type} after error`);
    if (event.type === "error") failed = true;
    else if (event.type === "start" && at !== 0) state.problems.push(`${at}: start is not first`);
    else if (event.type === "finish") checkFinish(state, event.choice, at);
    else if ("part" in event) checkPart(state, event, at);
  }
  if (!failed && state.open.size > 0) state.problems.push("parts stay open");
  if (!failed && state.finished.size === 0) state.problems.push("no finish");
  return state.problems;
}

interface ValidatorState {
  readonly problems: string[];
  readonly open: Set<string>;
  readonly next: Map<number, number>;
  readonly finished: Set<number>;
}

function checkFinish(
  { problems, open, finished }: ValidatorState,
  choice: number,
  at: number,
): void {
  if ([...open].some((key) => key.startsWith(`${choice}.`)))
    problems.push(`${at}: finish with an open part`);
  if (finished.has(choice)) problems.push(`${at}: finish twice`);
  finished.add(choice);
}

function checkPart(
  { problems, open, next }: ValidatorState,
  event: Extract<CanonicalEvent, { part: number }>,
  at: number,
): void {
  const key = `${event.choice}.${event.part}`;
  if (event.type === "part_start") {
    if (event.part !== (next.get(event.choice) ?? 0))
      problems.push(`${at}: part ${event.part} out of order`);
    next.set(event.choice, event.part + 1);
    open.add(key);
    return;
  }
  if (!open.has(key)) problems.push(`${at}: ${event.type} of part ${key}, which is not open`);
  if (event.type === "delta" && event.text === "" && event.logprobs === undefined)
    problems.push(`${at}: an empty delta`);
  if (event.type === "part_end") open.delete(key);
}

/** The value at a path of a JSON value. */
export function getAt(value: unknown, ...path: readonly (string | number)[]): unknown {
  let inner = value;
  for (const key of path)
    inner =
      typeof inner === "object" && inner !== null
        ? (inner as Record<string, unknown>)[key]
        : undefined;
  return inner;
}
