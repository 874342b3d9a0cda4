// This API announces every item, every part of it and the end of each, and repeats at every end all that was said. One
// item is open at a time: parts that begin before the open one ends wait, as events, until it does. An item ends when
// another begins, because parts of one kind share it.
import type {
  Blob,
  CanonicalEvent,
  Finish,
  JsonObject,
  Loss,
  NativePart,
  PartHead,
  UsageReport,
} from "../../canonical.ts";
import { sealBlob } from "../../canonical-reasoning.ts";
import { losePart } from "../../canonical-wire.ts";
import type { ReplyWriteContext, StreamWriter } from "../../canonical-wire.ts";
import { errorBody, failedError } from "./map-error.ts";
import {
  beginPart,
  beginThought,
  closeItem,
  createOutput,
  endPart,
  frame,
  openCall,
  openPart,
  sayLogprobs,
  sayText,
  wholeItem,
} from "./stream-output.ts";
import type { Output, OutputSlot } from "./stream-output.ts";
import { callHere } from "./namespaces.ts";
import { IMAGE_ID } from "./read-output.ts";
import { writeAnnotation, writeLogprobs } from "./write-output.ts";
import { idBase, imageItem, refusalOf, signatureItem } from "./write-reply.ts";
import { writeResponse } from "./write-response.ts";
import type { ReplyHead } from "./write-response.ts";

type PartEvent = Extract<CanonicalEvent, { part: number }>;

interface ShownPart {
  readonly part: number;
  readonly head: PartHead;
}

interface Writing {
  readonly context: ReplyWriteContext;
  readonly losses: Loss[];
  readonly waiting: Map<number, PartEvent[]>;
  readonly output: Output;
  head: ReplyHead | undefined;
  shown: ShownPart | undefined;
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
    output: createOutput(idBase(context.id)),
    head: undefined,
    shown: undefined,
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
      return event.choice === 0 ? begin(writing, undefined) + finish(writing, event.finish) : "";
    case "usage":
      writing.usage = event.report;
      return "";
    case "error":
      return fail(writing, event);
    case "part_start":
    case "delta":
    case "blob":
    case "citation":
    case "part_end":
      return begin(writing, undefined) + pushPart(writing, event);
  }
}

function begin(writing: Writing, head: ReplyHead | undefined): string {
  if (writing.started) return "";
  writing.started = true;
  writing.head = head;
  writing.output.base = idBase(head?.id ?? writing.context.id);
  const response = `"response":${responseText(writeResponse(head, writing.context, undefined), [])}`;
  return (
    frame(writing.output, "response.created", response) +
    frame(writing.output, "response.in_progress", response)
  );
}

function finish(writing: Writing, reason: Finish): string {
  writing.finish = reason;
  const told = refusalOf({ parts: [], finish: reason });
  if (writing.refused || told.length === 0) return "";
  writing.refused = true;
  let out = "";
  for (const { text } of told)
    out +=
      openPart(writing.output, "refusal") + sayText(writing.output, text) + endPart(writing.output);
  return out;
}

function end(writing: Writing): string {
  const { context, output, refused, usage } = writing;
  const begun = begin(writing, undefined);
  const response = writeResponse(writing.head, context, {
    finish: writing.finish ?? { reason: "error" },
    refusal: refused,
    usage,
  });
  const status = String(response["status"]);
  const closed = closeItem(output, status === "completed" ? "completed" : "incomplete");
  const text = responseText(response, output.done);
  return begun + closed + frame(output, `response.${status}`, `"response":${text}`);
}

function fail(writing: Writing, { error }: Extract<CanonicalEvent, { type: "error" }>): string {
  writing.failed = true;
  const { message, code, param, ...rest } = errorBody(error);
  if (!writing.started) {
    const said = { code, message, param, error: { ...rest, code, message, param } };
    return frame(writing.output, "error", JSON.stringify(said).slice(1, -1));
  }
  const response = {
    ...writeResponse(writing.head, writing.context, {
      finish: { reason: "error" },
      refusal: false,
      usage: writing.usage,
    }),
    error: failedError(error),
  };
  return frame(
    writing.output,
    "response.failed",
    `"response":${responseText(response, writing.output.done)}`,
  );
}

function responseText(response: JsonObject, items: readonly string[]): string {
  return `${JSON.stringify(response).slice(0, -1)},"output":[${items.join(",")}]}`;
}

function pushPart(writing: Writing, event: PartEvent): string {
  const { shown, waiting, losses } = writing;
  if (event.choice !== 0) {
    if (event.type === "part_start")
      losses.push({ path: `choices[${event.choice}]`, why: "This API has one output a reply." });
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
  if (event.type === "part_start") {
    writing.shown = { part: event.part, head: event.head };
    return startPart(writing, event.head);
  }
  const { shown, output } = writing;
  if (shown === undefined) return "";
  const { head } = shown;
  switch (event.type) {
    case "delta":
      if (head.type === "whole") return "";
      return (
        (head.type === "tool_call" ? "" : openPart(output, slotOf(head))) +
        (event.logprobs === undefined
          ? sayText(output, event.text)
          : sayLogprobs(output, event.text, writeLogprobs(event.logprobs)))
      );
    case "blob":
      return writeBlob(writing, head, event);
    case "citation":
      return cite(writing, event);
    case "part_end":
      writing.shown = undefined;
      return endPart(output) + showNext(writing);
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

function slotOf(head: PartHead): OutputSlot {
  if (head.type === "reasoning") return head.summary === true ? "summary" : "thought";
  return head.type === "refusal" ? "refusal" : "text";
}

function startPart(writing: Writing, head: PartHead): string {
  const { output, losses } = writing;
  switch (head.type) {
    case "text":
      return beginPart(output);
    case "refusal":
      writing.refused = true;
      return beginPart(output);
    case "reasoning":
      return beginThought(output, head);
    case "tool_call": {
      const call = callHere(writing.context.request.tools, head);
      return writeProof(output, head.signature) + openCall(output, call);
    }
    case "whole": {
      const { value } = head;
      if (value.type === "native") return writeNative(output, value, losses);
      const image = imageItem(value, "");
      if (image !== undefined)
        return (
          writeProof(output, value.type === "image" ? value.signature : undefined) +
          wholeItem(output, IMAGE_ID, (id) => ({ ...image, id }))
        );
      losePart(losses, nextPlace(output), value);
      return "";
    }
  }
}

function writeProof(output: Output, signature: Blob | undefined): string {
  return signature === undefined
    ? ""
    : wholeItem(output, "rs", (id) => signatureItem(id, sealBlob(signature, "responses")));
}

function nextPlace({ done, item }: Output): string {
  return `output[${done.length + (item === undefined ? 0 : 1)}]`;
}

function writeNative(output: Output, part: NativePart, losses: Loss[]): string {
  if (part.wire === "responses") return wholeItem(output, "item", () => part.value);
  losePart(losses, nextPlace(output), part);
  return "";
}

// What proves a text has no field here: its message ends, and a reasoning item that shows nothing follows.
function writeBlob(
  { output }: Writing,
  head: PartHead,
  { blob }: Extract<PartEvent, { type: "blob" }>,
): string {
  const sealed = sealBlob(blob, "responses");
  if (head.type === "reasoning") {
    if (output.item?.kind === "reasoning") output.item.blob = sealed;
    return "";
  }
  return endPart(output) + wholeItem(output, "rs", (id) => signatureItem(id, sealed));
}

function cite(writing: Writing, { citation }: Extract<PartEvent, { type: "citation" }>): string {
  const { output, losses } = writing;
  const opened = openPart(output, "text");
  const part = output.part;
  const annotation = part && writeAnnotation(citation, part.length);
  if (annotation === undefined) {
    const path = `output[${output.done.length}].annotations`;
    losses.push({ path, why: "This API cites only by address." });
    return opened;
  }
  const at = part === undefined ? 0 : part.annotations.push(annotation) - 1;
  const said = `"content_index":${part?.index ?? 0},"annotation_index":${at},"annotation":${JSON.stringify(annotation)}`;
  return (
    opened +
    frame(output, "response.output_text.annotation.added", `${output.item?.place ?? ""},${said}`)
  );
}
