// Content blocks of a request.

import {
  addLoss,
  addNativePartLoss,
  addToleratedLoss,
  type Loss,
  takeNativeFields,
} from "../../canonical/canonical-losses.ts";
import type {
  CacheBreakpoint,
  FilePart,
  ImagePart,
  Part,
  ReasoningPart,
  Source,
  TextPart,
  ToolCallPart,
  ToolResultPart,
} from "../../canonical/canonical-parts.ts";
import { COMMON_IMAGE_TYPES } from "../../canonical/media-sources.ts";
import { addReasoningLoss, addSignatureLoss, canReplay } from "../../canonical/reasoning-blobs.ts";
import type { CallIds } from "../../canonical/tools/call-ids.ts";
import type { Target } from "../../canonical/wire-interfaces.ts";
import type { JsonObject } from "../../json-fields.ts";
import { checkToolInput } from "../../tool-checks.ts";

export interface BlockWriteContext {
  readonly target: Target;
  readonly losses: Loss[];
  readonly ids: CallIds;
}

/** The block of a part, or none with a loss. */
export function writeBlock(
  part: Part,
  path: string,
  context: BlockWriteContext,
): readonly JsonObject[] {
  const { losses } = context;
  const block = blockOf(part, path, context);
  if (block === undefined) return [];
  const cache = "cache" in part ? writeCache(part.cache, path, losses) : undefined;
  return [cache === undefined ? block : { ...block, cache_control: cache }];
}

function blockOf(part: Part, path: string, context: BlockWriteContext): JsonObject | undefined {
  switch (part.type) {
    case "text":
      return writeText(part, path, context);
    case "refusal":
      return {
        type: "text",
        text: part.text,
        ...takeNativeFields(part.native, "messages", path, context.losses),
      };
    case "reasoning":
      return writeReasoning(part, path, context);
    case "tool_call":
      return writeToolUse(part, path, context);
    case "tool_result":
      return writeToolResult(part, path, context);
    case "image":
      return writeImage(part, path, context);
    case "file":
      return writeDocument(part, path, context);
    case "native":
      return part.wire === "messages" ? part.value : addNativePartLoss(context.losses, path, part);
    case "audio":
    case "video":
      return addLoss(context.losses, path, `This provider does not support ${part.type} input.`);
  }
}

export function writeCache(
  cache: CacheBreakpoint | undefined,
  path: string,
  losses: Loss[],
): JsonObject | undefined {
  if (cache === undefined) return undefined;
  const { ttl } = cache;
  if (ttl !== "30m" && ttl !== "12h")
    return ttl === undefined ? { type: "ephemeral" } : { type: "ephemeral", ttl };
  const reason = `This provider does not support a cache TTL of ${ttl}; its default applies.`;
  addToleratedLoss(losses, `${path === "" ? "" : `${path}.`}cache_control.ttl`, reason);
  return { type: "ephemeral" };
}

// Citations of other APIs refer to sources that this provider does not have; the cited text is kept.
function writeText(
  part: TextPart,
  path: string,
  { losses }: BlockWriteContext,
): JsonObject | undefined {
  const { text, citations = [], signature } = part;
  // Without this reference, it cites a search that another provider ran.
  const own = citations
    .filter(({ native }) => native?.wire === "messages" && native.fields["encrypted_index"] !== "")
    .map((one) => one.native?.fields);
  if (own.length < citations.length)
    addToleratedLoss(
      losses,
      `${path}.citations`,
      "This provider does not accept citations of other providers.",
    );
  addSignatureLoss(losses, path, signature);
  const extra = takeNativeFields(part.native, "messages", path, losses);
  if (text === "") return undefined;
  return { type: "text", text, ...(own.length > 0 ? { citations: own } : undefined), ...extra };
}

function writeReasoning(
  part: ReasoningPart,
  path: string,
  { target, losses }: BlockWriteContext,
): JsonObject | undefined {
  const { blob } = part;
  if (blob === undefined || !canReplay(blob, "messages", target))
    return addReasoningLoss(losses, path);
  return blob.kind === "encrypted"
    ? { type: "redacted_thinking", data: blob.data }
    : { type: "thinking", thinking: part.text, signature: blob.data };
}

function writeToolUse(
  part: ToolCallPart,
  path: string,
  context: BlockWriteContext,
): JsonObject | undefined {
  const input = checkToolInput(part, path, context.losses);
  if (input === undefined) return undefined;
  addSignatureLoss(context.losses, path, part.signature);
  return {
    type: "tool_use",
    id: context.ids.forCall(part.id),
    name: part.name,
    input,
    ...takeNativeFields(part.native, "messages", path, context.losses),
  };
}

function writeToolResult(
  part: ToolResultPart,
  path: string,
  context: BlockWriteContext,
): JsonObject {
  const blocks = part.content.flatMap((one, index) => [
    ...writeBlock(one, one.path ?? `${path}.content[${index}]`, context),
  ]);
  const [only] = blocks;
  const plain =
    blocks.length === 1 && only?.["type"] === "text" && only["cache_control"] === undefined;
  return {
    type: "tool_result",
    tool_use_id: context.ids.forResult(part.callId),
    ...(only === undefined ? undefined : { content: plain ? only["text"] : blocks }),
    ...(part.isError === true ? { is_error: true } : undefined),
    ...takeNativeFields(part.native, "messages", path, context.losses),
  };
}

function writeImage(
  part: ImagePart,
  path: string,
  context: BlockWriteContext,
): JsonObject | undefined {
  const { source, detail } = part;
  const extra = takeNativeFields(part.native, "messages", path, context.losses);
  if (source.kind === "base64" && !COMMON_IMAGE_TYPES.has(source.mediaType)) {
    return addLoss(
      context.losses,
      path,
      `This provider accepts images only in these formats: ${[...COMMON_IMAGE_TYPES].join(", ")}.`,
    );
  }
  const written =
    source.kind === "base64"
      ? { type: "base64", media_type: source.mediaType, data: source.data }
      : writeRemoteSource(source, context);
  if (written === undefined)
    return addLoss(
      context.losses,
      path,
      "This provider cannot fetch the image from its source. Send the content as base64.",
    );
  addSignatureLoss(context.losses, path, part.signature);
  if (detail !== undefined && detail !== "auto")
    addToleratedLoss(
      context.losses,
      `${path}.detail`,
      "This provider does not support an image detail level.",
    );
  return { type: "image", source: written, ...extra };
}

function writeDocument(
  part: FilePart,
  path: string,
  context: BlockWriteContext,
): JsonObject | undefined {
  const source = documentSource(part.source, context);
  if (source === undefined)
    return addLoss(
      context.losses,
      path,
      "This provider accepts only PDF and plain text documents, as base64 or an `https:` URL.",
    );
  return {
    type: "document",
    source,
    ...(part.name === undefined ? undefined : { title: part.name }),
    ...(part.context === undefined ? undefined : { context: part.context }),
    ...(part.citable === true ? { citations: { enabled: true } } : undefined),
    ...takeNativeFields(part.native, "messages", path, context.losses),
  };
}

function documentSource(source: Source, context: BlockWriteContext): JsonObject | undefined {
  if (source.kind === "text") return { type: "text", media_type: "text/plain", data: source.text };
  if (source.kind !== "base64") return writeRemoteSource(source, context);
  if (source.mediaType === "application/pdf")
    return { type: "base64", media_type: source.mediaType, data: source.data };
  return source.mediaType.startsWith("text/")
    ? {
        type: "text",
        media_type: "text/plain",
        data: Buffer.from(source.data, "base64").toString(),
      }
    : undefined;
}

function writeRemoteSource(source: Source, { target }: BlockWriteContext): JsonObject | undefined {
  if (
    source.kind === "url" &&
    target.abilities?.urlSources !== false &&
    /^https?:/i.test(source.url)
  )
    return { type: "url", url: source.url };
  return source.kind === "file_id" && source.wire === "messages"
    ? { type: "file", file_id: source.id }
    : undefined;
}
