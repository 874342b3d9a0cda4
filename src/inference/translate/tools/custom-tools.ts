// Custom tools take free text. At a provider that has only functions, that text is the one argument of a function, and calls
// of it become calls of the custom tool again.

import {
  type CanonicalEvent,
  addHintLoss,
  type Loss,
  type Part,
  type CanonicalReply,
  type CanonicalRequest,
  type CustomTool,
  type Tool,
  type Turn,
  type WireStreamReader,
} from "@postern/wires";
import { isObject, type JsonObject, parseObject } from "../../../base/json.ts";

export function hasCustomTools({ tools }: JsonObject): boolean {
  return (
    Array.isArray(tools) &&
    tools.some((tool: unknown) => isObject(tool) && tool["type"] === "custom")
  );
}

export function customToolNames(request: CanonicalRequest): ReadonlySet<string> {
  const custom = request.tools?.filter(({ type }) => type === "custom") ?? [];
  return new Set(custom.map(({ name }) => name));
}

export function customToolsAsFunctions(
  request: CanonicalRequest,
  losses: Loss[],
): CanonicalRequest {
  const { tools, toolChoice, turns } = request;
  const isUsed =
    tools?.some(({ type }) => type === "custom") === true || turns.some(hasCustomParts);
  if (!isUsed) return request;
  return {
    ...request,
    turns: turns.map(turnWithFunctions),
    tools: tools?.map((tool): Tool => (tool.type === "custom" ? toFunction(tool, losses) : tool)),
    toolChoice: toolChoice?.type === "tool" ? { ...toolChoice, custom: undefined } : toolChoice,
  };
}

function toFunction(tool: CustomTool, losses: Loss[]): Tool {
  const { format, ...rest } = tool;
  const path = `${tool.path ?? `tools.${tool.name}`}.format`;
  if (format !== undefined)
    addHintLoss(
      losses,
      path,
      "This provider does not support grammars of tools; the grammar is in the description.",
    );
  const description =
    format &&
    `Must match this ${format.syntax === "lark" ? "Lark grammar" : "regular expression"}: ${format.definition}`;
  return {
    ...rest,
    type: "function",
    parameters: {
      type: "object",
      properties: { input: { type: "string", description } },
      required: ["input"],
      additionalProperties: false,
    },
  };
}

function hasCustomParts({ parts }: Turn): boolean {
  return parts.some((part) => "custom" in part && part.custom === true);
}

function turnWithFunctions(turn: Turn): Turn {
  if (!hasCustomParts(turn)) return turn;
  const parts = turn.parts.map((part): Part => {
    if (part.type === "tool_result") return { ...part, custom: undefined };
    if (part.type !== "tool_call" || part.custom !== true) return part;
    return { ...part, custom: undefined, arguments: JSON.stringify({ input: part.arguments }) };
  });
  return { ...turn, parts };
}

/** A reply whose calls of these names are calls of custom tools. */
export function withCustomCalls(reply: CanonicalReply, names: ReadonlySet<string>): CanonicalReply {
  const choices = reply.choices.map((choice) => ({
    ...choice,
    parts: choice.parts.map((part): Part =>
      part.type === "tool_call" && part.custom !== true && names.has(part.name)
        ? { ...part, custom: true, arguments: inputOf(part.arguments) }
        : part,
    ),
  }));
  return { ...reply, choices };
}

function inputOf(text: string): string {
  const input = parseObject(text)?.["input"];
  return typeof input === "string" ? input : text;
}

/** The same for a stream: the text is decoded as it arrives. */
export function readerWithCustomCalls(
  reader: WireStreamReader,
  names: ReadonlySet<string>,
): WireStreamReader {
  const open = new Map<string, InputDecoder>();
  const restore = (event: CanonicalEvent): readonly CanonicalEvent[] => {
    if (!("part" in event)) return [event];
    const key = `${event.choice} ${event.part}`;
    if (event.type === "part_start") {
      const { head } = event;
      if (head.type !== "tool_call" || head.custom === true || !names.has(head.name))
        return [event];
      open.set(key, createInputDecoder());
      return [{ ...event, head: { ...head, custom: true } }];
    }
    const decoder = open.get(key);
    if (decoder === undefined) return [event];
    if (event.type === "delta") {
      const text = decoder.push(event.text);
      return text === "" ? [] : [{ ...event, text }];
    }
    if (event.type !== "part_end") return [event];
    open.delete(key);
    const { choice, part } = event;
    const text = decoder.end();
    return text === "" ? [event] : [{ type: "delta", choice, part, text }, event];
  };
  return {
    push: (event) => reader.push(event).flatMap(restore),
    end: () => reader.end().flatMap(restore),
  };
}

interface InputDecoder {
  push(text: string): string;
  end(): string;
}

const HEAD = /^\s*\{\s*"input"\s*:\s*"/;
/** Characters of a JSON string that can be decoded: no escape that continues in the next piece. */
const COMPLETE = /^(?:[^"\\]|\\(?:u[0-9A-Fa-f]{4}|[^u]))*/;

/** Decodes `{"input":"…"}`. Anything else is kept until its end. */
function createInputDecoder(): InputDecoder {
  let pending = "";
  let state: "head" | "value" | "done" = "head";
  return {
    push(text) {
      if (state === "done") return "";
      pending += text;
      if (state === "head") {
        const head = HEAD.exec(pending)?.[0];
        if (head === undefined) return "";
        pending = pending.slice(head.length);
        state = "value";
      }
      const complete = COMPLETE.exec(pending)?.[0] ?? "";
      pending = pending.slice(complete.length);
      if (pending.startsWith('"')) state = "done";
      return decodeString(complete);
    },
    end: () => (state === "head" ? inputOf(pending) : ""),
  };
}

function decodeString(text: string): string {
  try {
    return String(JSON.parse(`"${text}"`));
  } catch {
    // A control character or an unknown escape: pass the text on.
    return text;
  }
}
