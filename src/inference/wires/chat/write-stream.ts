import type {
  CanonicalEvent,
  JsonObject,
  Loss,
  PartHead,
  ReasoningPart,
  TokenLogprob,
  UsageReport,
} from "../../canonical.ts";
import { losePart } from "../../canonical-wire.ts";
import type { ReplyWriteContext, StreamWriter } from "../../canonical-wire.ts";
import { shownTier } from "../../canonical-tier.ts";
import { writeError } from "./map-error.ts";
import { writeFinish } from "./map-finish-reason.ts";
import { writeUsage } from "./map-usage.ts";
import {
  writeAnnotation,
  writeAudio,
  writeImage,
  writeLogprobs,
  writeReasoningDetail,
  writeSignature,
} from "./write-reply.ts";

const UNFINISHED = `"logprobs":null,"finish_reason":null`;
const DONE = "data: [DONE]\n\n";

type Event<Type extends CanonicalEvent["type"]> = Extract<CanonicalEvent, { type: Type }>;

interface WrittenPart {
  readonly head: PartHead;
  /** A call's place among the choice's calls. */
  readonly call: number;
  /** Where a text begins within the choice's content. */
  readonly offset: number;
  length: number;
}

interface WrittenChoice {
  readonly parts: Map<number, WrittenPart>;
  calls: number;
  textLength: number;
  details: number;
  refused: boolean;
  begun: boolean;
}

interface Writing {
  readonly context: ReplyWriteContext;
  readonly losses: Loss[];
  readonly choices: Map<number, WrittenChoice>;
  readonly legacy: boolean;
  readonly showUsage: boolean;
  /** What every frame has before and after its choice. */
  before: string;
  after: string;
  usage: UsageReport | undefined;
  failed: boolean;
}

export function createStreamWriter(context: ReplyWriteContext): StreamWriter {
  const losses: Loss[] = [];
  const showUsage = context.request.includeUsage === true;
  const legacy = context.request.legacyFunctions === true;
  const after = showUsage ? `],"usage":null}\n\n` : `]}\n\n`;
  const writing: Writing = {
    context,
    losses,
    choices: new Map(),
    legacy,
    showUsage,
    before: "",
    after,
    usage: undefined,
    failed: false,
  };
  return {
    push: (event) => (writing.failed ? "" : write(writing, event)),
    end: () => (writing.failed ? "" : end(writing)),
    losses,
  };
}

function write(writing: Writing, event: CanonicalEvent): string {
  switch (event.type) {
    case "start":
      begin(writing, event);
      return role(writing, 0);
    case "part_start":
      return startPart(writing, event);
    case "delta":
      return writeDelta(writing, event);
    case "blob":
      return writeBlob(writing, event);
    case "citation":
      return writeCitation(writing, event);
    case "part_end":
      return "";
    case "finish":
      return finishChoice(writing, event);
    case "usage":
      writing.usage = event.report;
      return "";
    case "error":
      writing.failed = true;
      return `data: ${JSON.stringify(writeError(event.error, writing.context.id))}\n\n`;
  }
}

function end(writing: Writing): string {
  if (!writing.showUsage || writing.usage === undefined) return DONE;
  if (writing.before === "") begin(writing, undefined);
  return `${writing.before}],"usage":${JSON.stringify(writeUsage(writing.usage))}}\n\n${DONE}`;
}

function begin(writing: Writing, event: Event<"start"> | undefined): void {
  const { context } = writing;
  const head = {
    id: event?.id ?? context.id,
    object: "chat.completion.chunk",
    created: event?.createdSeconds ?? context.createdSeconds,
    model: event?.model ?? context.model,
    service_tier: shownTier(event?.serviceTier),
  };
  writing.before = `data: ${JSON.stringify(head).slice(0, -1)},"choices":[`;
}

// The frames are put together from text: only what a delta carries is turned into JSON.
function frame(writing: Writing, choice: number, delta: string, rest = UNFINISHED): string {
  if (writing.before === "") begin(writing, undefined);
  return `${writing.before}{"index":${choice},"delta":${delta},${rest}}${writing.after}`;
}

function choiceAt({ choices }: Writing, index: number): WrittenChoice {
  let choice = choices.get(index);
  if (choice === undefined) {
    choice = {
      parts: new Map(),
      calls: 0,
      textLength: 0,
      details: 0,
      refused: false,
      begun: false,
    };
    choices.set(index, choice);
  }
  return choice;
}

// The role comes first in every choice; the official accumulator throws without it.
function role(writing: Writing, index: number): string {
  const choice = choiceAt(writing, index);
  if (choice.begun) return "";
  choice.begun = true;
  return frame(writing, index, `{"role":"assistant","content":"","refusal":null}`);
}

function startPart(writing: Writing, { choice: index, part, head }: Event<"part_start">): string {
  const choice = choiceAt(writing, index);
  choice.parts.set(part, { head, call: choice.calls, offset: choice.textLength, length: 0 });
  if (head.type === "refusal") choice.refused = true;
  if (head.type === "tool_call")
    return (
      role(writing, index) + frame(writing, index, callHead(head, choice.calls++, writing.legacy))
    );
  if (head.type !== "whole") return role(writing, index);
  const { value } = head;
  const image = value.type === "image" ? writeImage(value) : undefined;
  const delta =
    value.type === "audio" ? { audio: writeAudio(value) } : image && { images: [image] };
  if (delta !== undefined)
    return role(writing, index) + frame(writing, index, JSON.stringify(delta));
  losePart(writing.losses, `choices[${index}].message.content[${part}]`, value);
  return "";
}

function writeDelta(writing: Writing, event: Event<"delta">): string {
  const choice = choiceAt(writing, event.choice);
  const part = choice.parts.get(event.part);
  if (part === undefined) return "";
  const text = JSON.stringify(event.text);
  switch (part.head.type) {
    case "text":
      part.length += event.text.length;
      choice.textLength += event.text.length;
      return frame(
        writing,
        event.choice,
        `{"content":${text}}`,
        event.logprobs && withLogprobs("content", event.logprobs),
      );
    case "refusal":
      return frame(
        writing,
        event.choice,
        `{"refusal":${text}}`,
        event.logprobs && withLogprobs("refusal", event.logprobs),
      );
    case "reasoning":
      return frame(writing, event.choice, `{"reasoning_content":${text}}`);
    case "tool_call":
      return frame(writing, event.choice, callDelta(part, text, writing.legacy));
    case "whole":
      return "";
  }
}

function writeBlob(writing: Writing, event: Event<"blob">): string {
  const choice = choiceAt(writing, event.choice);
  const head = choice.parts.get(event.part)?.head;
  const reasoning: ReasoningPart = {
    type: "reasoning",
    text: "",
    ...(head?.type === "reasoning" ? head : undefined),
    blob: event.blob,
  };
  return frame(
    writing,
    event.choice,
    JSON.stringify({ reasoning_details: [writeReasoningDetail(reasoning, choice.details++)] }),
  );
}

function writeCitation(writing: Writing, event: Event<"citation">): string {
  const part = choiceAt(writing, event.choice).parts.get(event.part);
  const annotation = writeAnnotation(event.citation, part?.offset ?? 0, part?.length ?? 0);
  if (annotation !== undefined)
    return frame(writing, event.choice, JSON.stringify({ annotations: [annotation] }));
  writing.losses.push({
    path: `choices[${event.choice}].message.content[${event.part}].citations`,
    why: "This API cites only by address.",
  });
  return "";
}

function finishChoice(writing: Writing, { choice, finish }: Event<"finish">): string {
  const { finish_reason: word, ...rest } = writeFinish(finish, {
    refusal: choiceAt(writing, choice).refused,
    legacy: writing.legacy,
  });
  const more = Object.keys(rest).length === 0 ? "" : `,${JSON.stringify(rest).slice(1, -1)}`;
  return (
    role(writing, choice) +
    frame(writing, choice, "{}", `"logprobs":null,"finish_reason":"${word}"${more}`)
  );
}

function withLogprobs(key: "content" | "refusal", logprobs: readonly TokenLogprob[]): string {
  const held: JsonObject = { content: null, refusal: null, [key]: writeLogprobs(logprobs) };
  return `"logprobs":${JSON.stringify(held)},"finish_reason":null`;
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

function callDelta({ head, call }: WrittenPart, text: string, legacy: boolean): string {
  if (legacy) return `{"function_call":{"arguments":${text}}}`;
  const custom = head.type === "tool_call" && head.custom === true;
  return custom
    ? `{"tool_calls":[{"index":${call},"custom":{"input":${text}}}]}`
    : `{"tool_calls":[{"index":${call},"function":{"arguments":${text}}}]}`;
}
