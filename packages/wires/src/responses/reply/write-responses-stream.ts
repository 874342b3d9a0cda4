// This API has events for the start and end of each item and part, and repeats the full content at each end. One item is
// open at a time; it ends when another begins, because consecutive parts of one kind share an item.

import type { CanonicalEvent, PartHead } from "../../canonical/canonical-events.ts";
import { addLoss, addPartLoss, type Loss } from "../../canonical/canonical-losses.ts";
import type { NativePart, OpaqueBlob } from "../../canonical/canonical-parts.ts";
import type { Finish, UsageReport } from "../../canonical/canonical-reply.ts";
import { encodeBlob } from "../../canonical/reasoning-blobs.ts";
import type { ReplyWriteContext, WireStreamWriter } from "../../canonical/wire-interfaces.ts";
import { failedResponseError, errorObject, responsesErrorFields } from "../../error-object.ts";
import type { JsonObject } from "../../json-fields.ts";
import { createPartSequencer, createWriter, type PartEvent } from "../../stream-writer.ts";
import { IMAGE_ID_PREFIX } from "../items/read-responses-output-items.ts";
import { toNamespacedCall } from "../items/responses-namespaces.ts";
import { writeAnnotation, writeLogprobs } from "../items/write-responses-output-items.ts";
import { idBase, imageItem, refusalParts, signatureItem } from "./write-responses-reply.ts";
import { type ReplyHead, writeResponse } from "./write-responses-response-object.ts";
import {
  beginPart,
  beginReasoning,
  closeItem,
  createOutputState,
  endPart,
  frame,
  openCall,
  openPart,
  type OutputSlot,
  type OutputState,
  writeLogprobsDelta,
  writeText,
  writeWholeItem,
} from "./write-responses-stream-items.ts";

interface WriterState {
  readonly context: ReplyWriteContext;
  readonly losses: Loss[];
  readonly writePart: (event: PartEvent) => string;
  readonly output: OutputState;
  head: ReplyHead | undefined;
  openPart: PartHead | undefined;
  started: boolean;
  hasRefusal: boolean;
  finish: Finish | undefined;
  usage: UsageReport | undefined;
}

export function createStreamWriter(context: ReplyWriteContext): WireStreamWriter {
  const losses: Loss[] = [];
  const state: WriterState = {
    context,
    losses,
    writePart: createPartSequencer(losses, (event) => writePartEvent(state, event)),
    output: createOutputState(idBase(context.id)),
    head: undefined,
    openPart: undefined,
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
      return event.choice === 0 ? begin(state, undefined) + finish(state, event.finish) : "";
    case "usage":
      state.usage = event.report;
      return "";
    case "error":
      return fail(state, event);
    case "part_start":
    case "delta":
    case "blob":
    case "citation":
    case "part_end":
      return begin(state, undefined) + state.writePart(event);
  }
}

function begin(state: WriterState, head: ReplyHead | undefined): string {
  if (state.started) return "";
  state.started = true;
  state.head = head;
  state.output.idBase = idBase(head?.id ?? state.context.id);
  const response = `"response":${serializeResponse(writeResponse(head, state.context, undefined), [])}`;
  return (
    frame(state.output, "response.created", response) +
    frame(state.output, "response.in_progress", response)
  );
}

function finish(state: WriterState, reason: Finish): string {
  state.finish = reason;
  const refusals = refusalParts({ parts: [], finish: reason });
  if (state.hasRefusal || refusals.length === 0) return "";
  state.hasRefusal = true;
  let out = "";
  for (const { text } of refusals)
    out +=
      openPart(state.output, "refusal") + writeText(state.output, text) + endPart(state.output);
  return out;
}

function end(state: WriterState): string {
  const { context, output, hasRefusal, usage } = state;
  const begun = begin(state, undefined);
  const response = writeResponse(state.head, context, {
    finish: state.finish ?? { reason: "error" },
    hasRefusal: hasRefusal,
    usage,
  });
  const status = String(response["status"]);
  const closed = closeItem(output, status === "completed" ? "completed" : "incomplete");
  const text = serializeResponse(response, output.finishedItems);
  return begun + closed + frame(output, `response.${status}`, `"response":${text}`);
}

function fail(state: WriterState, { error }: Extract<CanonicalEvent, { type: "error" }>): string {
  const body = errorObject(error);
  if (!state.started)
    return frame(state.output, "error", JSON.stringify(responsesErrorFields(body)).slice(1, -1));
  const response = {
    ...writeResponse(state.head, state.context, {
      finish: { reason: "error" },
      hasRefusal: false,
      usage: state.usage,
    }),
    error: failedResponseError(body),
  };
  return frame(
    state.output,
    "response.failed",
    `"response":${serializeResponse(response, state.output.finishedItems)}`,
  );
}

function serializeResponse(response: JsonObject, items: readonly string[]): string {
  return `${JSON.stringify(response).slice(0, -1)},"output":[${items.join(",")}]}`;
}

function writePartEvent(state: WriterState, event: PartEvent): string {
  if (event.type === "part_start") {
    state.openPart = event.head;
    return startPart(state, event.head);
  }
  const { openPart: head, output } = state;
  if (head === undefined) return "";
  switch (event.type) {
    case "delta":
      if (head.type === "whole") return "";
      return (
        (head.type === "tool_call" ? "" : openPart(output, slotOf(head))) +
        (event.logprobs === undefined
          ? writeText(output, event.text)
          : writeLogprobsDelta(output, event.text, writeLogprobs(event.logprobs)))
      );
    case "blob":
      return writeBlob(state, head, event);
    case "citation":
      return writeCitation(state, event);
    case "part_end":
      state.openPart = undefined;
      return endPart(output);
  }
}

function slotOf(head: PartHead): OutputSlot {
  if (head.type === "reasoning") return head.summary === true ? "summary" : "thought";
  return head.type === "refusal" ? "refusal" : "text";
}

function startPart(state: WriterState, head: PartHead): string {
  const { output, losses } = state;
  switch (head.type) {
    case "text":
      return beginPart(output);
    case "refusal":
      state.hasRefusal = true;
      return beginPart(output);
    case "reasoning":
      return beginReasoning(output, head);
    case "tool_call": {
      const call = toNamespacedCall(state.context.request.tools, head);
      return writeSignature(output, head.signature) + openCall(output, call);
    }
    case "whole": {
      const { value } = head;
      if (value.type === "native") return writeNative(output, value, losses);
      const image = imageItem(value, "");
      if (image !== undefined)
        return (
          writeSignature(output, value.type === "image" ? value.signature : undefined) +
          writeWholeItem(output, IMAGE_ID_PREFIX, (id) => ({ ...image, id }))
        );
      addPartLoss(losses, nextOutputIndex(output), value);
      return "";
    }
  }
}

function writeSignature(output: OutputState, signature: OpaqueBlob | undefined): string {
  return signature === undefined
    ? ""
    : writeWholeItem(output, "rs", (id) => signatureItem(id, encodeBlob(signature, "responses")));
}

function nextOutputIndex({ finishedItems, item }: OutputState): string {
  return `output[${finishedItems.length + (item === undefined ? 0 : 1)}]`;
}

function writeNative(output: OutputState, part: NativePart, losses: Loss[]): string {
  if (part.wire === "responses") return writeWholeItem(output, "item", () => part.value);
  addPartLoss(losses, nextOutputIndex(output), part);
  return "";
}

// A text's signature has no field here: its message ends, and a reasoning item without text follows.
function writeBlob(
  { output }: WriterState,
  head: PartHead,
  { blob }: Extract<PartEvent, { type: "blob" }>,
): string {
  const encoded = encodeBlob(blob, "responses");
  if (head.type === "reasoning") {
    if (output.item?.kind === "reasoning") output.item.blob = encoded;
    return "";
  }
  return endPart(output) + writeWholeItem(output, "rs", (id) => signatureItem(id, encoded));
}

function writeCitation(
  state: WriterState,
  { citation }: Extract<PartEvent, { type: "citation" }>,
): string {
  const { output, losses } = state;
  const opened = openPart(output, "text");
  const part = output.part;
  const annotation = part && writeAnnotation(citation, part.length);
  if (annotation === undefined) {
    const path = `output[${output.finishedItems.length}].annotations`;
    addLoss(losses, path, "This API supports only URL citations.");
    return opened;
  }
  const at = part === undefined ? 0 : part.annotations.push(annotation) - 1;
  const fields = `"content_index":${part?.index ?? 0},"annotation_index":${at},"annotation":${JSON.stringify(annotation)}`;
  return (
    opened +
    frame(
      output,
      "response.output_text.annotation.added",
      `${output.item?.eventFields ?? ""},${fields}`,
    )
  );
}
