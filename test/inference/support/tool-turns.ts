// The turns of a provider whose model calls tools that the gateway runs, in the form of Chat Completions.

import type { Json } from "./harness.ts";
import type { RawReply } from "./raw-provider.ts";

export interface ToolTurn {
  readonly input: number;
  readonly output: number;
  /** The cost that the provider states. */
  readonly statedUsd?: number;
  /** The functions that the model calls; without any, the reply is a text. */
  readonly calls?: readonly (readonly [name: string, args: Json | string])[];
}

let callCount = 0;

/** A turn as the provider sends it, whole or streamed. */
export function turnReply(
  { input, output, statedUsd, calls = [] }: ToolTurn,
  stream: boolean,
): RawReply {
  const usage = {
    prompt_tokens: input,
    completion_tokens: output,
    ...(statedUsd !== undefined && { cost: statedUsd }),
  };
  const hasCalls = calls.length > 0;
  const toolCalls = calls.map(([name, args], index) => ({
    index,
    id: `call_${(callCount += 1)}`,
    type: "function",
    function: { name, arguments: typeof args === "string" ? args : JSON.stringify(args) },
  }));
  const message = {
    role: "assistant",
    content: hasCalls ? null : "Done.",
    ...(hasCalls && { tool_calls: toolCalls }),
  };
  const reason = hasCalls ? "tool_calls" : "stop";
  const head = { id: "chatcmpl-1", created: 1, model: "echo" };
  if (!stream) {
    const choices = [{ index: 0, message, finish_reason: reason }];
    return { body: JSON.stringify({ ...head, object: "chat.completion", choices, usage }) };
  }
  const chunk = { ...head, object: "chat.completion.chunk" };
  const events = [
    { ...chunk, choices: [{ index: 0, delta: message, finish_reason: null }] },
    { ...chunk, choices: [{ index: 0, delta: {}, finish_reason: reason }] },
    { ...chunk, choices: [], usage },
  ].map((event) => `data: ${JSON.stringify(event)}\n\n`);
  return {
    headers: { "content-type": "text/event-stream" },
    body: `${events.join("")}data: [DONE]\n\n`,
  };
}

export function asksForStream(body: string): boolean {
  return (JSON.parse(body) as Json)["stream"] === true;
}
