// Random requests, replies and streams that a wire can express without loss.

import * as fc from "fast-check";
import type { CanonicalEvent } from "../../src/canonical/canonical-events.ts";
import type {
  CacheBreakpoint,
  OpaqueBlob,
  Part,
  ToolResultPart,
} from "../../src/canonical/canonical-parts.ts";
import type { CanonicalReply, Choice, Finish } from "../../src/canonical/canonical-reply.ts";
import type {
  CanonicalRequest,
  Tool,
  ToolChoice,
  Turn,
} from "../../src/canonical/canonical-request.ts";
import { checkRequest } from "../../src/canonical/check-request.ts";
import { closedSchema } from "../closed-schema.ts";
import { replyToEvents } from "../reply-to-events.ts";
import { hasUniqueCallIds } from "../unique-call-ids.ts";
import { webUrl } from "../web-url.ts";

/** A schema that every provider takes as it is. */
const CLOSED_SCHEMA = { type: "object", properties: {}, additionalProperties: false };

export type TestedWire = "chat" | "messages";

const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined, freq: 3 });
const text = fc.oneof(
  fc.string({ minLength: 1, maxLength: 20, unit: "grapheme" }),
  fc.constantFrom(
    "data: [DONE]\n\n",
    '}"]\\',
    "\r\n",
    "\u2028",
    "🏴‍☠️",
    "</think>",
    '{"type":"error"}',
  ),
);
const callId = fc.stringMatching(/^[A-Za-z0-9_-]{4,40}$/).filter((id) => !id.startsWith("pst"));
const name = fc.stringMatching(/^[a-z][a-z0-9_]{0,12}$/);
const data = fc.base64String({ minLength: 4, maxLength: 24 }).filter((one) => one !== "");
const jsonObject = fc.dictionary(
  fc.stringMatching(/^[a-z]{1,6}$/),
  fc.oneof(text, fc.integer(), fc.boolean(), fc.constant(null)),
  { maxKeys: 3 },
);
const args = jsonObject.map((value) => JSON.stringify(value));
const cache = maybe(fc.constantFrom<CacheBreakpoint>({}, { ttl: "5m" }, { ttl: "1h" }));

function blob(wire: TestedWire, kind: OpaqueBlob["kind"]): fc.Arbitrary<OpaqueBlob> {
  return data.map((value) => ({ wire, kind, data: value }));
}

function textPart(cached: boolean): fc.Arbitrary<Part> {
  return fc.record({
    type: fc.constant("text" as const),
    text,
    cache: cached ? cache : fc.constant(undefined),
  });
}

const image: fc.Arbitrary<Part> = fc.record({
  type: fc.constant("image" as const),
  source: fc.oneof(
    fc.record({
      kind: fc.constant("base64" as const),
      mediaType: fc.constantFrom("image/png", "image/jpeg"),
      data,
    }),
    fc.record({ kind: fc.constant("url" as const), url: webUrl }),
  ),
  cache,
});
const pdf: fc.Arbitrary<Part> = fc.record({
  type: fc.constant("file" as const),
  source: fc.record({
    kind: fc.constant("base64" as const),
    mediaType: fc.constant("application/pdf"),
    data,
  }),
  name: maybe(name),
  cache,
});
const audio: fc.Arbitrary<Part> = data.map((value) => ({
  type: "audio",
  source: { kind: "base64", mediaType: "audio/wav", data: value },
}));

function userParts(wire: TestedWire): fc.Arbitrary<Part[]> {
  const kinds = [textPart(true), image, pdf, ...(wire === "chat" ? [audio] : [])];
  return fc.array(fc.oneof(...kinds), { minLength: 1, maxLength: 3 });
}

/** Parts of an assistant turn, in the order that the wire keeps. */
export function assistantParts(wire: TestedWire, cached: boolean): fc.Arbitrary<Part[]> {
  const signed: fc.Arbitrary<Part> = fc.record({
    type: fc.constant("reasoning" as const),
    text: fc.oneof(text, fc.constant("")),
    blob: blob(wire, "signature"),
  });
  const hidden: fc.Arbitrary<Part> = blob(wire, "encrypted").map((one) => ({
    type: "reasoning",
    text: "",
    blob: one,
  }));
  const call: fc.Arbitrary<Part> = fc.record({
    type: fc.constant("tool_call" as const),
    id: callId,
    name,
    arguments: args,
  });
  const plainText = textPart(cached);
  if (wire === "messages") {
    return fc.uniqueArray(fc.oneof(signed, hidden, plainText, call), {
      minLength: 1,
      maxLength: 5,
      selector: (part) => (part.type === "tool_call" ? part.id : part),
    });
  }
  return fc
    .tuple(
      fc.oneof(
        fc.array(fc.oneof(signed, hidden), { maxLength: 2 }),
        text.map((one): Part[] => [{ type: "reasoning", text: one }]),
      ),
      fc.array(plainText, { maxLength: 1 }),
      fc.uniqueArray(call, {
        maxLength: 3,
        selector: (part) => (part.type === "tool_call" ? part.id : ""),
      }),
    )
    .map((lists) => lists.flat())
    .filter((parts) => parts.length > 0);
}

function results(calls: readonly Part[], wire: TestedWire): fc.Arbitrary<Turn[]> {
  const ids = calls.flatMap((part) => (part.type === "tool_call" ? [part.id] : []));
  if (ids.length === 0) return fc.constant([]);
  const content =
    wire === "chat"
      ? fc.array(textPart(true), { maxLength: 2 })
      : fc.array(fc.oneof(textPart(true), image), { maxLength: 2 });
  return fc
    .tuple(
      ...ids.map((id) =>
        fc.tuple(content, wire === "messages" ? fc.boolean() : fc.constant(false)).map(
          ([parts, isError]) =>
            ({
              type: "tool_result",
              callId: id,
              content: parts,
              isError: isError || undefined,
            }) as ToolResultPart,
        ),
      ),
    )
    .map((parts) => [{ role: "tool", parts }]);
}

function turns(wire: TestedWire): fc.Arbitrary<Turn[]> {
  const system = fc.array(
    fc
      .tuple(
        wire === "chat"
          ? fc.constantFrom("system" as const, "developer" as const)
          : fc.constant("system" as const),
        fc.array(textPart(true), { minLength: 1, maxLength: 2 }),
      )
      .map(([role, parts]): Turn => ({ role, parts })),
    { maxLength: 1 },
  );
  const user = fc
    .tuple(userParts(wire), wire === "chat" ? maybe(name) : fc.constant(undefined))
    .map(([parts, called]): Turn => ({ role: "user", parts, name: called }));
  const assistant = assistantParts(wire, true).chain((parts) =>
    results(parts, wire).map((after): Turn[] =>
      after.toSpliced(0, 0, { role: "assistant", parts }),
    ),
  );
  const exchange = fc
    .tuple(user, assistant)
    .map(([asked, answered]) => answered.toSpliced(0, 0, asked));
  return fc
    .tuple(system, fc.array(exchange, { maxLength: 3 }), user)
    .map(([first, middle, last]) => [first, middle.flat(), last].flat());
}

const tool: fc.Arbitrary<Tool> = fc.record({
  type: fc.constant("function" as const),
  name,
  description: maybe(text),
  parameters: jsonObject.map(closedSchema),
  strict: maybe(fc.boolean()),
});

function choiceOf(tools: readonly Tool[], wire: TestedWire): fc.Arbitrary<ToolChoice | undefined> {
  const named = tools.map((one): ToolChoice => ({ type: "tool", name: one.name }));
  const allowed: ToolChoice[] =
    wire === "chat" ? [{ type: "allowed", mode: "auto", names: tools.map((one) => one.name) }] : [];
  return maybe(
    fc.constantFrom<ToolChoice>(
      { type: "auto" },
      { type: "none" },
      { type: "required" },
      ...named,
      ...allowed,
    ),
  );
}

function fields(wire: TestedWire): fc.Arbitrary<Partial<CanonicalRequest>> {
  const ratio = fc.integer({ min: 0, max: 100 }).map((one) => one / 100);
  const common = {
    stream: maybe(fc.boolean()),
    temperature: maybe(ratio),
    topP: maybe(ratio),
    stop: maybe(fc.array(name, { minLength: 1, maxLength: 4 })),
    user: maybe(name),
    serviceTier: maybe(fc.constantFrom("auto", "default")),
  };
  if (wire === "messages") {
    return fc.record({
      ...common,
      maxOutputTokens: fc.integer({ min: 1, max: 9_999 }),
      topK: maybe(fc.integer({ min: 1, max: 99 })),
      cache,
      output: maybe(
        jsonObject.map(() => ({ type: "json_schema" as const, schema: CLOSED_SCHEMA })),
      ),
    });
  }
  return fc.record({
    ...common,
    maxOutputTokens: maybe(fc.integer({ min: 1, max: 9_999 })),
    seed: maybe(fc.integer()),
    frequencyPenalty: maybe(ratio),
    presencePenalty: maybe(ratio),
    logitBias: maybe(fc.constant({ "50256": -100 })),
    logprobs: maybe(fc.boolean()),
    topLogprobs: maybe(fc.integer({ min: 0, max: 20 })),
    n: maybe(fc.integer({ min: 1, max: 4 })),
    metadata: maybe(fc.constant({ a: "b" })),
    store: maybe(fc.boolean()),
    verbosity: maybe(fc.constantFrom("low" as const, "high" as const)),
    safetyIdentifier: maybe(name),
    cacheKey: maybe(name),
    reasoning: maybe(
      fc
        .constantFrom("none" as const, "minimal" as const, "low" as const, "xhigh" as const)
        .map((effort) => ({ effort })),
    ),
    output: maybe(
      fc.oneof(
        fc.constantFrom({ type: "text" as const }, { type: "json_object" as const }),
        fc.record({
          type: fc.constant("json_schema" as const),
          name,
          schema: fc.constant(CLOSED_SCHEMA),
          strict: maybe(fc.boolean()),
        }),
      ),
    ),
  });
}

export function requests(wire: TestedWire): fc.Arbitrary<CanonicalRequest> {
  const tools = fc.uniqueArray(tool, { maxLength: 3, selector: (one) => one.name });
  return fc
    .tuple(turns(wire).filter(hasUniqueCallIds), fields(wire), tools, maybe(fc.boolean()))
    .chain(([conversation, rest, offered, parallel]) =>
      choiceOf(offered, wire).map((choice) => {
        const has = offered.length > 0;
        // In Messages parallel calls are part of the tool choice, and not of the choice `none`.
        const single =
          has && (wire === "chat" || (choice !== undefined && choice.type !== "none"))
            ? parallel
            : undefined;
        return checkRequest({
          model: "deep-1",
          turns: conversation,
          ...rest,
          tools: has ? offered : undefined,
          toolChoice: has ? choice : undefined,
          parallelToolCalls: single,
        });
      }),
    );
}

function finishOf(parts: readonly Part[], wire: TestedWire): fc.Arbitrary<Finish> {
  if (parts.some((part) => part.type === "tool_call"))
    return fc.constantFrom<Finish>({ reason: "tool_calls" }, { reason: "length" });
  const both: Finish[] = [
    { reason: "stop" },
    { reason: "length" },
    { reason: "stop_sequence", stopSequence: "END" },
  ];
  return fc.constantFrom<Finish>(
    ...both,
    ...(wire === "chat"
      ? [{ reason: "content_filter" } as const]
      : ([{ reason: "pause" }, { reason: "refusal" }, { reason: "context_full" }] as const)),
  );
}

export function replies(wire: TestedWire): fc.Arbitrary<CanonicalReply> {
  const choice = assistantParts(wire, false).chain((parts) =>
    finishOf(parts, wire).map((finish): Choice => ({ parts, finish })),
  );
  const count = fc.integer({ min: 0, max: 99_999 });
  const usage = fc
    .record({ input: count, cache_read: count, output: count, reasoning: count })
    .map((tokens) => ({ usage: { tokens, fees: {} } }));
  return fc.record({
    id: callId,
    model: name,
    createdSeconds:
      wire === "chat" ? fc.integer({ min: 1, max: 2_000_000_000 }) : fc.constant(undefined),
    choices: fc.array(choice, { minLength: 1, maxLength: wire === "chat" ? 3 : 1 }),
    usage,
  });
}

/** The events of a reply with randomly split deltas. */
export function cutEvents(reply: CanonicalReply): fc.Arbitrary<CanonicalEvent[]> {
  const cuts = replyToEvents(reply).map((event): fc.Arbitrary<CanonicalEvent[]> => {
    if (event.type !== "delta" || event.text.length < 2) return fc.constant([event]);
    return fc.integer({ min: 1, max: event.text.length - 1 }).map((at) => [
      { ...event, text: event.text.slice(0, at) },
      { ...event, text: event.text.slice(at) },
    ]);
  });
  return fc.tuple(...cuts).map((lists) => lists.flat());
}

/** The value without fields that are not part of equality. */
export function stripPaths(value: unknown): unknown {
  const dropped = new Set(["path", "strictPath", "names", "native", "nativeReason", "origin"]);
  return JSON.parse(
    JSON.stringify(value, (key, inner: unknown) => (dropped.has(key) ? undefined : inner)),
  );
}
