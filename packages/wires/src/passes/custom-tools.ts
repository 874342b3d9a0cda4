// Custom tools take free text. At a provider that has only functions, that text is the one argument of a function, and calls
// of it become calls of the custom tool again.

import type { Part } from "../canonical/canonical-parts.ts";
import type { CanonicalRequest, CustomTool, Tool, Turn } from "../canonical/canonical-request.ts";
import { parseObject } from "../json-fields.ts";
import type { CallHead, ChangedRequest, OpenCall, StepContext } from "./translation-step.ts";

export function customToolsAsFunctions(
  request: CanonicalRequest,
  { drop }: Pick<StepContext, "drop">,
): ChangedRequest {
  const { tools, toolChoice, turns } = request;
  const custom = tools?.filter(({ type }) => type === "custom") ?? [];
  if (custom.length === 0 && !turns.some(hasCustomParts)) return { request };
  const names = new Set(custom.map(({ name }) => name));
  return {
    request: {
      ...request,
      turns: turns.map(turnWithFunctions),
      tools: tools?.map((tool): Tool => (tool.type === "custom" ? toFunction(tool, drop) : tool)),
      toolChoice: toolChoice?.type === "tool" ? { ...toolChoice, custom: undefined } : toolChoice,
    },
    createUndo:
      names.size === 0 ? undefined : () => ({ openCall: (head) => openCall(head, names) }),
  };
}

function toFunction(tool: CustomTool, drop: StepContext["drop"]): Tool {
  const { format, ...rest } = tool;
  if (format !== undefined) drop(`${tool.path ?? `tools.${tool.name}`}.format`);
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

function openCall(head: CallHead, names: ReadonlySet<string>): OpenCall | undefined {
  if (head.custom === true || !names.has(head.name)) return undefined;
  const custom: CallHead = { ...head, custom: true };
  const decoder = createInputDecoder();
  return {
    head: custom,
    push: (text) => decoder.push(text),
    end: () => ({ head: custom, text: decoder.end() }),
  };
}

function inputOf(text: string): string {
  const input = parseObject(text)?.["input"];
  return typeof input === "string" ? input : text;
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
