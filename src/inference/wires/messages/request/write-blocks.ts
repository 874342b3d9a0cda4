// Content blocks of a request.
import type {
  CacheBreakpoint,
  FilePart,
  ImagePart,
  Part,
  ReasoningPart,
  Source,
  ToolCallPart,
  ToolResultPart,
  TextPart,
} from "../../../canonical/parts.ts";
import { type Loss, takeNativeFields } from "../../../canonical/loss.ts";
import { type JsonObject, parseObject } from "../../../../base/json.ts";
import type { CallIds } from "../../../canonical/call-ids.ts";
import { addSignatureLoss, canReplay } from "../../../canonical/reasoning.ts";
import type { Target } from "../../../canonical/wire.ts";

const IMAGE_TYPES: ReadonlySet<string> = new Set([
  "image/jpeg",
  "image/png",
  "image/gif",
  "image/webp",
]);

export interface BlockWriteContext {
  readonly target: Target;
  readonly losses: Loss[];
  readonly ids: CallIds;
}

/** The blocks that say one part: none with a loss, else one. */
export function writeBlock(
  part: Part,
  at: string,
  context: BlockWriteContext,
): readonly JsonObject[] {
  const { losses } = context;
  const block = blockOf(part, at, context);
  if (block === undefined) return [];
  const cache = "cache" in part ? writeCache(part.cache, at, losses) : undefined;
  return [cache === undefined ? block : { ...block, cache_control: cache }];
}

function blockOf(part: Part, at: string, context: BlockWriteContext): JsonObject | undefined {
  switch (part.type) {
    case "text":
      return writeText(part, at, context);
    case "refusal":
      return {
        type: "text",
        text: part.text,
        ...takeNativeFields(part.native, "messages", at, context.losses),
      };
    case "reasoning":
      return writeReasoning(part, at, context);
    case "tool_call":
      return writeToolUse(part, at, context);
    case "tool_result":
      return writeToolResult(part, at, context);
    case "image":
      return writeImage(part, at, context);
    case "file":
      return writeDocument(part, at, context);
    case "native":
      if (part.wire === "messages") return part.value;
      return addLoss(
        context,
        at,
        `This content is of the ${part.wire} API and has no equivalent at this model's provider.`,
      );
    case "audio":
    case "video":
      return addLoss(context, at, `This provider takes no ${part.type}.`);
  }
}

export function writeCache(
  cache: CacheBreakpoint | undefined,
  at: string,
  losses: Loss[],
): JsonObject | undefined {
  if (cache === undefined) return undefined;
  const { ttl } = cache;
  if (ttl !== "30m" && ttl !== "12h")
    return ttl === undefined ? { type: "ephemeral" } : { type: "ephemeral", ttl };
  losses.push({
    path: at === "" ? "cache_control.ttl" : `${at}.cache_control.ttl`,
    reason: `This provider keeps a cache for 5m or 1h, not ${ttl}; its default holds.`,
    tolerated: true,
  });
  return { type: "ephemeral" };
}

// Citations of other APIs point into nothing that this provider has seen; the text that they stand in is kept.
function writeText(
  part: TextPart,
  at: string,
  { losses }: BlockWriteContext,
): JsonObject | undefined {
  const { text, citations = [], signature } = part;
  const own = citations
    .filter((one) => one.native?.wire === "messages")
    .map((one) => one.native?.fields);
  if (own.length < citations.length)
    losses.push({
      path: `${at}.citations`,
      reason: "This provider does not take another's citations.",
      tolerated: true,
    });
  if (signature !== undefined)
    losses.push({
      path: at,
      reason: "A signature goes back only to the provider and model that made it.",
      tolerated: true,
    });
  const extra = takeNativeFields(part.native, "messages", at, losses);
  if (text === "") return undefined;
  return { type: "text", text, ...(own.length > 0 ? { citations: own } : undefined), ...extra };
}

function addLoss({ losses }: BlockWriteContext, path: string, reason: string): undefined {
  losses.push({ path, reason });
  return undefined;
}

function writeReasoning(
  part: ReasoningPart,
  at: string,
  { target, losses }: BlockWriteContext,
): JsonObject | undefined {
  const { blob } = part;
  if (blob === undefined || !canReplay(blob, "messages", target)) {
    losses.push({
      path: at,
      reason: "Earlier reasoning goes back only to the provider and model that made it.",
      tolerated: true,
    });
    return undefined;
  }
  return blob.kind === "encrypted"
    ? { type: "redacted_thinking", data: blob.data }
    : { type: "thinking", thinking: part.text, signature: blob.data };
}

function writeToolUse(
  part: ToolCallPart,
  at: string,
  context: BlockWriteContext,
): JsonObject | undefined {
  const input = parseObject(part.arguments);
  if (part.custom === true)
    return addLoss(context, at, "This provider has no tools with free text for input.");
  if (input === undefined)
    return addLoss(context, at, "The arguments of a tool call must be a JSON object.");
  if (part.signature !== undefined)
    context.losses.push({
      path: at,
      reason: "A call's signature goes back only to the provider and model that made it.",
      tolerated: true,
    });
  return {
    type: "tool_use",
    id: context.ids.forCall(part.id),
    name: part.name,
    input,
    ...takeNativeFields(part.native, "messages", at, context.losses),
  };
}

function writeToolResult(part: ToolResultPart, at: string, context: BlockWriteContext): JsonObject {
  const blocks = part.content.flatMap((one, index) => [
    ...writeBlock(one, one.path ?? `${at}.content[${index}]`, context),
  ]);
  const [only] = blocks;
  const plain =
    blocks.length === 1 && only?.["type"] === "text" && only["cache_control"] === undefined;
  return {
    type: "tool_result",
    tool_use_id: context.ids.forResult(part.callId),
    ...(only === undefined ? undefined : { content: plain ? only["text"] : blocks }),
    ...(part.isError === true ? { is_error: true } : undefined),
    ...takeNativeFields(part.native, "messages", at, context.losses),
  };
}

function writeImage(
  part: ImagePart,
  at: string,
  context: BlockWriteContext,
): JsonObject | undefined {
  const { source, detail } = part;
  const extra = takeNativeFields(part.native, "messages", at, context.losses);
  if (source.kind === "base64" && !IMAGE_TYPES.has(source.mediaType)) {
    return addLoss(
      context,
      at,
      `This provider takes images of ${[...IMAGE_TYPES].join(", ")}, not ${source.mediaType}.`,
    );
  }
  const written =
    source.kind === "base64"
      ? { type: "base64", media_type: source.mediaType, data: source.data }
      : writeRemoteSource(source, context);
  if (written === undefined)
    return addLoss(
      context,
      at,
      "This provider does not take the image from there. Send its bytes.",
    );
  addSignatureLoss(context.losses, at, part.signature);
  if (detail !== undefined && detail !== "auto")
    context.losses.push({
      path: `${at}.detail`,
      reason: "This provider has no detail for images.",
      tolerated: true,
    });
  return { type: "image", source: written, ...extra };
}

function writeDocument(
  part: FilePart,
  at: string,
  writing: BlockWriteContext,
): JsonObject | undefined {
  const source = documentSource(part.source, writing);
  if (source === undefined)
    return addLoss(
      writing,
      at,
      "This provider takes PDF and plain text documents: as bytes, or by an https: address.",
    );
  return {
    type: "document",
    source,
    ...(part.name === undefined ? undefined : { title: part.name }),
    ...(part.context === undefined ? undefined : { context: part.context }),
    ...(part.citable === true ? { citations: { enabled: true } } : undefined),
    ...takeNativeFields(part.native, "messages", at, writing.losses),
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
