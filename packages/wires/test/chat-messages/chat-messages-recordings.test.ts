// Reads every recording of these wires, whole and streamed: its text, calls, finish and usage, also after translation to
// the other API. The expected values come from a second, simple reader.

import { describe, expect, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import {
  eventsOf,
  type RecordedEvent,
  type Recording,
  recordings,
  skipWithoutRecordings,
} from "../../../../test/support/recordings/recordings.ts";
import type { CanonicalReply } from "../../src/canonical/canonical-reply.ts";
import type { InboundWire, OutboundWire } from "../../src/canonical/wire-interfaces.ts";
import { chatWire } from "../../src/chat/chat-wire.ts";
import { messagesWire } from "../../src/messages/messages-wire.ts";
import { createStreamMeter, usageOf } from "../../src/usage/provider-usage.ts";
import { readEvent, usageSoFar } from "../../src/usage/stream-meter.ts";
import { replyToEvents } from "../reply-to-events.ts";
import { sampleRecordings } from "../sample-recordings.ts";
import {
  collectReply,
  readContext,
  readEvents,
  sseEvents,
  validateCanonicalStream,
  writeContext,
  writeEvents,
} from "../stream-helpers.ts";
import { validateChatStream } from "../validate-chat-stream.ts";
import { validateMessagesStream } from "../validate-messages-stream.ts";

// ---- A simple reader of replies
interface ChatMessage {
  readonly content?: unknown;
  readonly reasoning_content?: string | null;
  readonly reasoning?: string | null;
  readonly reasoning_details?:
    | readonly { readonly text?: string; readonly summary?: string }[]
    | null;
  readonly tool_calls?: readonly ChatCall[] | null;
  readonly function_call?: ChatFunction | null;
}
interface ChatFunction {
  readonly name?: string;
  readonly arguments?: unknown;
}
interface ChatCall {
  readonly id?: string | null;
  readonly function?: ChatFunction;
}
interface Block {
  readonly type: string;
  readonly text?: string;
  readonly thinking?: string;
  readonly name?: string;
  readonly input?: unknown;
}
interface Body {
  readonly object?: string;
  readonly choices?: readonly {
    readonly index?: number;
    readonly finish_reason?: string | null;
    readonly message?: ChatMessage;
    readonly delta?: ChatMessage;
  }[];
  readonly content?: readonly Block[];
  readonly stop_reason?: string | null;
}
interface MessagesEvent {
  readonly type?: string;
  readonly index?: number;
  readonly message?: Body;
  readonly content_block?: Block;
  readonly delta?: {
    readonly text?: string;
    readonly thinking?: string;
    readonly partial_json?: string;
    readonly stop_reason?: string | null;
  };
}

type TestedWire = "chat" | "messages";
const WIRES: Record<TestedWire, InboundWire & OutboundWire> = {
  chat: chatWire,
  messages: messagesWire,
};

interface ReplySummary {
  text: string;
  reasoning: string;
  calls: { name: string; arguments: unknown }[];
  finish: string | undefined;
}

function argumentsOf(value: unknown): unknown {
  if (typeof value !== "string") return value ?? {};
  if (value.trim() === "") return {};
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}

function contentText(content: unknown, kind: "text" | "thinking"): string {
  if (typeof content === "string") return kind === "text" ? content : "";
  if (!Array.isArray(content)) return "";
  const parts = content as readonly {
    text?: string;
    thinking?: string | readonly { text?: string }[];
  }[];
  return parts
    .map(({ text = "", thinking = "" }) => {
      if (kind === "text") return text;
      return typeof thinking === "string"
        ? thinking
        : thinking.map((one) => one.text ?? "").join("");
    })
    .join("");
}

function reasoningOf(message: ChatMessage): string {
  const details = (message.reasoning_details ?? []).map((one) => one.text ?? one.summary ?? "");
  return (
    message.reasoning_content ||
    message.reasoning ||
    contentText(message.content, "thinking") ||
    details.join("")
  );
}

function summarizeChat(body: Body): ReplySummary {
  const choice = body.choices?.[0];
  const message = choice?.message ?? {};
  const calls = (message.tool_calls ?? []).map((call) => call.function ?? {});
  if (calls.length === 0 && message.function_call?.name) calls.push(message.function_call);
  return {
    text: contentText(message.content, "text"),
    reasoning: reasoningOf(message),
    calls: calls.map((call) => ({ name: call.name ?? "", arguments: argumentsOf(call.arguments) })),
    finish: choice?.finish_reason ?? undefined,
  };
}

function summarizeChatStream(chunks: readonly Body[]): ReplySummary {
  const choices = chunks.flatMap(
    (chunk) => chunk.choices?.find((one) => (one.index ?? 0) === 0) ?? [],
  );
  const deltas = choices.map((choice) => choice.delta ?? {});
  const calls = new Map<string, { name: string; arguments: string }>();
  let latest = "";
  for (const call of deltas.flatMap((delta) => [
    ...(delta.tool_calls ?? []),
    ...(delta.function_call ? [{ function: delta.function_call } as ChatCall] : []),
  ])) {
    latest = call.id || latest;
    const found = calls.get(latest) ?? { name: "", arguments: "" };
    calls.set(latest, found);
    found.name ||= call.function?.name ?? "";
    found.arguments += typeof call.function?.arguments === "string" ? call.function.arguments : "";
  }
  return {
    text: deltas.map((delta) => contentText(delta.content, "text")).join(""),
    reasoning: deltas.map(reasoningOf).join(""),
    calls: [...calls.values()].map((call) => ({
      name: call.name,
      arguments: argumentsOf(call.arguments),
    })),
    finish: choices.find((choice) => choice.finish_reason)?.finish_reason ?? undefined,
  };
}

function summarizeMessages({ content = [], stop_reason: stop }: Body): ReplySummary {
  return {
    text: content.map((block) => (block.type === "text" ? block.text : "")).join(""),
    reasoning: content.map((block) => (block.type === "thinking" ? block.thinking : "")).join(""),
    calls: content
      .filter((block) => block.type === "tool_use")
      .map((block) => ({ name: block.name ?? "", arguments: block.input })),
    finish: stop ?? undefined,
  };
}

interface StreamedBlock {
  readonly block: Block;
  text: string;
  thinking: string;
  json: string;
}

function openBlock(block: Block): StreamedBlock {
  return { block, text: block.text ?? "", thinking: block.thinking ?? "", json: "" };
}

function addDelta(
  open: StreamedBlock,
  { text = "", thinking = "", partial_json: json = "" }: NonNullable<MessagesEvent["delta"]>,
): void {
  open.text += text;
  open.thinking += thinking;
  open.json += json;
}

function summarizeMessagesStream(events: readonly MessagesEvent[]): ReplySummary {
  const whole = events[0]?.message;
  const streamed = (whole?.content ?? []).map(openBlock);
  for (const { type, index = 0, content_block: block, delta } of events) {
    if (type === "content_block_start" && block !== undefined) streamed[index] = openBlock(block);
    const open = streamed[index];
    if (type === "content_block_delta" && open !== undefined) addDelta(open, delta ?? {});
  }
  const content = streamed.map(({ block, text, thinking, json }): Block => ({
    type: block.type,
    name: block.name ?? "",
    text,
    thinking,
    input: json === "" ? block.input : argumentsOf(json),
  }));
  const stop =
    events.findLast((event) => event.delta?.stop_reason)?.delta?.stop_reason ??
    whole?.stop_reason ??
    null;
  return summarizeMessages({ content, stop_reason: stop });
}

function summarizeCanonical(reply: CanonicalReply): ReplySummary {
  const parts = reply.choices[0]?.parts ?? [];
  const of = (type: "text" | "reasoning") =>
    parts.flatMap((part) => (part.type === type ? [part.text] : [])).join("");
  return {
    text: of("text"),
    reasoning: of("reasoning"),
    calls: parts.flatMap((part) =>
      part.type === "tool_call"
        ? [{ name: part.name, arguments: argumentsOf(part.arguments) }]
        : [],
    ),
    finish: reply.choices[0]?.finish.nativeReason,
  };
}

// The Messages API has no refusal apart from its text.
function refusalOf(reply: CanonicalReply): string {
  return (reply.choices[0]?.parts ?? [])
    .map((part) => (part.type === "refusal" ? part.text : ""))
    .join("");
}

const parse = (text: string): (Body & MessagesEvent) | undefined => {
  try {
    return JSON.parse(text) as Body & MessagesEvent;
  } catch {
    return undefined;
  }
};

function stream(events: string): Response {
  return new Response(events, { headers: { "content-type": "text/event-stream" } });
}

/** The reply that the official SDKs accumulate from the stream. */
async function accumulate(wire: "chat" | "messages", text: string): Promise<ReplySummary> {
  if (wire === "chat") {
    const client = new OpenAI({
      apiKey: "x",
      baseURL: "http://test/v1",
      maxRetries: 0,
      fetch: () => Promise.resolve(stream(text)),
    });
    const run = client.chat.completions.stream({
      model: "m",
      messages: [],
      stream_options: { include_usage: true },
    });
    return summarizeChat(await run.finalChatCompletion());
  }
  const client = new Anthropic({
    apiKey: "x",
    baseURL: "http://test",
    maxRetries: 0,
    fetch: () => Promise.resolve(stream(text)),
  });
  return summarizeMessages(
    await client.messages.stream({ model: "m", max_tokens: 1, messages: [] }).finalMessage(),
  );
}

// Two streams end in an error; one of them is another gateway's.
// Some files hold several replies, one after another.
function streamsOf(events: RecordedEvent[]): RecordedEvent[][] {
  const streams: RecordedEvent[][] = [[]];
  for (const event of events) {
    if (streams.at(-1)?.at(-1)?.data.includes('"message_stop"')) streams.push([]);
    streams.at(-1)?.push(event);
  }
  return streams;
}

// Incomplete arguments are not JSON, and the accumulators return a part of them.
const comparable = (summary: ReplySummary, cut = false) => ({
  text: summary.text,
  calls: cut ? summary.calls.map(({ name }) => name) : summary.calls,
});

function isCompletion(recording: Recording): boolean {
  return !(recording.requestBody ?? "").includes('"prompt"');
}

/** The summary after translation to this API: Messages has a refusal as text. */
function visibleOn(out: TestedWire, summary: ReplySummary, reply: CanonicalReply): ReplySummary {
  return out === "messages" ? { ...summary, text: summary.text + refusalOf(reply) } : summary;
}

function checkRecordedRequest(name: TestedWire, body: Body): readonly string[] {
  const abilities = {
    openaiFields: name === "messages",
    reasoningField: "reasoning_content",
    cacheBreakpointField: "cache_control",
    midConversationInstructions: true,
  } as const;
  const request = WIRES[name].readRequest({ model: "m", ...body });
  const { losses } = WIRES[name].writeRequest(request, { provider: "p", model: "m", abilities });
  return losses
    .filter((loss) => loss.tolerated !== true)
    .map((loss) => `${loss.path}: ${loss.reason}`);
}

function checkRecordedReply(name: TestedWire, body: Body, provider: string): void {
  const reply = WIRES[name].readReply(body, readContext(name, provider));
  const expected = name === "chat" ? summarizeChat(body) : summarizeMessages(body);
  expect(comparable(summarizeCanonical(reply))).toEqual(comparable(expected));
  expect(summarizeCanonical(reply).reasoning).toBe(expected.reasoning);
  expect(reply.usage?.usage).toEqual(usageOf(name, body, provider));
  expect(validateCanonicalStream(replyToEvents(reply))).toEqual([]);
  for (const out of ["chat", "messages"] as const) {
    const written = WIRES[out].writeReply(reply, writeContext()).body as Body;
    const again = out === "chat" ? summarizeChat(written) : summarizeMessages(written);
    const visible = visibleOn(out, expected, reply);
    expect([out, ...again.calls.map((call) => call.name), again.text]).toEqual([
      out,
      ...visible.calls.map((call) => call.name),
      visible.text,
    ]);
  }
}

/** Checks a stream and its translations; returns the error that the stream ends with, if any. */
async function checkRecordedStream(
  name: TestedWire,
  provider: string,
  events: readonly RecordedEvent[],
  payloads: readonly (Body & MessagesEvent)[],
): Promise<string | undefined> {
  const canonical = readEvents(WIRES[name], events, readContext(name, provider));
  expect(validateCanonicalStream(canonical)).toEqual([]);
  const error = canonical.find((event) => event.type === "error");
  const expected =
    name === "chat" ? summarizeChatStream(payloads) : summarizeMessagesStream(payloads);
  const reply = collectReply(canonical);
  const cut = expected.calls.some((call) => typeof call.arguments === "string");
  if (error === undefined) {
    expect(comparable(summarizeCanonical(reply))).toEqual(comparable(expected));
    expect(summarizeCanonical(reply).reasoning).toBe(expected.reasoning);
    const meter = createStreamMeter(name, provider);
    for (const event of events) readEvent(meter, event.name, event.data);
    expect(reply.usage?.usage.tokens).toEqual(usageSoFar(meter)?.tokens);
  }
  for (const out of ["chat", "messages"] as const) {
    const text = writeEvents(WIRES[out], canonical, writeContext());
    const frames = sseEvents(text);
    expect(
      out === "chat"
        ? validateChatStream(frames, { usage: reply.usage !== undefined })
        : validateMessagesStream(frames),
    ).toEqual([]);
    if (error !== undefined || reply.choices.length > 1) continue;
    expect([out, comparable(await accumulate(out, text), cut)]).toEqual([
      out,
      comparable(visibleOn(out, expected, reply), cut),
    ]);
  }
  return error?.error.message;
}

/** Adds the recording to the error of a failed check. */
async function withRecordingName<T>(recording: Recording, check: () => T | Promise<T>): Promise<T> {
  try {
    return await check();
  } catch (error) {
    throw new Error(`${recording.file}#${recording.interaction}: ${String(error)}`, {
      cause: error,
    });
  }
}

test.each(["chat", "messages"] as const)(
  "reads and translates the sample replies of %s, whole and streamed",
  async (name) => {
    for (const recording of sampleRecordings(name)) {
      const body = parse(new TextDecoder().decode(recording.responseBody));
      if (body !== undefined) {
        checkRecordedReply(name, body, recording.provider);
        continue;
      }
      const events = eventsOf(recording);
      const payloads = events.flatMap((event) => parse(event.data) ?? []);
      expect(await checkRecordedStream(name, recording.provider, events, payloads)).toBeUndefined();
    }
  },
);

describe.skipIf(skipWithoutRecordings("wires: recorded traffic"))("recorded traffic", () => {
  for (const name of ["chat", "messages"] as const) {
    const all = [...recordings()].filter(
      (one) => one.wire === name && one.status === 200 && isCompletion(one),
    );

    test(`reads and rewrites accepted ${name} requests`, () => {
      let read = 0;
      let lossy = 0;
      const refused: string[] = [];
      for (const recording of all) {
        const body = parse(recording.requestBody ?? "");
        if (body === undefined) continue;
        try {
          if (checkRecordedRequest(name, body).length > 0) lossy++;
          read++;
        } catch (error) {
          refused.push(`${recording.file}#${recording.interaction}: ${String(error)}`);
        }
      }
      console.log(
        `${name}: ${read} recorded requests read (${lossy} with losses at a server that is not OpenAI), ${refused.length} refused`,
      );
      expect(refused.filter((one) => !KNOWN_REFUSALS.test(one))).toEqual([]);
      expect(read).toBeGreaterThan(50);
    });

    test(`reads and translates ${name} replies`, async () => {
      let count = 0;
      for (const recording of all) {
        const body =
          recording.bodyFormat === "json"
            ? parse(new TextDecoder().decode(recording.responseBody))
            : undefined;
        if (body?.choices === undefined && body?.content === undefined) continue;
        await withRecordingName(recording, () =>
          checkRecordedReply(name, body, recording.provider),
        );
        count++;
      }
      console.log(`${name}: ${count} recorded whole replies read and translated`);
      expect(count).toBeGreaterThan(50);
    });

    test(`reads and translates ${name} streams`, async () => {
      let count = 0;
      const errors: string[] = [];
      const streams = all
        .filter((one) => one.stream)
        .flatMap((recording) =>
          streamsOf(eventsOf(recording)).map((events) => ({ recording, events })),
        );
      for (const { recording, events } of streams) {
        const payloads = events
          .map((event) => parse(event.data))
          .filter((one) => one !== undefined);
        if (payloads.some((one) => one.object === "text_completion")) continue;
        // Recordings of payloads only have no [DONE].
        if (name === "chat" && /^(payload|event)/.test(recording.bodyFormat))
          events.push({ name: "", data: "[DONE]" });
        const error = await withRecordingName(recording, () =>
          checkRecordedStream(name, recording.provider, events, payloads),
        );
        if (error !== undefined) errors.push(`${recording.file}: ${error.slice(0, 80)}`);
        count++;
      }
      console.log(
        [
          `${name}: ${count} recorded streams read and translated, ${errors.length} of them ending in an error`,
          ...errors,
        ].join("\n  "),
      );
      expect(count).toBeGreaterThan(50);
    });
  }
});

// OpenAI accepts an assistant message without content; no other provider does.
const KNOWN_REFUSALS =
  /multimodalRequest\/chat-completions\/followup-.*`messages\[1\]` has no content/;
