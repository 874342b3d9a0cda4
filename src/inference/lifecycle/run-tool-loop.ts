// Composes the replies of all turns of a tool loop into one: a whole reply, or a stream of canonical events.

import {
  type BodyStream,
  cancelBodyStream,
  createBodyStream,
  endBodyStream,
  nextChunk,
  pushChunk,
  setFlow,
} from "@postern/http-client";
import {
  type CanonicalEvent,
  type ComposedEvent,
  createAwsFrameParser,
  createLinkFinder,
  createReplyCollector,
  createSseParser,
  decodeRelayedText,
  meterEvent,
  type Part,
  readSse,
  usageSoFar,
  WIRE_TRAITS,
  writeComposedEvent,
} from "@postern/wires";
import type { PricedCandidate } from "../routing/priced-candidates.ts";
import type { LoopTurn } from "../translate/transport-plan.ts";
import type { CandidateResult, FailedCandidate } from "../upstream/attempt.ts";
import type { UpstreamReply } from "../upstream/read-upstream-reply.ts";
import type { HeldCall } from "./call.ts";
import { closeMcpServers } from "./open-mcp-servers.ts";
import {
  addUsage,
  hasCallerLeft,
  isOwnCall,
  type LoopState,
  nextTurn,
  replyIdOf,
  runCalls,
  ownCallsOf,
  sendTurn,
  startLoop,
  type ToolLoopDeps,
  usageOfLoop,
} from "./tool-loop.ts";

type WholeReply = UpstreamReply & { readonly kind: "whole" };
type StreamReply = UpstreamReply & { readonly kind: "stream" };

/** `reply` is that of the first turn. A plan without a loop has only that. */
export function runToolLoop(
  deps: ToolLoopDeps,
  call: HeldCall,
  next: PricedCandidate | undefined,
  reply: UpstreamReply,
): CandidateResult | Promise<CandidateResult> {
  const { loop } = call.plan;
  if (loop === undefined) return { ok: true, reply };
  const state = startLoop(deps, call, loop, next);
  return reply.kind === "whole"
    ? composeReply(state, reply).finally(() => void closeMcpServers(call))
    : { ok: true, reply: { ...reply, body: composeStream(state, reply) } };
}

async function composeReply(state: LoopState, first: WholeReply): Promise<CandidateResult> {
  const parts: Part[] = [...openingOf(state)];
  let turn = state.loop.first;
  let reply = first;
  let id: string | undefined;
  for (;;) {
    const read = turn.readReply(reply.json, replyIdOf(state));
    id ??= read.id;
    const { json, text } = reply;
    addUsage(state, turn, turn.readUsage(json), () => text);
    const [{ parts: own, finish } = { parts: [], finish: { reason: "error" as const } }] =
      read.choices;
    parts.push(...own.filter((one) => !isOwnCall(state, one)).map((one) => cited(state, one)));
    const composed = (reason = finish.reason): CandidateResult => {
      const usage = usageOfLoop(state);
      const choices = [{ parts, finish: { ...finish, reason } }];
      const whole = { ...read, id, choices, usage: { usage } };
      const json = { reply: whole, usage };
      return { ok: true, reply: { ...first, json, text: JSON.stringify(json) } };
    };
    const calls = ownCallsOf(state, own, finish.reason);
    if (calls.length === 0) return composed();
    const { written, results } = await runCalls(state, calls);
    parts.push(...written);
    // As with tools that a provider runs: the caller's own calls end the reply.
    if (own.some((one) => one.type === "tool_call" && !isOwnCall(state, one))) return composed();
    const continued = nextTurn(state, own, results);
    if (typeof continued === "string") return composed(continued);
    const result = await sendTurn(state, continued);
    if (!result.ok) return withUsage(state, result);
    if (result.reply.kind !== "whole") throw new Error("a whole reply was asked for");
    turn = continued;
    ({ reply } = result);
  }
}

function openingOf({ loop, call }: LoopState): ReturnType<LoopState["loop"]["writeOpening"]> {
  return loop.writeOpening(call.input.requestId.replaceAll(/[^A-Za-z0-9]/g, "").slice(-24));
}

/** The turns before the one that failed are paid. */
function withUsage(state: LoopState, failed: FailedCandidate): FailedCandidate {
  return { ...failed, usage: usageOfLoop(state) };
}

function cited({ sources }: LoopState, part: Part): Part {
  if (part.type !== "text" || sources.size === 0) return part;
  const citations = createLinkFinder(sources)(part.text);
  return citations.length === 0
    ? part
    : { ...part, citations: [...(part.citations ?? []), ...citations] };
}

const encoder = new TextEncoder();

/** The turns as one stream, read no faster than the client reads. */
function composeStream(state: LoopState, first: StreamReply): BodyStream {
  const flow: Flow = { body: first.body, isPaused: false, isCanceled: false, onResume: () => {} };
  const stream = createBodyStream({
    pause: () => {
      flow.isPaused = true;
    },
    resume: () => {
      flow.isPaused = false;
      flow.onResume();
    },
    cancel: () => {
      flow.isCanceled = true;
      cancelBodyStream(flow.body);
      flow.onResume();
    },
  });
  const composer: Composer = { state, flow, stream, partCount: 0, hasStarted: false };
  const ended = composeTurns(composer).then(
    () => endBodyStream(stream, true),
    () => endBodyStream(stream, false),
  );
  void ended.then(() => closeMcpServers(state.call));
  return stream;
}

interface Flow {
  body: BodyStream;
  isPaused: boolean;
  isCanceled: boolean;
  onResume: () => void;
}

interface Composer {
  readonly state: LoopState;
  readonly flow: Flow;
  readonly stream: BodyStream;
  /** The parts that were written. */
  partCount: number;
  hasStarted: boolean;
}

async function send(composer: Composer, events: readonly ComposedEvent[]): Promise<void> {
  const { flow, stream } = composer;
  if (events.length > 0 && !flow.isCanceled)
    pushChunk(stream, encoder.encode(events.map(writeComposedEvent).join("")));
  if (flow.isPaused && !flow.isCanceled)
    await new Promise<void>((resolve) => {
      flow.onResume = resolve;
    });
}

async function composeTurns(composer: Composer): Promise<void> {
  const { state, flow } = composer;
  let turn = state.loop.first;
  for (;;) {
    const read = await relayTurn(composer, turn);
    const billed = billedEvents(state);
    // An error event has been sent: its provider bills nothing, but the turns before it are paid.
    if (read === undefined) return;
    const end = (reason: FinishReason): Promise<void> =>
      send(composer, [
        ...billedEvents(state),
        { type: "finish", choice: 0, finish: { ...read.finish, reason } },
        { type: "end" },
      ]);
    const { reason } = read.finish;
    const calls = ownCallsOf(state, read.parts, reason);
    if (calls.length === 0) return end(reason);
    await send(composer, billed);
    const { written, results } = await runCalls(state, calls);
    await send(
      composer,
      written.flatMap((value) => wholePart(composer.partCount++, value)),
    );
    if (read.parts.some((one) => one.type === "tool_call" && !isOwnCall(state, one)))
      return end(reason);
    const continued = hasCallerLeft(state) ? "pause" : nextTurn(state, read.parts, results);
    if (typeof continued === "string") return end(continued);
    await send(composer, [...billedEvents(state), { type: "turn" }]);
    const result = await sendTurn(state, continued, () => flow.isCanceled);
    if (!result.ok) return fail(composer, result);
    if (result.reply.kind !== "stream") throw new Error("a stream was asked for");
    flow.body = result.reply.body;
    turn = continued;
  }
}

type FinishReason = Extract<CanonicalEvent, { type: "finish" }>["finish"]["reason"];

async function fail(composer: Composer, { fault }: FailedCandidate): Promise<void> {
  const { status, publicMessage: message } = fault;
  const error = { code: "upstream_error", message, status } as const;
  await send(composer, [...billedEvents(composer.state), { type: "error", error }]);
}

/** For the meter, and for the caller. */
function billedEvents(state: LoopState): readonly ComposedEvent[] {
  const usage = usageOfLoop(state);
  return [
    { type: "billed", usage },
    { type: "usage", report: { usage } },
  ];
}

function wholePart(part: number, value: Extract<Part, { type: "native" }>): CanonicalEvent[] {
  return [
    { type: "part_start", choice: 0, part, head: { type: "whole", value } },
    { type: "part_end", choice: 0, part },
  ];
}

type FinishedTurn = Pick<
  ReturnType<ReturnType<typeof createReplyCollector>["reply"]>["choices"][number],
  "parts" | "finish"
>;

/** Relays what the caller sees of a turn. Undefined if it ended with an error, which was relayed. */
async function relayTurn(composer: Composer, turn: LoopTurn): Promise<FinishedTurn | undefined> {
  const { state, flow } = composer;
  const { body } = flow;
  const isAws = WIRE_TRAITS[turn.wire].framing === "aws";
  const parser = isAws ? createAwsFrameParser() : createSseParser();
  const meter = turn.createMeter();
  const reader = turn.createStreamReader(replyIdOf(state));
  const collector = createReplyCollector();
  const relay = createTurnRelay(composer);
  let hasFailed = false;
  const relayAll = async (events: readonly CanonicalEvent[]): Promise<void> => {
    const out: ComposedEvent[] = [];
    for (const event of events) {
      collector.push(event);
      if (event.type === "error") {
        hasFailed = true;
        out.push(...billedEvents(state));
      }
      out.push(...relay(event));
    }
    await send(composer, out);
  };
  for (;;) {
    const chunk = await nextChunk(body);
    for (const event of chunk === undefined ? parser.end() : parser.push(chunk)) {
      meterEvent(meter, event);
      const message = readSse(event);
      if (message !== undefined) await relayAll(reader.push(message));
    }
    if (chunk === undefined || meter.finished || hasFailed) break;
  }
  setFlow(body, "discarded");
  await relayAll(reader.end());
  if (hasFailed) return undefined;
  addUsage(state, turn, usageSoFar(meter), () => decodeRelayedText(meter.text));
  const [choice] = collector.reply().choices;
  return choice ?? { parts: [], finish: { reason: "error" } };
}

type CitationEvent = Extract<CanonicalEvent, { type: "citation" }>;

function citationOf(part: number, citation: CitationEvent["citation"]): CitationEvent {
  return { type: "citation", choice: 0, part, citation };
}

/** Only the first turn begins the reply. */
function startEvents(composer: Composer, start: CanonicalEvent): readonly ComposedEvent[] {
  if (composer.hasStarted) return [];
  composer.hasStarted = true;
  const opening = openingOf(composer.state);
  return [start, ...opening.flatMap((value) => wholePart(composer.partCount++, value))];
}

/** Renumbers the parts of a turn, hides its searches, and adds citations to its text. */
function createTurnRelay(composer: Composer): (event: CanonicalEvent) => readonly ComposedEvent[] {
  const { state } = composer;
  const numbers = new Map<number, number>();
  const hidden = new Set<number>();
  const finders = new Map<number, ReturnType<typeof createLinkFinder>>();
  return (event) => {
    if (event.type === "start") return startEvents(composer, event);
    if (event.type === "error") return [event];
    if (!("part" in event) || event.choice !== 0) return [];
    if (event.type === "part_start") {
      const { head } = event;
      if (head.type === "tool_call" && isOwnCall(state, head)) {
        hidden.add(event.part);
        return [{ type: "hidden_call", name: head.name }];
      }
      numbers.set(event.part, composer.partCount);
      if (head.type === "text" && state.sources.size > 0)
        finders.set(event.part, createLinkFinder(state.sources));
      return [{ ...event, part: composer.partCount++ }];
    }
    if (hidden.has(event.part))
      return event.type === "delta" ? [{ type: "hidden_text", text: event.text }] : [];
    const part = numbers.get(event.part);
    if (part === undefined) return [];
    const find = finders.get(event.part);
    const own = { ...event, part };
    return event.type === "delta" && find !== undefined
      ? [own, ...find(event.text).map((citation) => citationOf(part, citation))]
      : [own];
  };
}
