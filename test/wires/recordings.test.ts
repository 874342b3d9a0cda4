// Every recording of these wires must be understood: its text, calls, finish and usage, whole and streamed, and after
// translation into the other API. What a recording says is read here a second time, in the plainest way.
import { describe, expect, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import type { CanonicalReply } from "../../src/inference/canonical.ts";
import { eventsOfReply } from "../../src/inference/canonical-stream.ts";
import type { InboundWire, OutboundWire } from "../../src/inference/canonical-wire.ts";
import { chatWire } from "../../src/inference/wires/chat/chat.ts";
import { checkChatStream } from "../../src/inference/wires/chat/grammar.ts";
import { checkMessagesStream } from "../../src/inference/wires/messages/grammar.ts";
import { messagesWire } from "../../src/inference/wires/messages/messages.ts";
import { usageOf } from "../../src/inference/meter/meter.ts";
import { eventsOf, recordings, skipNotice } from "../support/recordings.ts";
import type { RecordedEvent, Recording } from "../support/recordings.ts";
import {
  checkCanonical,
  collect,
  readContext,
  readEvents,
  sseEvents,
  writeContext,
  writeEvents,
} from "./streams.ts";

type Json = Record<string, any>;
const WIRES: Record<"chat" | "messages", InboundWire & OutboundWire> = {
  chat: chatWire,
  messages: messagesWire,
};

interface Said {
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
  return content
    .map((part: Json) =>
      kind === "text"
        ? (part["text"] ?? "")
        : typeof part["thinking"] === "string"
          ? part["thinking"]
          : (part["thinking"] ?? []).map((one: Json) => one["text"] ?? "").join(""),
    )
    .join("");
}

function chatSaid(body: Json): Said {
  const choice = body["choices"]?.[0] ?? {};
  const message = choice.message ?? {};
  const calls = (message.tool_calls ?? []).map((call: Json) => ({
    name: call["function"].name,
    arguments: argumentsOf(call["function"].arguments),
  }));
  if (calls.length === 0 && message.function_call?.name)
    calls.push({
      name: message.function_call.name,
      arguments: argumentsOf(message.function_call.arguments),
    });
  return {
    text: contentText(message.content, "text"),
    reasoning:
      message.reasoning_content || message.reasoning || contentText(message.content, "thinking"),
    calls,
    finish: choice.finish_reason,
  };
}

function chatStreamSaid(chunks: Json[]): Said {
  const said: Said = { text: "", reasoning: "", calls: [], finish: undefined };
  const calls = new Map<string, { name: string; arguments: string }>();
  let latest = "";
  for (const chunk of chunks) {
    const choice = chunk["choices"]?.find((one: Json) => (one["index"] ?? 0) === 0);
    if (!choice) continue;
    const delta = choice.delta ?? {};
    said.text += contentText(delta.content, "text");
    said.reasoning +=
      delta.reasoning_content || delta.reasoning || contentText(delta.content, "thinking");
    for (const call of [
      ...(delta.tool_calls ?? []),
      ...(delta.function_call ? [{ function: delta.function_call }] : []),
    ]) {
      if (call.id && !calls.has(call.id)) calls.set(call.id, { name: "", arguments: "" });
      latest = call.id || latest;
      if (!calls.has(latest)) calls.set(latest, { name: "", arguments: "" });
      const found = calls.get(latest);
      if (found === undefined) continue;
      found.name ||= call.function?.name ?? "";
      found.arguments += call.function?.arguments ?? "";
    }
    said.finish ??= choice.finish_reason ?? undefined;
  }
  said.calls = [...calls.values()].map((call) => ({
    name: call.name,
    arguments: argumentsOf(call.arguments),
  }));
  return said;
}

function messagesSaid(body: Json): Said {
  const blocks: Json[] = body["content"] ?? [];
  const of = (type: string, key: string) =>
    blocks
      .filter((block) => block["type"] === type)
      .map((block) => block[key] as string)
      .join("");
  const calls = blocks
    .filter((block) => block["type"] === "tool_use")
    .map((block) => ({ name: block["name"], arguments: block["input"] }));
  return {
    text: of("text", "text"),
    reasoning: of("thinking", "thinking"),
    calls,
    finish: body["stop_reason"],
  };
}

function messagesStreamSaid(events: Json[]): Said {
  const blocks: Json[] = [...(events[0]?.["message"]?.content ?? [])];
  let finish: string | undefined = events[0]?.["message"]?.stop_reason;
  for (const event of events) {
    if (event["type"] === "content_block_start")
      blocks[event["index"]] = { ...event["content_block"], json: "" };
    const block = blocks[event["index"]];
    const delta = event["delta"] ?? {};
    if (event["type"] === "content_block_delta" && block) {
      if (delta.text) block["text"] += delta.text;
      if (delta.thinking) block["thinking"] += delta.thinking;
      if (delta.partial_json) block["json"] += delta.partial_json;
    }
    if (event["type"] === "message_delta" && delta.stop_reason) finish = delta.stop_reason;
  }
  for (const block of blocks) if (block["json"]) block["input"] = argumentsOf(block["json"]);
  return { ...messagesSaid({ content: blocks }), finish };
}

function canonicalSaid(reply: CanonicalReply): Said {
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
    finish: reply.choices[0]?.finish.native,
  };
}

// The Messages API has no refusal beside its text.
function refusalOf(reply: CanonicalReply): string {
  return (reply.choices[0]?.parts ?? [])
    .map((part) => (part.type === "refusal" ? part.text : ""))
    .join("");
}

const parse = (text: string): Json | undefined => {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
};

function stream(events: string): Response {
  return new Response(events, { headers: { "content-type": "text/event-stream" } });
}

/** The official accumulators read the stream; what they understood. */
async function accumulate(wire: "chat" | "messages", text: string): Promise<Said> {
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
    return chatSaid((await run.finalChatCompletion()) as unknown as Json);
  }
  const client = new Anthropic({
    apiKey: "x",
    baseURL: "http://test",
    maxRetries: 0,
    fetch: () => Promise.resolve(stream(text)),
  });
  return messagesSaid(
    (await client.messages
      .stream({ model: "m", max_tokens: 1, messages: [] })
      .finalMessage()) as unknown as Json,
  );
}

// Two streams end in an error, one is a gateway's that says nothing more after it.
// Some files hold several replies, one after another.
function streamsOf(events: RecordedEvent[]): RecordedEvent[][] {
  const streams: RecordedEvent[][] = [[]];
  for (const event of events) {
    if (streams.at(-1)?.at(-1)?.data.includes('"message_stop"')) streams.push([]);
    streams.at(-1)?.push(event);
  }
  return streams;
}

// Arguments that were cut short are no JSON: the accumulators give what they can of them.
const comparable = (said: Said, cut = false) => ({
  text: said.text,
  calls: cut ? said.calls.map(({ name }) => name) : said.calls,
});

function isCompletion(recording: Recording): boolean {
  return !(recording.requestBody ?? "").includes('"prompt"');
}

describe.skipIf(skipNotice("wires: recorded traffic"))("recorded traffic", () => {
  for (const name of ["chat", "messages"] as const) {
    const wire = WIRES[name];
    const all = [...recordings()].filter((one) => one.wire === name && isCompletion(one));
    const say = name === "chat" ? chatSaid : messagesSaid;

    test(`${name}: requests that a provider took are read, and written again without loss`, () => {
      let read = 0;
      const refused: string[] = [];
      const lossy: string[] = [];
      for (const recording of all) {
        const body = parse(recording.requestBody ?? "");
        if (body === undefined || recording.status !== 200) continue;
        try {
          const request = wire.readRequest({ model: "m", ...body });
          read++;
          const { losses } = wire.writeRequest(request, {
            provider: "p",
            model: "m",
            abilities: {
              openaiFields: name === "messages",
              reasoningField: "reasoning_content",
              cacheMarks: "cache_control",
              laterInstructions: true,
            },
          });
          for (const loss of losses)
            if (loss.byRule !== true) lossy.push(`${recording.file}: ${loss.path}: ${loss.why}`);
        } catch (error) {
          refused.push(`${recording.file}#${recording.interaction}: ${String(error)}`);
        }
      }
      console.log(
        `${name}: ${read} recorded requests read, ${refused.length} refused, ${lossy.length} losses`,
      );
      if (process.env["VERBOSE"]) console.log([...refused, ...lossy].join("\n"));
      expect(refused.length).toBeLessThanOrEqual(KNOWN_REFUSALS[name]);
      expect(read).toBeGreaterThan(50);
    });

    test(`${name}: whole replies`, () => {
      let count = 0;
      for (const recording of all) {
        if (recording.form !== "json" || recording.status !== 200) continue;
        const body = parse(new TextDecoder().decode(recording.responseBody));
        if (body === undefined || (body["choices"] === undefined && body["content"] === undefined))
          continue;
        const context = readContext(name, recording.provider);
        const reply = wire.readReply(body, context);
        const said = canonicalSaid(reply);
        const expected = say(body);
        const where = `${recording.file}#${recording.interaction}`;
        expect({ where, ...comparable(said) }).toEqual({ where, ...comparable(expected) });
        expect({ where, usage: reply.usage?.usage }).toEqual({
          where,
          usage: usageOf(name, body, recording.provider),
        });
        expect({ where, wrong: checkCanonical(eventsOfReply(reply)) }).toEqual({
          where,
          wrong: [],
        });
        for (const out of ["chat", "messages"] as const) {
          const written = WIRES[out].writeReply(reply, writeContext()).body as Json;
          const again = out === "chat" ? chatSaid(written) : messagesSaid(written);
          expect({
            where,
            out,
            text: again.text,
            calls: again.calls.map(({ name }) => name),
          }).toEqual({
            where,
            out,
            text: out === "messages" ? expected.text + refusalOf(reply) : expected.text,
            calls: expected.calls.map(({ name }) => name),
          });
        }
        count++;
      }
      console.log(`${name}: ${count} recorded whole replies read and translated`);
      expect(count).toBeGreaterThan(50);
    });

    test(`${name}: streams`, async () => {
      let count = 0;
      let failed = 0;
      for (const recording of all) {
        if (!recording.stream || recording.status !== 200) continue;
        for (const raw of streamsOf(eventsOf(recording))) {
          const payloads = raw.map((event) => parse(event.data)).filter((one) => one !== undefined);
          if (payloads.some((one) => one["object"] === "text_completion")) continue;
          // Where only the payloads were kept, the [DONE] was not.
          const events =
            recording.form === "payload-lines" || recording.form === "event-array"
              ? [...raw, ...(name === "chat" ? [{ name: "", data: "[DONE]" }] : [])]
              : raw;
          const canonical = readEvents(wire, events, readContext(name, recording.provider));
          const where = `${recording.file}#${recording.interaction}`;
          expect({ where, wrong: checkCanonical(canonical) }).toEqual({ where, wrong: [] });
          const error = canonical.find((event) => event.type === "error");
          const expected =
            name === "chat" ? chatStreamSaid(payloads) : messagesStreamSaid(payloads);
          const reply = collect(canonical);
          if (error === undefined)
            expect({ where, ...comparable(canonicalSaid(reply)) }).toEqual({
              where,
              ...comparable(expected),
            });
          const cut = expected.calls.some((call) => typeof call.arguments === "string");
          const shown = expected.text + refusalOf(reply);
          for (const out of ["chat", "messages"] as const) {
            const text = writeEvents(WIRES[out], canonical, writeContext());
            const frames = sseEvents(text);
            const wrong =
              out === "chat"
                ? checkChatStream(frames, { usage: reply.usage !== undefined })
                : checkMessagesStream(frames);
            expect({ where, out, wrong }).toEqual({ where, out, wrong: [] });
            if (error === undefined && reply.choices.length === 1)
              expect({ where, out, ...comparable(await accumulate(out, text), cut) }).toEqual({
                where,
                out,
                ...comparable(expected, cut),
                ...(out === "messages" && { text: shown }),
              });
          }
          count++;
          if (error !== undefined) {
            failed++;
            console.log(`  ends in an error: ${where}: ${error.error.message}`);
          }
        }
      }
      console.log(
        `${name}: ${count} recorded streams read and translated, ${failed} of them ending in an error`,
      );
      expect(count).toBeGreaterThan(50);
    }, 60_000);
  }
});

// OpenAI takes an assistant message without content; no other provider does, and it says nothing.
const KNOWN_REFUSALS = { chat: 2, messages: 0 };
