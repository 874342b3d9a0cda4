// Replies of a provider on each wire that are too long, fall silent, are empty, or end without usage.

import type { Json } from "./harness.ts";
import type { RawReply } from "./raw-provider.ts";

/** What the replies report. */
export const INPUT = 50;
export const OUTPUT = 700;
const TEXT = "word ".repeat(OUTPUT);

export type Wire = "chat" | "responses" | "messages";

/** What the provider does after the text. */
export interface Ending {
  readonly hasUsage: boolean;
  /** What the usage reports instead of the tokens. */
  readonly reported?: number;
  /** Bytes of a further event, or of each of them. */
  readonly padding?: number;
  readonly events?: number;
  readonly isEmpty?: boolean;
  readonly isSilent?: boolean;
}

const CHAT_USAGE = {
  prompt_tokens: INPUT,
  completion_tokens: OUTPUT,
  total_tokens: INPUT + OUTPUT,
};
const USAGE = { input_tokens: INPUT, output_tokens: OUTPUT };

function usageOf(wire: Wire, { hasUsage, isEmpty, reported }: Ending): Json {
  if (!hasUsage) return {};
  if (reported !== undefined)
    return {
      usage:
        wire === "chat"
          ? { prompt_tokens: reported, completion_tokens: reported }
          : { input_tokens: reported, output_tokens: reported },
    };
  const usage = wire === "chat" ? CHAT_USAGE : USAGE;
  const output = wire === "chat" ? "completion_tokens" : "output_tokens";
  return { usage: isEmpty === true ? { ...usage, [output]: 0 } : usage };
}

export function wholeReply(wire: Wire, ending: Ending): Json {
  const text = (ending.isEmpty === true ? "" : TEXT) + "x".repeat(ending.padding ?? 0);
  const usage = usageOf(wire, ending);
  const isEnded = ending.isEmpty !== true;
  if (wire === "chat") {
    const message = { role: "assistant", content: text };
    const choices = [{ index: 0, message, finish_reason: isEnded ? "stop" : null }];
    return { id: "c", object: "chat.completion", created: 1, model: "gpt-4.1", choices, ...usage };
  }
  const content = isEnded ? [{ type: wire === "messages" ? "text" : "output_text", text }] : [];
  if (wire === "messages")
    return {
      id: "m",
      type: "message",
      role: "assistant",
      model: "claude-haiku-4-5",
      content,
      stop_reason: isEnded ? "end_turn" : null,
      ...usage,
    };
  const item = { type: "message", id: "i", role: "assistant", status: "completed", content };
  const status = isEnded ? { status: "completed" } : {};
  return { id: "r", object: "response", ...status, output: isEnded ? [item] : [], ...usage };
}

const sse = (event: Json): string =>
  `${typeof event["type"] === "string" ? `event: ${event["type"]}\n` : ""}data: ${JSON.stringify(event)}\n\n`;

function delta(wire: Wire, text: string): string {
  if (wire === "chat")
    return sse({ model: "gpt-4.1", choices: [{ index: 0, delta: { content: text } }] });
  return wire === "messages"
    ? sse({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } })
    : sse({
        type: "response.output_text.delta",
        item_id: "i",
        output_index: 0,
        content_index: 0,
        delta: text,
      });
}

function opening(wire: Wire): string {
  if (wire === "chat") return "";
  if (wire === "responses")
    return sse({
      type: "response.created",
      response: {
        id: "r",
        object: "response",
        status: "in_progress",
        model: "gpt-4.1",
        output: [],
      },
    });
  const message = { id: "m", type: "message", role: "assistant", model: "claude-haiku-4-5" };
  return (
    sse({ type: "message_start", message: { ...message, content: [] } }) +
    sse({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } })
  );
}

/** An event with content that is not counted, such as log probabilities. */
function paddingEvent(wire: Wire, bytes: number): string {
  const padding = "x".repeat(bytes);
  if (wire !== "chat") return sse({ type: "ping", padding });
  const choice = { index: 0, delta: { content: "" }, logprobs: { content: [{ token: padding }] } };
  return sse({ model: "gpt-4.1", choices: [choice] });
}

function closing(wire: Wire, ending: Ending): string {
  const usage = usageOf(wire, ending);
  const reason = ending.isEmpty === true ? null : "stop";
  if (wire === "chat")
    return (
      sse({ choices: [{ index: 0, delta: {}, finish_reason: reason }], ...usage }) +
      "data: [DONE]\n\n"
    );
  if (wire === "responses")
    return sse({
      type: "response.completed",
      response: wholeReply(wire, { ...ending, padding: 0 }),
    });
  return (
    sse({ type: "content_block_stop", index: 0 }) +
    sse({
      type: "message_delta",
      delta: { stop_reason: reason === null ? null : "end_turn" },
      ...usage,
    }) +
    sse({ type: "message_stop" })
  );
}

/** `goOn`: awaited after the text. */
export function streamedReply(wire: Wire, ending: Ending, goOn?: Promise<void>): RawReply {
  const { isEmpty, isSilent, padding, events = 1 } = ending;
  const text = isEmpty === true ? "" : delta(wire, TEXT);
  const middle = padding === undefined ? "" : paddingEvent(wire, padding).repeat(events);
  const rest = isSilent === true ? "" : middle + closing(wire, ending);
  const start = opening(wire) + text;
  return {
    headers: { "content-type": "text/event-stream" },
    body: start + rest,
    ...(goOn !== undefined && { cuts: [start.length], beforeNext: () => goOn }),
    ...(isSilent === true && { ending: "silence" as const }),
  };
}

export function wireOf(path: string): Wire {
  if (path.endsWith("/messages")) return "messages";
  return path.endsWith("/responses") ? "responses" : "chat";
}
