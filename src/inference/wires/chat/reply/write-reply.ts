import type { CanonicalReply, Choice } from "../../../canonical/reply.ts";
import type {
  Citation,
  ImagePart,
  MediaPart,
  Part,
  ReasoningPart,
  TextPart,
  TokenLogprob,
  ToolCallPart,
} from "../../../canonical/parts.ts";
import { type Loss, addPartLoss } from "../../../canonical/loss.ts";
import type { JsonObject } from "../../../../base/json.ts";
import { encodeBlob } from "../../../canonical/reasoning.ts";
import type { ReplyWriteContext, WrittenReply } from "../../../canonical/wire.ts";
import { openaiServiceTier } from "../../openai-tiers.ts";
import { writeFinish } from "./map-finish-reason.ts";
import { writeUsage } from "./map-usage.ts";

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
  const sorted: MessageFields = {
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
    collectPart(sorted, part, `choices[${index}].message.content[${at}]`, losses);
  const { text, reasoning, calls, logprobs, refusalLogprobs } = sorted;
  const refusal =
    sorted.refusal ?? (choice.finish.reason === "refusal" ? choice.finish.detail : undefined);
  const usesLegacyFunctions = context.request.legacyFunctions === true;
  const [firstCall] = calls;
  const thoughts = reasoning.map((part) => part.text).filter((one) => one !== "");
  const thought = thoughts.join("\n\n");
  const message = {
    role: "assistant",
    content: text ?? null,
    refusal: refusal ?? null,
    annotations: sorted.annotations.length > 0 ? sorted.annotations : undefined,
    audio: sorted.audio,
    images: sorted.images.length > 0 ? sorted.images : undefined,
    reasoning_content: thought === "" ? undefined : thought,
    reasoning_details: needsDetails(reasoning) ? reasoning.map(writeReasoningDetail) : undefined,
    tool_calls: calls.length === 0 || usesLegacyFunctions ? undefined : calls.map(writeCall),
    function_call:
      usesLegacyFunctions && firstCall !== undefined
        ? { name: firstCall.name, arguments: firstCall.arguments }
        : undefined,
  };
  const probabilities = logprobs.length + refusalLogprobs.length > 0;
  return {
    index,
    message,
    logprobs: probabilities
      ? {
          content: writeLogprobs(logprobs),
          refusal: refusalLogprobs.length > 0 ? writeLogprobs(refusalLogprobs) : null,
        }
      : null,
    ...writeFinish(choice.finish, {
      hasRefusal: sorted.refusal !== undefined,
      usesLegacyFunctions,
    }),
  };
}

function collectPart(sorted: MessageFields, part: Part, at: string, losses: Loss[]): void {
  switch (part.type) {
    case "text":
      collectText(sorted, part, at, losses);
      break;
    case "refusal":
      sorted.refusal = (sorted.refusal ?? "") + part.text;
      sorted.refusalLogprobs.push(...(part.logprobs ?? []));
      break;
    case "reasoning":
      sorted.reasoning.push(part);
      break;
    case "tool_call":
      sorted.calls.push(part);
      break;
    case "audio":
      sorted.audio = writeAudio(part);
      break;
    case "image": {
      const image = writeImage(part);
      if (image === undefined) addPartLoss(losses, at, part);
      else sorted.images.push(image);
      break;
    }
    case "file":
    case "video":
    case "native":
    case "tool_result":
      addPartLoss(losses, at, part);
  }
}

/** An image that the model made, where clients of this API look for one since OpenRouter put it there. */
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

/** Sound that the model made. */
export function writeAudio({ id = "", transcript = "", source }: MediaPart): JsonObject {
  return { id, data: source.kind === "base64" ? source.data : "", transcript, expires_at: 0 };
}

function collectText(sorted: MessageFields, part: TextPart, at: string, losses: Loss[]): void {
  const before = sorted.text ?? "";
  for (const citation of part.citations ?? []) {
    const annotation = writeAnnotation(citation, before.length, part.text.length);
    if (annotation !== undefined) sorted.annotations.push(annotation);
    else losses.push({ path: `${at}.citations`, reason: "This API cites only by address." });
  }
  sorted.text = before + part.text;
  // A text has no field for what proves it: it travels as reasoning that shows nothing.
  if (part.signature !== undefined)
    sorted.reasoning.push({ type: "reasoning", text: "", blob: part.signature });
  sorted.logprobs.push(...(part.logprobs ?? []));
}

/** A citation over the whole content, in which the cited text begins at `offset`. */
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
  const sealed = blob && encodeBlob(blob, "chat");
  const held = blob?.kind === "encrypted" ? { data: sealed } : { signature: sealed };
  if (summary === true) return { type: "reasoning.summary", summary: text, id, index, ...held };
  if (text === "" && blob?.kind === "encrypted")
    return { type: "reasoning.encrypted", id, index, ...held };
  return { type: "reasoning.text", text, id, index, ...held };
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
