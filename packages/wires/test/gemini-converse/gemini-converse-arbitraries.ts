// Random requests and replies that Gemini and Converse can express without loss, and read contexts.

import * as fc from "fast-check";
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
import type { ReplyReadContext } from "../../src/canonical/wire-interfaces.ts";
import { usageOf } from "../../src/usage/provider-usage.ts";
import { closedSchema } from "../closed-schema.ts";
import { hasUniqueCallIds } from "../unique-call-ids.ts";

export type OutboundName = "gemini" | "converse";
export const ORIGIN = { provider: "acme", model: "deep-1" };

export function outboundContext(wire: OutboundName, outputTool?: string): ReplyReadContext {
  return {
    origin: ORIGIN,
    readUsage: (body) => usageOf(wire, body, "acme"),
    emulation: outputTool === undefined ? undefined : { outputTool },
  };
}

const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined, freq: 3 });
const text = fc
  .oneof(
    fc.string({ minLength: 1, maxLength: 20, unit: "grapheme" }),
    fc.constantFrom("data: [DONE]\n\n", '}"]\\', "a\r\nb", "\u2028x", "🏴‍☠️", "</think>", "ünï"),
  )
  .filter((one) => one.trim() !== "");
const callId = fc.stringMatching(/^[A-Za-z0-9_-]{8,40}$/).filter((id) => !id.startsWith("pst"));
const name = fc.stringMatching(/^[a-z][a-z0-9_]{0,12}$/);
const data = fc.base64String({ minLength: 4, maxLength: 24 }).filter((one) => one !== "");
const jsonObject = fc.dictionary(
  fc.stringMatching(/^[a-z]{1,6}$/),
  fc.oneof(text, fc.integer(), fc.boolean(), fc.constant(null)),
  { maxKeys: 3 },
);
const args = jsonObject.map((value) => JSON.stringify(value));
const cache = maybe(fc.constantFrom<CacheBreakpoint>({}, { ttl: "5m" }, { ttl: "1h" }));
const noCache = fc.constant(undefined);

function blob(wire: OutboundName, kind: OpaqueBlob["kind"]): fc.Arbitrary<OpaqueBlob> {
  return data.map((held) => ({ wire, kind, data: held }));
}

function textPart(wire: OutboundName): fc.Arbitrary<Part> {
  return fc.record({
    type: fc.constant("text" as const),
    text,
    cache: wire === "converse" ? cache : noCache,
  });
}

function media(wire: OutboundName, marked: boolean): fc.Arbitrary<Part> {
  const held = (type: "image" | "file" | "audio" | "video", mediaType: string) =>
    fc.record({
      type: fc.constant(type),
      source: fc.record({
        kind: fc.constant("base64" as const),
        mediaType: fc.constant(mediaType),
        data,
      }),
      cache: marked && wire === "converse" ? cache : noCache,
    }) as fc.Arbitrary<Part>; // The type of a record's field is not narrowed by the value given.
  const shared = [held("image", "image/png"), held("image", "image/jpeg")];
  return wire === "converse"
    ? fc.oneof(...shared)
    : fc.oneof(
        ...shared,
        held("file", "application/pdf"),
        held("audio", "audio/wav"),
        held("video", "video/mp4"),
      );
}

/** Random reply parts. Adjacent parts of one kind would be read as one, unless the first is signed. */
function assistantParts(wire: OutboundName, history: boolean): fc.Arbitrary<Part[]> {
  const thought: fc.Arbitrary<Part> = fc.record({
    type: fc.constant("reasoning" as const),
    text,
    summary: wire === "gemini" && !history ? fc.constant(true as const) : noCache,
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
    signature: wire === "gemini" ? maybe(blob(wire, "call")) : noCache,
  });
  const plain: fc.Arbitrary<Part> = fc.record({
    type: fc.constant("text" as const),
    text,
    signature: wire === "gemini" ? maybe(blob(wire, "text")) : noCache,
  });
  const kinds = [thought, plain, plain, call, ...(wire === "converse" ? [hidden] : [])];
  return fc
    .uniqueArray(fc.oneof(...kinds), {
      minLength: 1,
      maxLength: 5,
      selector: (part) => (part.type === "tool_call" ? part.id : part),
    })
    .map((parts) => (history ? parts : parts.reduce(appendUnmerged, [])));
}

function appendUnmerged(parts: Part[], part: Part): Part[] {
  return mergesWith(parts.at(-1), part) ? parts : [...parts, part];
}

function mergesWith(before: Part | undefined, part: Part): boolean {
  return part.type === "text" && before?.type === "text" && before.signature === undefined;
}

function results(calls: readonly Part[], wire: OutboundName): fc.Arbitrary<Turn[]> {
  const made = calls.flatMap((part) => (part.type === "tool_call" ? [part] : []));
  if (made.length === 0) return fc.constant([]);
  const image = media(wire, false).filter((part) => part.type === "image");
  const content =
    wire === "gemini"
      ? fc
          .tuple(
            fc.array(
              text.map((one): Part => ({ type: "text", text: one })),
              { minLength: 1, maxLength: 2 },
            ),
            fc.array(image, { maxLength: 1 }),
          )
          .map((lists) => lists.flat())
      : fc.array(
          fc.oneof(
            text.map((one): Part => ({ type: "text", text: one })),
            image,
          ),
          { maxLength: 2 },
        );
  return fc
    .tuple(
      ...made.map((call) =>
        fc.tuple(content, fc.boolean()).map(
          ([parts, isError]) =>
            ({
              type: "tool_result",
              callId: call.id,
              content: parts,
              isError: isError || undefined,
            }) as ToolResultPart,
        ),
      ),
    )
    .map((parts) => [{ role: "tool", parts }]);
}

function turns(wire: OutboundName): fc.Arbitrary<Turn[]> {
  const system = fc.array(
    fc
      .array(textPart(wire), { minLength: 1, maxLength: 2 })
      .map((parts): Turn => ({ role: "system", parts })),
    { maxLength: 1 },
  );
  const user = fc
    .array(fc.oneof(textPart(wire), media(wire, true)), { minLength: 1, maxLength: 3 })
    .map((parts): Turn => ({ role: "user", parts }));
  const assistant = assistantParts(wire, true).chain((parts) =>
    results(parts, wire).map((after) => {
      const turn: Turn = { role: "assistant", parts };
      return [turn].concat(after);
    }),
  );
  const exchange = fc
    .tuple(user, assistant)
    .map(([userTurn, replyTurns]) => [userTurn].concat(replyTurns));
  return fc
    .tuple(system, fc.array(exchange, { maxLength: 3 }), user)
    .map(([first, middle, last]) => first.concat(middle.flat(), last))
    .filter(hasUniqueCallIds);
}

function tools(wire: OutboundName): fc.Arbitrary<Tool[]> {
  const tool: fc.Arbitrary<Tool> = fc.record({
    type: fc.constant("function" as const),
    name,
    description: maybe(text),
    parameters: jsonObject.map(closedSchema),
    strict: wire === "converse" ? maybe(fc.constant(true)) : noCache,
    cache: wire === "converse" ? cache : noCache,
  });
  return fc.uniqueArray(tool, { minLength: 1, maxLength: 3, selector: (one) => one.name });
}

function choices(
  offered: readonly Tool[],
  wire: OutboundName,
): fc.Arbitrary<ToolChoice | undefined> {
  const named = offered.map((one): ToolChoice => ({ type: "tool", name: one.name }));
  const names = offered.map((one) => one.name);
  const own: ToolChoice[] =
    wire === "gemini" ? [{ type: "none" }, { type: "allowed", mode: "auto", names }] : [];
  return maybe(
    fc.constantFrom<ToolChoice>({ type: "auto" }, { type: "required" }, ...named, ...own),
  );
}

function fields(wire: OutboundName): fc.Arbitrary<Partial<CanonicalRequest>> {
  const ratio = fc.integer({ min: 0, max: 100 }).map((one) => one / 100);
  const common = {
    stream: maybe(fc.constant(true)),
    maxOutputTokens: maybe(fc.integer({ min: 1, max: 9_999 })),
    temperature: maybe(ratio),
    topP: maybe(ratio),
    topK: maybe(fc.integer({ min: 1, max: 99 })),
    stop: maybe(fc.array(name, { minLength: 1, maxLength: 4 })),
    serviceTier: maybe(fc.constantFrom("flex", "priority")),
  };
  const properties = { a: { type: "string" } };
  const schema = fc.constant({ type: "object", properties, additionalProperties: false });
  if (wire === "converse")
    return fc.record({
      ...common,
      metadata: maybe(fc.constant({ a: "b" })),
      output: maybe(
        fc.record({
          type: fc.constant("json_schema" as const),
          schema,
          name: maybe(name),
          description: maybe(text),
        }),
      ),
    });
  return fc.record({
    ...common,
    seed: maybe(fc.integer({ min: 0, max: 99_999 })),
    frequencyPenalty: maybe(ratio),
    presencePenalty: maybe(ratio),
    logprobs: maybe(fc.constant(true)),
    n: maybe(fc.integer({ min: 1, max: 4 })),
    reasoning: maybe(
      fc
        .constantFrom("minimal" as const, "low" as const, "medium" as const, "high" as const)
        .map((effort) => ({ effort })),
    ),
    output: maybe(
      fc.oneof(
        fc.constant({ type: "json_object" as const }),
        fc.record({ type: fc.constant("json_schema" as const), schema }),
      ),
    ),
  });
}

export function outboundRequests(wire: OutboundName): fc.Arbitrary<CanonicalRequest> {
  return fc
    .tuple(turns(wire), fields(wire), fc.boolean(), tools(wire))
    .filter(([conversation, , has]) => has || wire === "gemini" || !hasCalls(conversation))
    .chain(([conversation, rest, has, offered]) =>
      choices(offered, wire).map((choice) =>
        checkRequest({
          model: ORIGIN.model,
          turns: conversation,
          ...rest,
          tools: has ? offered : undefined,
          toolChoice: has ? choice : undefined,
        }),
      ),
    );
}

function hasCalls(conversation: readonly Turn[]): boolean {
  return conversation.some((turn) => turn.role === "tool");
}

function finishOf(parts: readonly Part[], wire: OutboundName): fc.Arbitrary<Finish> {
  if (parts.some((part) => part.type === "tool_call"))
    return fc.constantFrom<Finish>({ reason: "tool_calls" }, { reason: "length" });
  return fc.constantFrom<Finish>(
    { reason: "stop" },
    { reason: "length" },
    { reason: "content_filter" },
    ...(wire === "converse"
      ? ([{ reason: "stop_sequence", stopSequence: "END" }, { reason: "context_full" }] as const)
      : []),
  );
}

export function outboundReplies(wire: OutboundName): fc.Arbitrary<CanonicalReply> {
  const choice = assistantParts(wire, false).chain((parts) =>
    finishOf(parts, wire).map((finish): Choice => ({ parts, finish })),
  );
  const count = fc.integer({ min: 0, max: 99_999 });
  return fc.record({
    id: wire === "gemini" ? callId : fc.constant(undefined),
    model: wire === "gemini" ? name : fc.constant(undefined),
    createdSeconds:
      wire === "gemini" ? fc.integer({ min: 1, max: 2_000_000_000 }) : fc.constant(undefined),
    choices: fc.array(choice, { minLength: 1, maxLength: wire === "gemini" ? 3 : 1 }),
    usage: fc
      .record({ input: count, cache_read: count, output: count, reasoning: count })
      .map((tokens) => ({ usage: { tokens, fees: {} } })),
  });
}

/** The bytes in pieces of these sizes. */
export function splitBytes(bytes: Uint8Array, sizes: Iterator<number>): Uint8Array[] {
  const pieces: Uint8Array[] = [];
  for (let at = 0; at < bytes.length;) {
    const size = Number(sizes.next().value);
    pieces.push(bytes.subarray(at, at + size));
    at += size;
  }
  return pieces;
}
