import { addPartLoss, type Loss } from "../../canonical/canonical-losses.ts";
import type {
  Citation,
  ImagePart,
  MediaPart,
  Part,
  ReasoningPart,
  TextPart,
  TokenLogprob,
  ToolCallPart,
} from "../../canonical/canonical-parts.ts";
import type { CanonicalReply, Choice } from "../../canonical/canonical-reply.ts";
import { encodeBlob } from "../../canonical/reasoning-blobs.ts";
import type { ReplyWriteContext, WrittenReply } from "../../canonical/wire-interfaces.ts";
import type { JsonObject } from "../../json-fields.ts";
import { openaiServiceTier } from "../../openai-tiers.ts";
import { writeFinish } from "./map-chat-finish-reason.ts";
import { writeUsage } from "./map-chat-usage.ts";

export function writeReply(reply: CanonicalReply, context: ReplyWriteContext): WrittenReply {
  const losses: Loss[] = [];
  const body = {
    id: reply.id ?? context.id,
    object: "chat.completion",
    created: reply.createdSeconds ?? context.createdSeconds,
    model: reply.model ?? context.model,
    choices: reply.choices.map((choice, index) => writeChoice(choice, index, context, losses)),
    usage: reply.usage && writeUsage(reply.usage),
    service_tier: openaiServiceTier(reply.serviceTier),
  };
  return { body, losses };
}

interface MessageFields {
  text: string | undefined;
  refusal: string | undefined;
  audio: JsonObject | undefined;
  readonly images: JsonObject[];
  readonly reasoning: ReasoningPart[];
  readonly calls: ToolCallPart[];
  readonly annotations: JsonObject[];
  readonly logprobs: TokenLogprob[];
  readonly refusalLogprobs: TokenLogprob[];
}

function writeChoice(
  choice: Choice,
  index: number,
  context: ReplyWriteContext,
  losses: Loss[],
): JsonObject {
  const fields: MessageFields = {
    text: undefined,
    refusal: undefined,
    audio: undefined,
    images: [],
    reasoning: [],
    calls: [],
    annotations: [],
    logprobs: [],
    refusalLogprobs: [],
  };
  for (const [at, part] of choice.parts.entries())
    collectPart(fields, part, `choices[${index}].message.content[${at}]`, losses);
  const { text, reasoning, calls, logprobs, refusalLogprobs } = fields;
  const refusal =
    fields.refusal ?? (choice.finish.reason === "refusal" ? choice.finish.detail : undefined);
  const usesLegacyFunctions = context.request.legacyFunctions === true;
  const [firstCall] = calls;
  const reasoningTexts = reasoning.map((part) => part.text).filter((one) => one !== "");
  const reasoningText = reasoningTexts.join("\n\n");
  const message = {
    role: "assistant",
    content: text ?? null,
    refusal: refusal ?? null,
    annotations: fields.annotations.length > 0 ? fields.annotations : undefined,
    audio: fields.audio,
    images: fields.images.length > 0 ? fields.images : undefined,
    reasoning_content: reasoningText === "" ? undefined : reasoningText,
    reasoning_details: needsDetails(reasoning) ? reasoning.map(writeReasoningDetail) : undefined,
    tool_calls: calls.length === 0 || usesLegacyFunctions ? undefined : calls.map(writeCall),
    function_call:
      usesLegacyFunctions && firstCall !== undefined
        ? { name: firstCall.name, arguments: firstCall.arguments }
        : undefined,
  };
  const hasLogprobs = logprobs.length + refusalLogprobs.length > 0;
  return {
    index,
    message,
    logprobs: hasLogprobs
      ? {
          content: writeLogprobs(logprobs),
          refusal: refusalLogprobs.length > 0 ? writeLogprobs(refusalLogprobs) : null,
        }
      : null,
    ...writeFinish(choice.finish, {
      hasRefusal: fields.refusal !== undefined,
      usesLegacyFunctions,
    }),
  };
}

function collectPart(fields: MessageFields, part: Part, path: string, losses: Loss[]): void {
  switch (part.type) {
    case "text":
      collectText(fields, part, path, losses);
      break;
    case "refusal":
      fields.refusal = (fields.refusal ?? "") + part.text;
      fields.refusalLogprobs.push(...(part.logprobs ?? []));
      break;
    case "reasoning":
      fields.reasoning.push(part);
      break;
    case "tool_call":
      fields.calls.push(part);
      break;
    case "audio":
      fields.audio = writeAudio(part);
      break;
    case "image": {
      const image = writeImage(part);
      if (image === undefined) addPartLoss(losses, path, part);
      else fields.images.push(image);
      break;
    }
    case "file":
    case "video":
    case "native":
    case "tool_result":
      addPartLoss(losses, path, part);
  }
}

/** A generated image, in OpenRouter's format, which clients of this API support. */
export function writeImage({ source, signature }: ImagePart): JsonObject | undefined {
  const url =
    source.kind === "base64"
      ? `data:${source.mediaType};base64,${source.data}`
      : source.kind === "url"
        ? source.url
        : undefined;
  return url === undefined
    ? undefined
    : { type: "image_url", image_url: { url }, ...writeSignature({ signature }) };
}

export function writeAudio({ id = "", transcript = "", source }: MediaPart): JsonObject {
  return { id, data: source.kind === "base64" ? source.data : "", transcript, expires_at: 0 };
}

function collectText(fields: MessageFields, part: TextPart, path: string, losses: Loss[]): void {
  const before = fields.text ?? "";
  for (const citation of part.citations ?? []) {
    const annotation = writeAnnotation(citation, before.length, part.text.length);
    if (annotation !== undefined) fields.annotations.push(annotation);
    else
      losses.push({ path: `${path}.citations`, reason: "This API supports only URL citations." });
  }
  fields.text = before + part.text;
  // A text's signature has no field: it is written as reasoning without text.
  if (part.signature !== undefined)
    fields.reasoning.push({ type: "reasoning", text: "", blob: part.signature });
  fields.logprobs.push(...(part.logprobs ?? []));
}

/** `offset` is the start of the cited text in the whole content. */
export function writeAnnotation(
  citation: Citation,
  offset: number,
  length: number,
): JsonObject | undefined {
  const { url, title, start = 0, end = length, native } = citation;
  if (native?.wire === "chat") return native.fields;
  if (url === undefined) return undefined;
  return {
    type: "url_citation",
    url_citation: { url, title: title ?? "", start_index: offset + start, end_index: offset + end },
  };
}

function needsDetails(parts: readonly ReasoningPart[]): boolean {
  return parts.length > 1 || parts.some((part) => part.blob !== undefined || part.summary === true);
}

export function writeReasoningDetail(
  { text, summary, id, blob }: ReasoningPart,
  index: number,
): JsonObject {
  const encoded = blob && encodeBlob(blob, "chat");
  const data = blob?.kind === "encrypted" ? { data: encoded } : { signature: encoded };
  if (summary === true) return { type: "reasoning.summary", summary: text, id, index, ...data };
  if (text === "" && blob?.kind === "encrypted")
    return { type: "reasoning.encrypted", id, index, ...data };
  return { type: "reasoning.text", text, id, index, ...data };
}

function writeCall(call: ToolCallPart): JsonObject {
  if (call.custom === true)
    return { id: call.id, type: "custom", custom: { name: call.name, input: call.arguments } };
  return {
    id: call.id,
    type: "function",
    function: { name: call.name, arguments: call.arguments },
    ...writeSignature(call),
  };
}

export function writeSignature({
  signature,
}: Pick<ToolCallPart, "signature">): JsonObject | undefined {
  return (
    signature && { extra_content: { google: { thought_signature: encodeBlob(signature, "chat") } } }
  );
}

export function writeLogprobs(list: readonly TokenLogprob[]): readonly JsonObject[] {
  return list.map(({ token, logprob, bytes, top }) => ({
    token,
    logprob,
    bytes: bytes ?? null,
    top_logprobs: top === undefined ? [] : writeLogprobs(top),
  }));
}
