// Random requests and replies that the Responses API can express without loss.

import * as fc from "fast-check";
import type { CanonicalEvent } from "../../src/canonical/canonical-events.ts";
import type {
  Citation,
  OpaqueBlob,
  Part,
  ReasoningPart,
  ToolCallPart,
  ToolResultPart,
  WireName,
} from "../../src/canonical/canonical-parts.ts";
import type { CanonicalReply, Finish } from "../../src/canonical/canonical-reply.ts";
import type {
  CanonicalRequest,
  Tool,
  ToolChoice,
  Turn,
} from "../../src/canonical/canonical-request.ts";
import { checkRequest } from "../../src/canonical/check-request.ts";
import { closedSchema } from "../closed-schema.ts";
import { replyToEvents } from "../reply-to-events.ts";
import { ORIGIN } from "../stream-helpers.ts";
import { hasUniqueCallIds } from "../unique-call-ids.ts";
import { webUrl } from "../web-url.ts";

const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined, freq: 3 });
const text = fc.oneof(
  fc.string({ minLength: 1, maxLength: 20, unit: "grapheme" }),
  fc.constantFrom("data: [DONE]\n\n", '}"]\\', "\r\n", "\u2028", "🏴‍☠️", '{"type":"error"}'),
);
const callId = fc.oneof(
  fc.stringMatching(/^[A-Za-z0-9_-]{4,40}$/).filter((id) => !id.startsWith("pst")),
  fc.constantFrom("functions.add:0", "call 1", "é"),
);
const name = fc.stringMatching(/^[a-z][a-z0-9_]{0,12}$/);
const data = fc.base64String({ minLength: 4, maxLength: 24 }).filter((one) => one !== "");
const jsonObject = fc.dictionary(
  fc.stringMatching(/^[a-z]{1,6}$/),
  fc.oneof(text, fc.integer(), fc.boolean(), fc.constant(null)),
  { maxKeys: 3 },
);
const args = jsonObject.map((value) => JSON.stringify(value));
const cache = maybe(fc.constantFrom({}, { ttl: "30m" as const }, { ttl: "12h" as const }));

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
    fc.record({
      kind: fc.constant("file_id" as const),
      wire: fc.constant("responses" as const),
      id: name,
    }),
  ),
  detail: fc.constantFrom("auto" as const, "low" as const, "high" as const),
  cache,
});
const pdf: fc.Arbitrary<Part> = fc.record({
  type: fc.constant("file" as const),
  source: fc.oneof(
    fc.record({
      kind: fc.constant("base64" as const),
      mediaType: fc.constantFrom("application/pdf", "text/plain"),
      data,
    }),
    fc.record({ kind: fc.constant("url" as const), url: webUrl }),
  ),
  name,
  cache,
});
const search: fc.Arbitrary<Part> = name.map((id) => ({
  type: "native",
  wire: "responses",
  value: {
    type: "web_search_call",
    id: `ws_${id}`,
    status: "completed",
    action: { type: "search", query: id },
  },
}));

function call(signature: fc.Arbitrary<OpaqueBlob | undefined>): fc.Arbitrary<ToolCallPart> {
  return fc.oneof(
    fc.record({
      type: fc.constant("tool_call" as const),
      id: callId,
      name,
      arguments: args,
      signature,
    }),
    fc.record({
      type: fc.constant("tool_call" as const),
      id: callId,
      name,
      arguments: text,
      custom: fc.constant(true as const),
      signature,
    }),
  );
}

/** A reasoning item: summary paragraphs, text, and a blob. */
function reasoningPart(
  blob: fc.Arbitrary<OpaqueBlob | undefined>,
  ids: fc.Arbitrary<string | undefined>,
): fc.Arbitrary<Part[]> {
  return fc
    .tuple(fc.array(text, { maxLength: 2 }), fc.array(text, { maxLength: 1 }), blob, ids)
    .map(([summaries, texts, blob, id]) => {
      const parts: ReasoningPart[] = [];
      for (const one of summaries) parts.push({ type: "reasoning", text: one, summary: true, id });
      for (const one of texts) parts.push({ type: "reasoning", text: one, id });
      if (blob === undefined) return parts;
      const last = parts.pop() ?? { type: "reasoning", text: "", id };
      return parts.concat({ ...last, blob });
    });
}

// Calls and items are identified by their ids.
const idOf = (part: Part): unknown =>
  part.type === "tool_call" ? part.id : part.type === "native" ? part.value["id"] : undefined;
const distinct = (parts: readonly Part[]): Part[] =>
  parts.filter((part, at) => {
    const id = idOf(part);
    return id === undefined || parts.findIndex((one) => idOf(one) === id) === at;
  });

const history: fc.Arbitrary<Part[]> = fc
  .array(
    fc.oneof(
      reasoningPart(
        data.map((value): OpaqueBlob => ({ wire: "responses", kind: "encrypted", data: value })),
        fc.constant(undefined),
      ),
      textPart(true).map((part) => [part]),
      call(fc.constant(undefined)).map((part): Part[] => [part]),
      text.map((one): Part[] => [{ type: "refusal", text: one }]),
      search.map((part) => [part]),
    ),
    { minLength: 1, maxLength: 4 },
  )
  .map((lists) => distinct(lists.flat()));

function results(calls: readonly Part[]): fc.Arbitrary<Turn[]> {
  const made = calls.filter((part) => part.type === "tool_call");
  if (made.length === 0) return fc.constant([]);
  const content = fc.array(fc.oneof(textPart(true), image, pdf), { maxLength: 2 });
  return fc
    .tuple(
      ...made.map((one) =>
        content.map(
          (parts) =>
            ({
              type: "tool_result",
              callId: one.id,
              content: parts,
              custom: one.custom,
            }) as ToolResultPart,
        ),
      ),
    )
    .map((parts) => [{ role: "tool", parts }]);
}

const turns: fc.Arbitrary<Turn[]> = fc
  .tuple(
    fc.array(
      fc
        .tuple(
          fc.constantFrom("system" as const, "developer" as const),
          fc.array(textPart(true), { minLength: 1, maxLength: 2 }),
        )
        .map(([role, parts]): Turn => ({ role, parts })),
      { maxLength: 2 },
    ),
    fc.array(
      fc.tuple(
        fc.array(fc.oneof(textPart(true), image, pdf), { minLength: 1, maxLength: 3 }),
        history.chain((parts) =>
          results(parts).map((after) => {
            const turns: Turn[] = [{ role: "assistant", parts }];
            return turns.concat(after);
          }),
        ),
      ),
      { maxLength: 3 },
    ),
    fc.array(textPart(true), { minLength: 1, maxLength: 2 }),
  )
  .map(([system, exchanges, last]) => {
    const all: Turn[] = [];
    all.push(...system);
    for (const [asked, answered] of exchanges)
      all.push({ role: "user", parts: asked }, ...answered);
    all.push({ role: "user", parts: last });
    return all;
  });

const tool: fc.Arbitrary<Tool> = fc.oneof(
  fc.record({
    type: fc.constant("function" as const),
    name,
    description: maybe(text),
    parameters: jsonObject.map(closedSchema),
    strict: fc.boolean(),
  }),
  fc.record({
    type: fc.constant("custom" as const),
    name,
    description: maybe(text),
    format: maybe(fc.constant({ syntax: "regex" as const, definition: "^a+$" })),
  }),
  fc.constant({
    type: "native" as const,
    wire: "responses" as const,
    name: "web_search",
    value: { type: "web_search", search_context_size: "low" },
  }),
);

function choiceOf(tools: readonly Tool[]): fc.Arbitrary<ToolChoice | undefined> {
  const own = tools.filter((one) => one.type !== "native");
  return maybe(
    fc.constantFrom<ToolChoice>(
      { type: "auto" },
      { type: "none" },
      { type: "required" },
      { type: "native", wire: "responses", value: { type: "web_search_preview" } },
      { type: "allowed", mode: "required", names: own.map((one) => one.name) },
      ...own.map((one): ToolChoice => ({
        type: "tool",
        name: one.name,
        custom: one.type === "custom" || undefined,
      })),
    ),
  );
}

const ratio = fc.integer({ min: 0, max: 100 }).map((one) => one / 100);
const fields = fc.record({
  stream: maybe(fc.boolean()),
  temperature: maybe(ratio),
  topP: maybe(ratio),
  user: maybe(name),
  serviceTier: maybe(fc.constantFrom("auto", "default", "flex")),
  maxOutputTokens: maybe(fc.integer({ min: 16, max: 9_999 })),
  logprobs: maybe(fc.constant(true)),
  topLogprobs: maybe(fc.integer({ min: 0, max: 20 })),
  metadata: maybe(fc.constant({ a: "b" })),
  verbosity: maybe(fc.constantFrom("low" as const, "high" as const)),
  safetyIdentifier: maybe(name),
  cacheKey: maybe(name),
  cacheRetention: maybe(fc.constant("24h")),
  reasoning: maybe(
    fc.record({
      effort: fc.constantFrom("none" as const, "minimal" as const, "low" as const, "max" as const),
      summary: maybe(fc.constantFrom("auto" as const, "detailed" as const)),
    }),
  ),
  output: maybe(
    fc.oneof(
      fc.constantFrom({ type: "text" as const }, { type: "json_object" as const }),
      fc.record({
        type: fc.constant("json_schema" as const),
        name,
        schema: fc.constant({ type: "object" }),
        strict: fc.boolean(),
      }),
    ),
  ),
});

/** With native fields, which must be kept. */
const native = maybe(
  fc.constantFrom<Record<string, unknown>>(
    { max_tool_calls: 3 },
    { truncation: "auto", "reasoning.context": "all_turns" },
    { include: ["web_search_call.action.sources"] },
    { context_management: [{ type: "compaction", compact_threshold: 9_000 }] },
  ),
);

export const requests: fc.Arbitrary<CanonicalRequest> = fc
  .tuple(
    turns.filter(hasUniqueCallIds),
    fields,
    fc.uniqueArray(tool, { maxLength: 3, selector: (one) => one.name }),
    maybe(fc.boolean()),
    native,
  )
  .chain(([conversation, rest, tools, parallel, own]) =>
    choiceOf(tools).map((choice) => {
      const has = tools.length > 0;
      return checkRequest({
        model: "deep-1",
        turns: conversation,
        ...rest,
        tools: has ? tools : undefined,
        toolChoice: has ? choice : undefined,
        parallelToolCalls: has ? parallel : undefined,
        native: own && { wire: "responses", fields: own },
      });
    }),
  );

const blobOf = (wires: readonly WireName[], kind: OpaqueBlob["kind"]): fc.Arbitrary<OpaqueBlob> =>
  fc.record({
    wire: fc.constantFrom(...wires),
    kind: fc.constant(kind),
    data,
    origin: fc.constantFrom(ORIGIN, { provider: "other", model: "m.1/x" }),
  });
const WIRES = ["chat", "responses", "messages", "gemini"] as const;

const citation: fc.Arbitrary<Citation> = fc.oneof(
  fc.record({ url: webUrl, title: name, start: fc.nat(9), end: fc.nat(9) }),
  fc.constant<Citation>({
    native: {
      wire: "responses",
      fields: { type: "file_citation", file_id: "f", filename: "a.txt", index: 1 },
    },
  }),
);
const logprob = fc.record({
  token: text,
  logprob: fc.integer({ min: -99, max: 0 }).map((one) => one / 8),
  bytes: fc.array(fc.nat(255), { minLength: 1, maxLength: 3 }),
  top: fc.constant([{ token: "a", logprob: -1, bytes: [97] }]),
});
const messageText: fc.Arbitrary<Part> = fc.record({
  type: fc.constant("text" as const),
  text,
  citations: maybe(fc.array(citation, { minLength: 1, maxLength: 2 })),
  logprobs: maybe(fc.array(logprob, { minLength: 1, maxLength: 2 })),
  signature: maybe(blobOf(["gemini"], "text")),
});

const generatedImage: fc.Arbitrary<Part> = data.map((value) => ({
  type: "image",
  source: { kind: "base64", mediaType: "image/webp", data: value },
}));

const output: fc.Arbitrary<Part[]> = fc
  .array(
    fc.oneof(
      reasoningPart(fc.oneof(blobOf(WIRES, "encrypted"), blobOf(WIRES, "signature")), fc.uuid()),
      reasoningPart(fc.constant(undefined), fc.uuid()),
      messageText.map((part) => [part]),
      call(maybe(blobOf(["gemini"], "call"))).map((part): Part[] => [part]),
      text.map((one): Part[] => [{ type: "refusal", text: one }]),
      generatedImage.map((part) => [part]),
      search.map((part) => [part]),
    ),
    { maxLength: 5 },
  )
  .map((lists) => distinct(lists.flat()));

function finishOf(parts: readonly Part[]): fc.Arbitrary<Finish> {
  const cut: Finish[] = [
    { reason: "length", nativeReason: "max_output_tokens" },
    { reason: "content_filter", nativeReason: "SAFETY" },
  ];
  if (parts.some((part) => part.type === "tool_call"))
    return fc.constantFrom<Finish>({ reason: "tool_calls", nativeReason: "tool_use" }, ...cut);
  if (parts.some((part) => part.type === "refusal"))
    return fc.constantFrom<Finish>({ reason: "refusal", nativeReason: "refusal" }, ...cut);
  return fc.constantFrom<Finish>(
    { reason: "stop", nativeReason: "completed" },
    { reason: "stop_sequence", nativeReason: "stop_sequence", stopSequence: "END" },
    ...cut,
  );
}

export const replies: fc.Arbitrary<CanonicalReply> = output.chain((parts) => {
  const count = fc.integer({ min: 0, max: 99_999 });
  return fc.record({
    id: callId,
    model: name,
    createdSeconds: fc.integer({ min: 1, max: 2_000_000_000 }),
    serviceTier: fc.constantFrom("default", "priority"),
    choices: finishOf(parts).map((finish) => [{ parts, finish }]),
    usage: fc
      .record({ input: count, cache_read: count, output: count, reasoning: count })
      .map((tokens) => ({ usage: { tokens, fees: {} } })),
  });
});

/** The events of a reply with randomly split deltas; log probabilities stay with the first. */
export function cutEvents(reply: CanonicalReply): fc.Arbitrary<CanonicalEvent[]> {
  const cuts = replyToEvents(reply).map((event): fc.Arbitrary<CanonicalEvent[]> => {
    if (event.type !== "delta" || event.text.length < 2) return fc.constant([event]);
    return fc.integer({ min: 1, max: event.text.length - 1 }).map((at) => [
      { ...event, text: event.text.slice(0, at) },
      { type: "delta", choice: event.choice, part: event.part, text: event.text.slice(at) },
    ]);
  });
  return fc.tuple(...cuts).map((lists) => lists.flat());
}
