// This API has one content block open at a time. The first part that is open is shown as it comes; parts that begin
// before it ends wait, as events, until it does.
import type { CanonicalEvent, Finish, Loss, PartHead, UsageReport } from "../../canonical.ts";
import { encodeCallId } from "../../canonical-call-ids.ts";
import { sealBlob } from "../../canonical-reasoning.ts";
import { losePart } from "../../canonical-wire.ts";
import type { ReplyWriteContext, StreamWriter } from "../../canonical-wire.ts";
import { writeError } from "./map-error.ts";
import { writeFinish } from "./map-finish-reason.ts";
import { startUsage, writeUsage } from "./map-usage.ts";
import { FREE_INPUT, noLogprobs, writeCitation, writeThinking } from "./write-reply.ts";

type PartEvent = Extract<CanonicalEvent, { part: number }>;

interface ShownPart {
  readonly part: number;
  readonly head: PartHead;
  /** Its block is open. Text and thinking blocks open with their first delta, so that an empty part leaves no empty block. */
  begun: boolean;
  /** Something came after the head. */
  filled: boolean;
}

interface Writing {
  readonly context: ReplyWriteContext;
  readonly losses: Loss[];
  readonly waiting: Map<number, PartEvent[]>;
  shown: ShownPart | undefined;
  /** The index of the block that is open, or comes next. */
  index: number;
  started: boolean;
  refused: boolean;
  finish: Finish | undefined;
  usage: UsageReport | undefined;
  failed: boolean;
}

export function createStreamWriter(context: ReplyWriteContext): StreamWriter {
  const losses: Loss[] = [];
  const writing: Writing = {
    context,
    losses,
    waiting: new Map(),
    shown: undefined,
    index: 0,
    started: false,
    refused: false,
    finish: undefined,
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
      return begin(writing, event);
    case "finish":
      if (event.choice === 0) writing.finish = event.finish;
      return "";
    case "usage":
      writing.usage = event.report;
      return "";
    case "error":
      writing.failed = true;
      return frame("error", JSON.stringify(writeError(event.error, writing.context.id)));
    case "part_start":
    case "delta":
    case "blob":
    case "citation":
    case "part_end":
      return begin(writing, undefined) + pushPart(writing, event);
  }
}

function begin(
  writing: Writing,
  event: Extract<CanonicalEvent, { type: "start" }> | undefined,
): string {
  if (writing.started) return "";
  writing.started = true;
  const { context } = writing;
  const message = {
    id: event?.id ?? context.id,
    type: "message",
    role: "assistant",
    model: event?.model ?? context.model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    stop_details: null,
    container: null,
    diagnostics: null,
    usage: startUsage(context.inputTokensEstimate ?? 0),
  };
  return frame("message_start", `{"type":"message_start","message":${JSON.stringify(message)}}`);
}

function end(writing: Writing): string {
  const { usage, context, refused } = writing;
  const stop = writeFinish(writing.finish ?? { reason: "error" }, refused);
  const counted =
    usage === undefined ? startUsage(context.inputTokensEstimate ?? 0) : writeUsage(usage);
  const said = { type: "message_delta", delta: { ...stop, container: null }, usage: counted };
  return (
    begin(writing, undefined) +
    frame("message_delta", JSON.stringify(said)) +
    frame("message_stop", `{"type":"message_stop"}`)
  );
}

function pushPart(writing: Writing, event: PartEvent): string {
  const { shown, waiting, losses } = writing;
  if (event.choice !== 0) {
    if (event.type === "part_start")
      losses.push({ path: `choices[${event.choice}]`, why: "This API has one choice a reply." });
    return "";
  }
  if (shown === undefined ? event.type === "part_start" : shown.part === event.part)
    return show(writing, event);
  const list = waiting.get(event.part);
  if (list === undefined) waiting.set(event.part, [event]);
  else list.push(event);
  return "";
}

function show(writing: Writing, event: PartEvent): string {
  if (event.type === "part_start") return startPart(writing, event.part, event.head);
  const { shown } = writing;
  if (shown === undefined) return "";
  switch (event.type) {
    case "delta":
      if (event.logprobs !== undefined) loseLogprobs(writing);
      return writeDelta(writing, shown, event.text);
    case "blob":
      return writeBlob(writing, shown, event);
    case "citation": {
      const citation = writeCitation(event.citation, `content[${writing.index}]`, writing.losses);
      return citation === undefined
        ? ""
        : open(writing, shown) +
            addToBlock(writing, JSON.stringify({ type: "citations_delta", citation }));
    }
    case "part_end":
      writing.shown = undefined;
      return endPart(writing, shown) + showNext(writing);
  }
}

function showNext(writing: Writing): string {
  let out = "";
  for (const [part, events] of writing.waiting) {
    if (writing.shown !== undefined) break;
    writing.waiting.delete(part);
    for (const event of events) out += show(writing, event);
  }
  return out;
}

function startPart(writing: Writing, part: number, head: PartHead): string {
  const shown: ShownPart = { part, head, begun: false, filled: false };
  writing.shown = shown;
  if (head.type === "refusal") writing.refused = true;
  if (head.type === "whole") {
    const { value } = head;
    if (value.type === "native" && value.wire === "messages")
      return wholeBlock(writing, value.value);
    losePart(writing.losses, `content[${writing.index}]`, value);
    return "";
  }
  if (head.type !== "tool_call") return "";
  shown.begun = true;
  const { id, name, signature } = head;
  const proof =
    signature === undefined
      ? ""
      : wholeThinking(writing, writeThinking({ type: "reasoning", text: "", blob: signature }));
  return (
    proof +
    openBlock(writing, {
      type: "tool_use",
      id: encodeCallId(id),
      name,
      input: {},
      caller: { type: "direct" },
    })
  );
}

function loseLogprobs({ losses, index }: Writing): void {
  const loss = noLogprobs(`content[${index}]`);
  if (losses.at(-1)?.path !== loss.path) losses.push(loss);
}

function writeDelta(writing: Writing, shown: ShownPart, text: string): string {
  if (text === "") return "";
  const opened = shown.begun ? "" : open(writing, shown);
  const isFirst = !shown.filled;
  shown.filled = true;
  const json = JSON.stringify(isFree(shown) ? freePiece(text, isFirst) : text);
  switch (shown.head.type) {
    case "text":
    case "refusal":
      return opened + addToBlock(writing, `{"type":"text_delta","text":${json}}`);
    case "reasoning":
      return opened + addToBlock(writing, `{"type":"thinking_delta","thinking":${json}}`);
    case "tool_call":
      return opened + addToBlock(writing, `{"type":"input_json_delta","partial_json":${json}}`);
    case "whole":
      return "";
  }
}

function isFree({ head }: ShownPart): boolean {
  return head.type === "tool_call" && head.custom === true;
}

// A custom tool's free text, piece by piece, as the one string of an object.
function freePiece(text: string, isFirst: boolean): string {
  return (isFirst ? `{"${FREE_INPUT}":"` : "") + JSON.stringify(text).slice(1, -1);
}

// What proves a text has no field here: the text's block ends, and a thinking block without text follows.
function writeBlob(
  writing: Writing,
  shown: ShownPart,
  { blob }: Extract<PartEvent, { type: "blob" }>,
): string {
  const whole = writeThinking({ type: "reasoning", text: "", blob });
  if (shown.head.type !== "reasoning") {
    const ended = shown.begun ? closeBlock(writing) : "";
    shown.begun = false;
    return ended + wholeThinking(writing, whole);
  }
  if (whole["type"] === "redacted_thinking" && !shown.begun) return wholeBlock(writing, whole);
  return (
    open(writing, shown) +
    addToBlock(
      writing,
      JSON.stringify({ type: "signature_delta", signature: sealBlob(blob, "messages") }),
    )
  );
}

function endPart(writing: Writing, shown: ShownPart): string {
  if (!shown.begun) return "";
  const empty = shown.head.type === "tool_call" && !shown.filled;
  const closing = isFree(shown) && shown.filled;
  return (
    (closing ? addToBlock(writing, `{"type":"input_json_delta","partial_json":"\\"}"}`) : "") +
    (empty ? addToBlock(writing, `{"type":"input_json_delta","partial_json":""}`) : "") +
    closeBlock(writing)
  );
}

function open(writing: Writing, shown: ShownPart): string {
  if (shown.begun) return "";
  shown.begun = true;
  return openBlock(
    writing,
    shown.head.type === "reasoning"
      ? { type: "thinking", thinking: "", signature: "" }
      : { type: "text", text: "", citations: [] },
  );
}

function wholeThinking(writing: Writing, block: ReturnType<typeof writeThinking>): string {
  if (block["type"] !== "thinking") return wholeBlock(writing, block);
  const opened = openBlock(writing, { type: "thinking", thinking: "", signature: "" });
  return (
    opened +
    addToBlock(
      writing,
      JSON.stringify({ type: "signature_delta", signature: block["signature"] }),
    ) +
    closeBlock(writing)
  );
}

function wholeBlock(writing: Writing, block: unknown): string {
  return openBlock(writing, block) + closeBlock(writing);
}

function openBlock({ index }: Writing, block: unknown): string {
  return frame(
    "content_block_start",
    `{"type":"content_block_start","index":${index},"content_block":${JSON.stringify(block)}}`,
  );
}

function addToBlock({ index }: Writing, delta: string): string {
  return frame(
    "content_block_delta",
    `{"type":"content_block_delta","index":${index},"delta":${delta}}`,
  );
}

function closeBlock(writing: Writing): string {
  return frame("content_block_stop", `{"type":"content_block_stop","index":${writing.index++}}`);
}

function frame(name: string, data: string): string {
  return `event: ${name}\ndata: ${data}\n\n`;
}
