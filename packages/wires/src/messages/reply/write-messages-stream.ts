// This API has one open content block at a time, except that a text and the block of its signature are open together.

import type { CanonicalEvent, PartHead } from "../../canonical/canonical-events.ts";
import { addPartLoss, type Loss } from "../../canonical/canonical-losses.ts";
import type { Finish, UsageReport } from "../../canonical/canonical-reply.ts";
import { encodeBlob } from "../../canonical/reasoning-blobs.ts";
import { encodeCallId } from "../../canonical/tools/call-ids.ts";
import type { ReplyWriteContext, WireStreamWriter } from "../../canonical/wire-interfaces.ts";
import { errorObject } from "../../error-object.ts";
import { createPartSequencer, createWriter, type PartEvent } from "../../stream-writer.ts";
import { writeFinish } from "./map-messages-finish-reason.ts";
import { initialUsage, writeUsage } from "./map-messages-usage.ts";
import {
  CUSTOM_TOOL_INPUT_FIELD,
  logprobsLoss,
  writeCitation,
  writeThinking,
} from "./write-messages-reply.ts";

interface OpenPart {
  readonly head: PartHead;
  /** Text and thinking blocks open with their first delta, so that an empty part writes no block. */
  isBlockOpen: boolean;
  hasContent: boolean;
  /** The open thinking block before a text, to which the text's signature is added. */
  signatureIndex: number | undefined;
  /** The blocks that were written within this one. */
  nestedBlocks: number;
}

interface WriterState {
  readonly context: ReplyWriteContext;
  readonly losses: Loss[];
  readonly writePart: (event: PartEvent) => string;
  openPart: OpenPart | undefined;
  /** The index of the open or next block. */
  index: number;
  started: boolean;
  hasRefusal: boolean;
  finish: Finish | undefined;
  usage: UsageReport | undefined;
}

type Indexed = Pick<WriterState, "index">;

const EMPTY_THINKING = { type: "thinking", thinking: "", signature: "" };

export function createStreamWriter(context: ReplyWriteContext): WireStreamWriter {
  const losses: Loss[] = [];
  const state: WriterState = {
    context,
    losses,
    writePart: createPartSequencer(losses, (event) => writePartEvent(state, event)),
    openPart: undefined,
    index: 0,
    started: false,
    hasRefusal: false,
    finish: undefined,
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
      return begin(state, event);
    case "finish":
      if (event.choice === 0) state.finish = event.finish;
      return "";
    case "usage":
      state.usage = event.report;
      return "";
    case "error":
      return frame(
        "error",
        JSON.stringify({
          type: "error",
          error: errorObject(event.error),
          request_id: state.context.id,
        }),
      );
    case "part_start":
    case "delta":
    case "blob":
    case "citation":
    case "part_end":
      return begin(state, undefined) + state.writePart(event);
  }
}

function begin(
  state: WriterState,
  event: Extract<CanonicalEvent, { type: "start" }> | undefined,
): string {
  if (state.started) return "";
  state.started = true;
  const { context } = state;
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
    usage: initialUsage(context.inputTokensEstimate ?? 0),
  };
  return frame("message_start", `{"type":"message_start","message":${JSON.stringify(message)}}`);
}

function end(state: WriterState): string {
  const { usage, context, hasRefusal } = state;
  const stop = writeFinish(state.finish ?? { reason: "error" }, hasRefusal);
  const counted =
    usage === undefined ? initialUsage(context.inputTokensEstimate ?? 0) : writeUsage(usage);
  const delta = { type: "message_delta", delta: { ...stop, container: null }, usage: counted };
  return (
    begin(state, undefined) +
    frame("message_delta", JSON.stringify(delta)) +
    frame("message_stop", `{"type":"message_stop"}`)
  );
}

function writePartEvent(state: WriterState, event: PartEvent): string {
  if (event.type === "part_start") return startPart(state, event.head);
  const { openPart } = state;
  if (openPart === undefined) return "";
  switch (event.type) {
    case "delta":
      if (event.logprobs !== undefined) addLogprobsLoss(state);
      return writeDelta(state, openPart, event.text);
    case "blob":
      return writeBlob(state, openPart, event);
    case "citation": {
      const citation = writeCitation(event.citation, `content[${state.index}]`, state.losses);
      return citation === undefined
        ? ""
        : openPartBlock(state, openPart) +
            addToBlock(state, JSON.stringify({ type: "citations_delta", citation }));
    }
    case "part_end":
      state.openPart = undefined;
      return endPart(state, openPart);
  }
}

function startPart(state: WriterState, head: PartHead): string {
  state.openPart = {
    head,
    isBlockOpen: head.type === "tool_call",
    hasContent: false,
    signatureIndex: undefined,
    nestedBlocks: 0,
  };
  if (head.type === "refusal") state.hasRefusal = true;
  if (head.type === "whole") {
    const { value } = head;
    if (value.type === "native" && value.wire === "messages")
      return writeWholeBlock(state, value.value);
    addPartLoss(state.losses, `content[${state.index}]`, value);
    return "";
  }
  if (head.type !== "tool_call") return "";
  const { id, name, signature } = head;
  const signatureBlock =
    signature === undefined
      ? ""
      : writeThinkingBlock(state, writeThinking({ type: "reasoning", text: "", blob: signature }));
  return (
    signatureBlock +
    openBlock(state, {
      type: "tool_use",
      id: encodeCallId(id),
      name,
      input: {},
      caller: { type: "direct" },
    })
  );
}

function addLogprobsLoss({ losses, index }: WriterState): void {
  const loss = logprobsLoss(`content[${index}]`);
  if (losses.at(-1)?.path !== loss.path) losses.push(loss);
}

function writeDelta(state: WriterState, openPart: OpenPart, text: string): string {
  if (text === "") return "";
  // A text that continues after its signature does so in a block of its own.
  const ended = openPart.nestedBlocks > 0 ? closePartBlock(state, openPart) : "";
  const opened = ended + openPartBlock(state, openPart);
  const isFirst = !openPart.hasContent;
  openPart.hasContent = true;
  const json = JSON.stringify(isCustomCall(openPart) ? customInputDelta(text, isFirst) : text);
  switch (openPart.head.type) {
    case "text":
    case "refusal":
      return opened + addToBlock(state, `{"type":"text_delta","text":${json}}`);
    case "reasoning":
      return opened + addToBlock(state, `{"type":"thinking_delta","thinking":${json}}`);
    case "tool_call":
      return opened + addToBlock(state, `{"type":"input_json_delta","partial_json":${json}}`);
    case "whole":
      return "";
  }
}

function isCustomCall({ head }: OpenPart): boolean {
  return head.type === "tool_call" && head.custom === true;
}

// A custom tool's free text as the value of an object's only field.
function customInputDelta(text: string, isFirst: boolean): string {
  return (isFirst ? `{"${CUSTOM_TOOL_INPUT_FIELD}":"` : "") + JSON.stringify(text).slice(1, -1);
}

// A thinking block without text carries the signature of a text. Clients show the last block, by index or by its end, so the
// text must be last. If a signature is expected, its block starts before the text; otherwise it is nested in the text's block.
function writeBlob(
  state: WriterState,
  openPart: OpenPart,
  { blob }: Extract<PartEvent, { type: "blob" }>,
): string {
  const block = writeThinking({ type: "reasoning", text: "", blob });
  if (openPart.head.type !== "reasoning") {
    if (!openPart.isBlockOpen) return writeThinkingBlock(state, block);
    if (openPart.signatureIndex !== undefined)
      return closeSignatureBlock(openPart, block["signature"]);
    openPart.nestedBlocks += 1;
    return writeThinkingBlock({ index: state.index + openPart.nestedBlocks }, block);
  }
  if (block["type"] === "redacted_thinking" && !openPart.isBlockOpen)
    return writeWholeBlock(state, block);
  return (
    openPartBlock(state, openPart) +
    addToBlock(
      state,
      JSON.stringify({ type: "signature_delta", signature: encodeBlob(blob, "messages") }),
    )
  );
}

function endPart(state: WriterState, openPart: OpenPart): string {
  if (!openPart.isBlockOpen) return "";
  const empty = openPart.head.type === "tool_call" && !openPart.hasContent;
  const closing = isCustomCall(openPart) && openPart.hasContent;
  return (
    (closing ? addToBlock(state, `{"type":"input_json_delta","partial_json":"\\"}"}`) : "") +
    (empty ? addToBlock(state, `{"type":"input_json_delta","partial_json":""}`) : "") +
    closePartBlock(state, openPart)
  );
}

function closePartBlock(state: WriterState, openPart: OpenPart): string {
  if (!openPart.isBlockOpen) return "";
  const closed = closeSignatureBlock(openPart) + closeBlock(state);
  state.index += openPart.nestedBlocks;
  openPart.isBlockOpen = false;
  openPart.nestedBlocks = 0;
  return closed;
}

function openPartBlock(state: WriterState, openPart: OpenPart): string {
  if (openPart.isBlockOpen) return "";
  openPart.isBlockOpen = true;
  const { head } = openPart;
  if (head.type === "reasoning") return openBlock(state, EMPTY_THINKING);
  let signatureBlock = "";
  if (head.type === "text" && head.isSignedLater === true) {
    signatureBlock = openBlock(state, EMPTY_THINKING);
    openPart.signatureIndex = state.index++;
  }
  return signatureBlock + openBlock(state, { type: "text", text: "", citations: [] });
}

/** Adds the signature to the thinking block before the text, and ends that block, so that the text ends last. */
function closeSignatureBlock(openPart: OpenPart, signature?: unknown): string {
  const { signatureIndex: index } = openPart;
  if (index === undefined) return "";
  openPart.signatureIndex = undefined;
  const delta = JSON.stringify({ type: "signature_delta", signature });
  return (signature === undefined ? "" : addToBlock({ index }, delta)) + closeBlock({ index });
}

function writeThinkingBlock(state: Indexed, block: ReturnType<typeof writeThinking>): string {
  if (block["type"] !== "thinking") return writeWholeBlock(state, block);
  const opened = openBlock(state, EMPTY_THINKING);
  return (
    opened +
    addToBlock(state, JSON.stringify({ type: "signature_delta", signature: block["signature"] })) +
    closeBlock(state)
  );
}

function writeWholeBlock(state: Indexed, block: unknown): string {
  return openBlock(state, block) + closeBlock(state);
}

function openBlock({ index }: Indexed, block: unknown): string {
  return frame(
    "content_block_start",
    `{"type":"content_block_start","index":${index},"content_block":${JSON.stringify(block)}}`,
  );
}

function addToBlock({ index }: Indexed, delta: string): string {
  return frame(
    "content_block_delta",
    `{"type":"content_block_delta","index":${index},"delta":${delta}}`,
  );
}

function closeBlock(state: Indexed): string {
  return frame("content_block_stop", `{"type":"content_block_stop","index":${state.index++}}`);
}

function frame(name: string, data: string): string {
  return `event: ${name}\ndata: ${data}\n\n`;
}
