import type { CanonicalEvent, PartHead } from "../../canonical/canonical-events.ts";
import { addLoss, addPartLoss, type Loss } from "../../canonical/canonical-losses.ts";
import type { ReasoningPart, TokenLogprob } from "../../canonical/canonical-parts.ts";
import type { UsageReport } from "../../canonical/canonical-reply.ts";
import type { ReplyWriteContext, WireStreamWriter } from "../../canonical/wire-interfaces.ts";
import { errorObject } from "../../error-object.ts";
import type { JsonObject } from "../../json-fields.ts";
import { openaiServiceTier } from "../../openai-tiers.ts";
import { createWriter } from "../../stream-writer.ts";
import { writeFinish } from "./map-chat-finish-reason.ts";
import { writeUsage } from "./map-chat-usage.ts";
import {
  writeAnnotation,
  writeAudio,
  writeImage,
  writeLogprobs,
  writeReasoningDetail,
  writeSignature,
} from "./write-chat-reply.ts";

const NO_FINISH_FIELDS = `"logprobs":null,"finish_reason":null`;
const DONE = "data: [DONE]\n\n";

type Event<Type extends CanonicalEvent["type"]> = Extract<CanonicalEvent, { type: Type }>;

interface PartState {
  readonly head: PartHead;
  /** A call's index among the choice's calls. */
  readonly callIndex: number;
  /** The start of a text in the choice's content. */
  readonly offset: number;
  length: number;
}

interface ChoiceState {
  readonly parts: Map<number, PartState>;
  callCount: number;
  textLength: number;
  reasoningDetailCount: number;
  hasRefusal: boolean;
  hasRole: boolean;
}

interface WriterState {
  readonly context: ReplyWriteContext;
  readonly losses: Loss[];
  readonly choices: Map<number, ChoiceState>;
  readonly usesLegacyFunctions: boolean;
  readonly showUsage: boolean;
  /** Every frame's JSON before and after its choice. */
  framePrefix: string;
  frameSuffix: string;
  usage: UsageReport | undefined;
}

export function createStreamWriter(context: ReplyWriteContext): WireStreamWriter {
  const losses: Loss[] = [];
  const showUsage = context.request.includeUsage === true;
  const usesLegacyFunctions = context.request.legacyFunctions === true;
  const frameSuffix = showUsage ? `],"usage":null}\n\n` : `]}\n\n`;
  const state: WriterState = {
    context,
    losses,
    choices: new Map(),
    usesLegacyFunctions,
    showUsage,
    framePrefix: "",
    frameSuffix,
    usage: undefined,
  };
  return createWriter(
    losses,
    (event) => write(state, event),
    () => end(state),
  );
}

function write(state: WriterState, event: CanonicalEvent): string {
  switch (event.type) {
    case "start":
      begin(state, event);
      return roleDelta(state, 0);
    case "part_start":
      return startPart(state, event);
    case "delta":
      return writeDelta(state, event);
    case "blob":
      return writeBlob(state, event);
    case "citation":
      return writeCitation(state, event);
    case "part_end":
      return "";
    case "finish":
      return finishChoice(state, event);
    case "usage":
      state.usage = event.report;
      return "";
    case "error":
      return `data: ${JSON.stringify({ error: errorObject(event.error) })}\n\n`;
  }
}

function end(state: WriterState): string {
  if (!state.showUsage || state.usage === undefined) return DONE;
  if (state.framePrefix === "") begin(state, undefined);
  return `${state.framePrefix}],"usage":${JSON.stringify(writeUsage(state.usage))}}\n\n${DONE}`;
}

function begin(state: WriterState, event: Event<"start"> | undefined): void {
  const { context } = state;
  const head = {
    id: event?.id ?? context.id,
    object: "chat.completion.chunk",
    created: event?.createdSeconds ?? context.createdSeconds,
    model: event?.model ?? context.model,
    service_tier: openaiServiceTier(event?.serviceTier),
  };
  state.framePrefix = `data: ${JSON.stringify(head).slice(0, -1)},"choices":[`;
}

// Frames are concatenated from text, so that only the delta is serialized.
function frame(state: WriterState, choice: number, delta: string, rest = NO_FINISH_FIELDS): string {
  if (state.framePrefix === "") begin(state, undefined);
  return `${state.framePrefix}{"index":${choice},"delta":${delta},${rest}}${state.frameSuffix}`;
}

function choiceAt({ choices }: WriterState, index: number): ChoiceState {
  let choice = choices.get(index);
  if (choice === undefined) {
    choice = {
      parts: new Map(),
      callCount: 0,
      textLength: 0,
      reasoningDetailCount: 0,
      hasRefusal: false,
      hasRole: false,
    };
    choices.set(index, choice);
  }
  return choice;
}

// The official SDK's accumulator throws if a choice does not start with the role.
function roleDelta(state: WriterState, index: number): string {
  const choice = choiceAt(state, index);
  if (choice.hasRole) return "";
  choice.hasRole = true;
  return frame(state, index, `{"role":"assistant","content":"","refusal":null}`);
}

function startPart(state: WriterState, { choice: index, part, head }: Event<"part_start">): string {
  const choice = choiceAt(state, index);
  choice.parts.set(part, {
    head,
    callIndex: choice.callCount,
    offset: choice.textLength,
    length: 0,
  });
  if (head.type === "refusal") choice.hasRefusal = true;
  if (head.type === "tool_call")
    return (
      roleDelta(state, index) +
      frame(state, index, callHead(head, choice.callCount++, state.usesLegacyFunctions))
    );
  if (head.type !== "whole") return roleDelta(state, index);
  const { value } = head;
  const image = value.type === "image" ? writeImage(value) : undefined;
  const delta =
    value.type === "audio" ? { audio: writeAudio(value) } : image && { images: [image] };
  if (delta !== undefined)
    return roleDelta(state, index) + frame(state, index, JSON.stringify(delta));
  addPartLoss(state.losses, `choices[${index}].message.content[${part}]`, value);
  return "";
}

function writeDelta(state: WriterState, event: Event<"delta">): string {
  const choice = choiceAt(state, event.choice);
  const part = choice.parts.get(event.part);
  if (part === undefined) return "";
  const text = JSON.stringify(event.text);
  switch (part.head.type) {
    case "text":
      part.length += event.text.length;
      choice.textLength += event.text.length;
      return frame(
        state,
        event.choice,
        `{"content":${text}}`,
        event.logprobs && withLogprobs("content", event.logprobs),
      );
    case "refusal":
      return frame(
        state,
        event.choice,
        `{"refusal":${text}}`,
        event.logprobs && withLogprobs("refusal", event.logprobs),
      );
    case "reasoning":
      return frame(state, event.choice, `{"reasoning_content":${text}}`);
    case "tool_call":
      return frame(state, event.choice, callDelta(part, text, state.usesLegacyFunctions));
    case "whole":
      return "";
  }
}

function writeBlob(state: WriterState, event: Event<"blob">): string {
  const choice = choiceAt(state, event.choice);
  const head = choice.parts.get(event.part)?.head;
  const reasoning: ReasoningPart = {
    type: "reasoning",
    text: "",
    ...(head?.type === "reasoning" ? head : undefined),
    blob: event.blob,
  };
  return frame(
    state,
    event.choice,
    JSON.stringify({
      reasoning_details: [writeReasoningDetail(reasoning, choice.reasoningDetailCount++)],
    }),
  );
}

function writeCitation(state: WriterState, event: Event<"citation">): string {
  const part = choiceAt(state, event.choice).parts.get(event.part);
  const annotation = writeAnnotation(event.citation, part?.offset ?? 0, part?.length ?? 0);
  if (annotation !== undefined)
    return frame(state, event.choice, JSON.stringify({ annotations: [annotation] }));
  const path = `choices[${event.choice}].message.content[${event.part}].citations`;
  addLoss(state.losses, path, "This API supports only URL citations.");
  return "";
}

function finishChoice(state: WriterState, { choice, finish }: Event<"finish">): string {
  const { finish_reason: reason, ...rest } = writeFinish(finish, {
    hasRefusal: choiceAt(state, choice).hasRefusal,
    usesLegacyFunctions: state.usesLegacyFunctions,
  });
  const more = Object.keys(rest).length === 0 ? "" : `,${JSON.stringify(rest).slice(1, -1)}`;
  return (
    roleDelta(state, choice) +
    frame(state, choice, "{}", `"logprobs":null,"finish_reason":"${reason}"${more}`)
  );
}

function withLogprobs(key: "content" | "refusal", logprobs: readonly TokenLogprob[]): string {
  const value: JsonObject = { content: null, refusal: null, [key]: writeLogprobs(logprobs) };
  return `"logprobs":${JSON.stringify(value)},"finish_reason":null`;
}

function callHead(
  head: Extract<PartHead, { type: "tool_call" }>,
  index: number,
  legacy: boolean,
): string {
  const { id, name } = head;
  if (legacy) return JSON.stringify({ function_call: { name, arguments: "" } });
  if (head.custom === true)
    return JSON.stringify({
      tool_calls: [{ index, id, type: "custom", custom: { name, input: "" } }],
    });
  return JSON.stringify({
    tool_calls: [
      { index, id, type: "function", function: { name, arguments: "" }, ...writeSignature(head) },
    ],
  });
}

function callDelta({ head, callIndex }: PartState, text: string, legacy: boolean): string {
  if (legacy) return `{"function_call":{"arguments":${text}}}`;
  const custom = head.type === "tool_call" && head.custom === true;
  return custom
    ? `{"tool_calls":[{"index":${callIndex},"custom":{"input":${text}}}]}`
    : `{"tool_calls":[{"index":${callIndex},"function":{"arguments":${text}}}]}`;
}
