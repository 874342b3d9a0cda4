import type {
  Blob,
  CanonicalReply,
  Choice,
  JsonObject,
  Loss,
  Part,
  ReasoningPart,
  RefusalPart,
  TextPart,
  Tool,
  ToolCallPart,
} from "../../canonical.ts";
import { sealBlob } from "../../canonical-reasoning.ts";
import { losePart } from "../../canonical-wire.ts";
import type { ReplyWriteContext, WrittenReply } from "../../canonical-wire.ts";
import { callHere } from "./namespaces.ts";
import { IMAGE_ID } from "./read-output.ts";
import { joinsReasoning, reasoningItem, writeAnnotation, writeLogprobs } from "./write-output.ts";
import { writeResponse } from "./write-response.ts";

export function writeReply(reply: CanonicalReply, context: ReplyWriteContext): WrittenReply {
  const losses: Loss[] = [];
  const [choice = { parts: [], finish: { reason: "error" } }, ...others] = reply.choices;
  if (others.length > 0)
    losses.push({ path: "choices[1]", why: "This API has one output a reply." });
  const parts = [...choice.parts, ...refusalOf(choice)];
  const refusal = parts.some((part) => part.type === "refusal");
  const base = idBase(reply.id ?? context.id);
  const output = writeOutput(parts, base, context.request.tools, losses);
  const head = writeResponse(reply, context, {
    finish: choice.finish,
    refusal,
    usage: reply.usage,
  });
  if (head["status"] !== "completed") markCut(output);
  return { body: { ...head, output }, losses };
}

/** A provider's explanation of a refusal is shown where this API shows refusals. */
export function refusalOf({ parts, finish }: Choice): readonly RefusalPart[] {
  const { reason, detail } = finish;
  if (reason !== "refusal" || !detail || parts.some((part) => part.type === "refusal")) return [];
  return [{ type: "refusal", text: detail }];
}

/** What the ids of items are made of that have none of their own. */
export function idBase(id: string): string {
  return id.replaceAll(/[^A-Za-z0-9]/g, "").slice(-32);
}

type Item = Record<string, unknown>;

interface Writing {
  readonly output: Item[];
  readonly base: string;
  readonly tools: readonly Tool[] | undefined;
  readonly losses: Loss[];
  /** What the message that the last part belongs to holds. */
  content: JsonObject[] | undefined;
  /** The reasoning parts of the item that the last part belongs to. */
  thoughts: ReasoningPart[];
}

function writeOutput(
  parts: readonly Part[],
  base: string,
  tools: readonly Tool[] | undefined,
  losses: Loss[],
): Item[] {
  const writing: Writing = { output: [], base, tools, losses, content: undefined, thoughts: [] };
  for (const part of parts) {
    if (part.type !== "text" && part.type !== "refusal") writing.content = undefined;
    if (part.type !== "reasoning") writing.thoughts = [];
    pushPart(writing, part);
  }
  return writing.output;
}

function pushPart(writing: Writing, part: Part): void {
  const { output, losses } = writing;
  const path = `output[${output.length}]`;
  switch (part.type) {
    case "text":
    case "refusal":
      return pushSaid(writing, part);
    case "reasoning":
      return pushThought(writing, part);
    case "tool_call":
      pushSignature(writing, part.signature);
      output.push(
        callItem(
          callHere(writing.tools, part),
          mintId(writing, part.custom === true ? "ctc" : "fc"),
          part.arguments,
          "completed",
        ),
      );
      return;
    case "native":
      if (part.wire === "responses") output.push({ ...part.value });
      else losePart(losses, path, part);
      return;
    case "image":
    case "file":
    case "audio":
    case "video": {
      const item = imageItem(part, "");
      if (item === undefined) losePart(losses, path, part);
      else {
        if (part.type === "image") pushSignature(writing, part.signature);
        output.push({ ...item, id: mintId(writing, IMAGE_ID) });
      }
      return;
    }
    case "tool_result":
      losePart(losses, path, part);
  }
}

function mintId({ output, base }: Writing, prefix: string): string {
  return `${prefix}_${base}_${output.length}`;
}

function pushSaid(writing: Writing, part: TextPart | RefusalPart): void {
  if (writing.content === undefined) {
    writing.content = [];
    writing.output.push(messageItem(mintId(writing, "msg"), writing.content, "completed"));
  }
  const path = `output[${writing.output.length - 1}]`;
  writing.content.push(writeSaid(part, path, writing.losses));
  if (part.type !== "text" || part.signature === undefined) return;
  pushSignature(writing, part.signature);
  writing.content = undefined;
}

function pushSignature(writing: Writing, signature: Blob | undefined): void {
  if (signature !== undefined)
    writing.output.push(signatureItem(mintId(writing, "rs"), sealBlob(signature, "responses")));
}

function pushThought(writing: Writing, part: ReasoningPart): void {
  const { output, thoughts } = writing;
  const before = thoughts.at(-1);
  if (before !== undefined && joinsReasoning(before, part)) {
    thoughts.push(part);
    output.pop();
  } else writing.thoughts = [part];
  const sealed = part.blob && sealBlob(part.blob, "responses");
  // Some providers give one id to several items; clients tell items apart by it.
  const taken = part.id !== undefined && output.some((item) => item["id"] === part.id);
  const id = taken ? undefined : part.id;
  output.push({
    id: id ?? mintId(writing, "rs"),
    type: "reasoning",
    ...reasoningItem(writing.thoughts, sealed),
  });
}

function writeSaid(part: TextPart | RefusalPart, path: string, losses: Loss[]): JsonObject {
  if (part.type === "refusal") return { type: "refusal", refusal: part.text };
  const annotations: JsonObject[] = [];
  for (const citation of part.citations ?? []) {
    const written = writeAnnotation(citation, part.text.length);
    if (written !== undefined) annotations.push(written);
    else losses.push({ path: `${path}.annotations`, why: "This API cites only by address." });
  }
  return textPart(part.text, annotations, writeLogprobs(part.logprobs));
}

export function textPart(
  text: string,
  annotations: readonly JsonObject[],
  logprobs: readonly JsonObject[],
): JsonObject {
  return { type: "output_text", text, annotations, logprobs };
}

export function messageItem(id: string, content: readonly JsonObject[], status: string): Item {
  return { id, type: "message", status, role: "assistant", content };
}

/** An image is shown as one that a tool has made: that is where clients of this API look for images. */
export function imageItem(part: Part, id: string): Item | undefined {
  if (part.type !== "image" || part.source.kind !== "base64") return undefined;
  const { mediaType, data } = part.source;
  const format = mediaType.replace("image/", "");
  return {
    id,
    type: "image_generation_call",
    status: "completed",
    result: data,
    output_format: format,
  };
}

/** What proves a call, an image or a text, as a reasoning item that shows nothing. */
export function signatureItem(id: string, sealed: string): Item {
  return { id, type: "reasoning", summary: [], encrypted_content: sealed };
}

export function callItem(
  call: Pick<ToolCallPart, "id" | "name" | "custom" | "native">,
  id: string,
  said: string,
  status: string,
): Item {
  const own = call.native?.wire === "responses" ? call.native.fields : undefined;
  const { id: callId, name } = call;
  return call.custom === true
    ? { id, type: "custom_tool_call", status, call_id: callId, name, input: said, ...own }
    : { id, type: "function_call", status, call_id: callId, name, arguments: said, ...own };
}

// Where a reply was cut, its last item is what was cut.
function markCut(output: Item[]): void {
  const last = output.at(-1);
  if (
    last?.["status"] === "completed" &&
    ["message", "function_call", "custom_tool_call"].includes(String(last["type"]))
  )
    last["status"] = "incomplete";
}
