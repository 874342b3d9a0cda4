// Composes a reply's content, independent of the wire.

import { withoutDirectives, type Directives } from "../faults/directives.ts";
import { hashText } from "./hash.ts";
import type { NormalizedRequest, Tool } from "./normalized-request.ts";
import { promptTokens } from "./normalized-request.ts";
import type { CacheTokens } from "./prompt-cache.ts";
import { schemaInstance } from "./schema-instance.ts";
import { countTokens, cutToPieces, cutToTokens, fillerText } from "./tokens.ts";
import { asksForJson, schemaInPrompt } from "./unsupported.ts";

export type FinishReason = "done" | "stop_string" | "tool" | "length" | "refusal" | "filter";

export interface ToolCall {
  readonly seed: number;
  readonly name: string;
  readonly namespace?: string | undefined;
  /** JSON, or plain text for a freeform tool. Truncated if the reply reached its token limit. */
  readonly input: string;
  readonly isComplete: boolean;
  readonly isFreeform: boolean;
}

export interface Choice {
  readonly reasoning: string;
  readonly text: string;
  readonly pieces: readonly string[];
  readonly refusal: string;
  readonly toolCalls: readonly ToolCall[];
  readonly finishReason: FinishReason;
  readonly stopSequence: string | null;
}

/** Disjoint token counts. */
export interface TokenCounts extends CacheTokens {
  readonly input: number;
  readonly output: number;
  readonly reasoning: number;
}

export interface Reply {
  readonly request: NormalizedRequest;
  readonly directives: Directives;
  readonly seed: number;
  readonly model: string;
  readonly createdSeconds: number;
  readonly first: Choice;
  readonly choices: readonly Choice[];
  readonly counts: TokenCounts;
  readonly serviceTier: string | undefined;
}

/** A turn of a scripted agent: a text, or calls of the request's tools by name, each with JSON or a freeform tool's text. */
export interface ScriptedTurn {
  readonly text?: string;
  readonly calls?: readonly { readonly name: string; readonly input: string }[];
}

/** Decides a reply from its request; undefined for the usual reply. */
export type Script = (request: NormalizedRequest) => ScriptedTurn | undefined;

export interface ReplyContext {
  readonly seed: number;
  readonly now: number;
  readonly cache: CacheTokens;
  readonly scripted?: ScriptedTurn | undefined;
}

const MAX_DELTAS = 512;
const MODEL_MAX_TOKENS = 65_536;
const DEFAULT_REASONING_TOKENS = 32;
const REFUSAL = "I'm sorry, but I can't help with that.";

export function composeReply(
  request: NormalizedRequest,
  directives: Directives,
  replyContext: ReplyContext,
): Reply {
  const { seed, cache, scripted } = replyContext;
  const first =
    scripted === undefined
      ? composeChoice(request, directives, seed)
      : scriptedChoice(request, scripted, seed);
  const choices = [first];
  for (let index = 1; index < request.choiceCount; index++)
    choices.push(composeChoice(request, directives, hashText(String(index), seed | 0), index));
  return {
    request,
    directives,
    seed,
    model: directives["answer-model"] ?? request.model,
    createdSeconds: Math.floor(replyContext.now / 1_000),
    first,
    choices,
    counts: countReply(request, directives, choices, cache),
    serviceTier: directives.tier ?? request.serviceTier,
  };
}

function countReply(
  request: NormalizedRequest,
  directives: Directives,
  choices: readonly Choice[],
  cache: CacheTokens,
): TokenCounts {
  let output = 0;
  let reasoning = 0;
  for (const choice of choices) {
    output += countTokens(choice.text) + countTokens(choice.refusal);
    for (const call of choice.toolCalls) output += toolCallTokens(call.name, call.input);
    reasoning += countTokens(choice.reasoning);
  }
  return {
    input:
      directives.input ??
      Math.max(
        0,
        promptTokens(request) - cache.cacheRead - cache.cacheWrite5m - cache.cacheWrite1h,
      ),
    cacheRead: directives.cached ?? cache.cacheRead,
    cacheWrite5m: directives["cache-5m"] ?? cache.cacheWrite5m,
    cacheWrite1h: directives["cache-1h"] ?? cache.cacheWrite1h,
    output: directives.output ?? output,
    reasoning,
  };
}

function composeChoice(
  request: NormalizedRequest,
  directives: Directives,
  seed: number,
  index = 0,
): Choice {
  const isUnlimited =
    directives.kb !== undefined ||
    directives.tokens !== undefined ||
    directives.chunks !== undefined;
  let remainingTokens = request.maxTokens ?? (isUnlimited ? Infinity : MODEL_MAX_TOKENS);
  const fullReasoning = reasoningText(request, directives);
  const reasoning = cutToTokens(fullReasoning, remainingTokens);
  remainingTokens -= countTokens(reasoning);
  const base = {
    reasoning,
    text: "",
    pieces: [],
    refusal: "",
    toolCalls: [],
    stopSequence: null,
  } satisfies Partial<Choice>;
  if (reasoning.length < fullReasoning.length) return { ...base, finishReason: "length" };
  if (directives.empty === true) return { ...base, finishReason: "done" };
  if (directives.refusal === true) return { ...base, refusal: REFUSAL, finishReason: "refusal" };
  const tools = toolsToCall(request, directives);
  const fullText =
    tools.length > 0 ? preamble(directives, tools) : replyText(request, directives, index);
  const stopped =
    tools.length > 0
      ? { text: fullText, stopString: null }
      : cutAtStop(fullText, request.stopSequences);
  const text = cutToTokens(stopped.text, remainingTokens);
  const pieces = cutToPieces(text, directives.chunks ?? Math.min(MAX_DELTAS, countTokens(text)));
  if (text.length < stopped.text.length) return { ...base, text, pieces, finishReason: "length" };
  const toolCalls = makeToolCalls(tools, seed, remainingTokens - countTokens(text));
  const cut = toolCalls.length < tools.length || toolCalls.some((call) => !call.isComplete);
  const finishReason = cut ? "length" : finishReasonOf(directives, toolCalls, stopped.stopString);
  return { ...base, text, pieces, toolCalls, stopSequence: stopped.stopString, finishReason };
}

function scriptedChoice(
  request: NormalizedRequest,
  { text = "", calls = [] }: ScriptedTurn,
  seed: number,
): Choice {
  return {
    reasoning: "",
    text,
    pieces: cutToPieces(text, Math.min(MAX_DELTAS, countTokens(text))),
    refusal: "",
    toolCalls: calls.map(({ name, input }, index) => {
      const tool = request.tools.find((one) => one.name === name);
      return {
        seed: hashText(`call ${index}`, seed | 0),
        name,
        namespace: tool?.namespace,
        input,
        isComplete: true,
        isFreeform: tool?.isFreeform === true,
      };
    }),
    finishReason: calls.length > 0 ? "tool" : "done",
    stopSequence: null,
  };
}

function finishReasonOf(
  directives: Directives,
  calls: readonly ToolCall[],
  stopString: string | null,
): FinishReason {
  if (calls.length > 0) return "tool";
  if (directives.filter === true) return "filter";
  return stopString === null ? "done" : "stop_string";
}

function reasoningText(request: NormalizedRequest, directives: Directives): string {
  const byModel = /(^|\/)reason$/.test(request.model) ? DEFAULT_REASONING_TOKENS : 0;
  const tokens = directives.reasoning ?? request.reasoningTokens ?? byModel;
  if (tokens === 0) return "";
  const opening = "The user asks something. Let me think. ";
  return cutToTokens(opening + fillerText(tokens), tokens);
}

function replyText(request: NormalizedRequest, directives: Directives, index: number): string {
  if (directives.text !== undefined) return directives.text;
  const filler =
    directives.kb === undefined ? (directives.tokens ?? directives.chunks) : directives.kb * 256;
  if (filler !== undefined) return fillerText(filler);
  if (request.responseFormat.kind === "schema")
    return JSON.stringify(schemaInstance(request.responseFormat.schema, index));
  const echo = withoutDirectives(request.userText);
  if (request.responseFormat.kind === "object" || asksForJson(request))
    return jsonText(request, echo, index);
  if (/(^|\/)tiny$/.test(request.model)) return "Yes.";
  const choice = index === 0 ? "" : ` (choice ${index + 1})`;
  if (request.toolResults.length > 0)
    return `The tool answered: ${request.toolResults.join("; ")}${choice}`;
  return `You said: ${echo === "" ? "nothing" : echo}${mediaNote(request)}${choice}`;
}

function jsonText(request: NormalizedRequest, echo: string, index: number): string {
  const schema = schemaInPrompt(request);
  return JSON.stringify(schema === undefined ? { you_said: echo } : schemaInstance(schema, index));
}

function mediaNote(request: NormalizedRequest): string {
  const parts: string[] = [];
  if (request.imageCount > 0) parts.push(plural(request.imageCount, "image"));
  if (request.audioCount > 0) parts.push(plural(request.audioCount, "audio clip"));
  if (request.fileCount > 0) parts.push(plural(request.fileCount, "file"));
  return parts.length === 0 ? "" : ` (with ${parts.join(", ")})`;
}

function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

function cutAtStop(
  text: string,
  stops: readonly string[],
): { readonly text: string; readonly stopString: string | null } {
  let at = text.length;
  let stopString: string | null = null;
  for (const stop of stops) {
    const found = stop === "" ? -1 : text.indexOf(stop);
    if (found !== -1 && found < at) [at, stopString] = [found, stop];
  }
  return { text: text.slice(0, at), stopString };
}

function preamble(directives: Directives, tools: readonly Tool[]): string {
  return directives.preamble === true
    ? `I will use ${tools.map((tool) => tool.name).join(" and ")}.`
    : "";
}

/** The tools that this reply calls, one entry per call. */
function toolsToCall(request: NormalizedRequest, directives: Directives): readonly Tool[] {
  const choice = request.toolChoice;
  if (request.tools.length === 0 || choice.kind === "none") return [];
  if (choice.kind === "auto" && request.toolResults.length > 0) return [];
  const allowed =
    choice.kind === "named"
      ? request.tools.filter((tool) => choice.names.includes(tool.name))
      : request.tools;
  const userText = withoutDirectives(request.userText);
  const mentioned = allowed.filter((tool) => mentionsTool(userText, tool.name));
  const wantsCall =
    choice.kind !== "auto" ||
    directives.calls !== undefined ||
    /\buse (?:\w+ )?tools?\b/i.test(userText);
  if (mentioned.length === 0 && !wantsCall) return [];
  const pool = mentioned.length > 0 ? mentioned : allowed;
  const many = /\b(?:two|both|twice|parallel)\b/i.test(userText) ? 2 : 1;
  const count = request.allowsParallelCalls
    ? (directives.calls ?? Math.max(many, mentioned.length))
    : 1;
  return Array.from({ length: Math.max(1, count) }, (_, index) => pool[index % pool.length]).filter(
    (tool) => tool !== undefined,
  );
}

function mentionsTool(text: string, name: string): boolean {
  const at = text.indexOf(name);
  return at !== -1 && !/\w/.test(text.charAt(at - 1)) && !/\w/.test(text.charAt(at + name.length));
}

function makeToolCalls(tools: readonly Tool[], seed: number, maxTokens: number): ToolCall[] {
  const calls: ToolCall[] = [];
  const made = new Map<string, number>();
  let remainingTokens = maxTokens;
  for (const tool of tools) {
    if (remainingTokens <= 0) break;
    const variant = made.get(tool.name) ?? 0;
    made.set(tool.name, variant + 1);
    const full = tool.isFreeform
      ? `input for ${tool.name}`
      : JSON.stringify(schemaInstance(tool.schema ?? { type: "object" }, variant));
    const input = cutToTokens(full, Math.max(0, remainingTokens - countTokens(tool.name)));
    remainingTokens -= toolCallTokens(tool.name, input);
    const isComplete = input.length === full.length;
    calls.push({
      seed: hashText(`call ${calls.length}`, seed | 0),
      name: tool.name,
      namespace: tool.namespace,
      input,
      isComplete,
      isFreeform: tool.isFreeform,
    });
    if (!isComplete) break;
  }
  return calls;
}

function toolCallTokens(name: string, input: string): number {
  return countTokens(name) + countTokens(input);
}
