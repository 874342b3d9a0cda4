// Content blocks of a request.
import type {
  CacheMark,
  FilePart,
  ImagePart,
  JsonObject,
  Loss,
  Part,
  ReasoningPart,
  Source,
  ToolCallPart,
  ToolResultPart,
  TextPart,
} from "../../canonical.ts";
import type { CallIds } from "../../canonical-call-ids.ts";
import { parseObject } from "../../canonical-json.ts";
import { loseSignature, mayReplay } from "../../canonical-reasoning.ts";
import { nativeFields } from "../../canonical-wire.ts";
import type { Target } from "../../canonical-wire.ts";

const IMAGE_TYPES: ReadonlySet<string> = new Set([
  "image/jpeg",
  "image/png",
  "image/gif",
  "image/webp",
]);

export interface BlockWriting {
  readonly target: Target;
  readonly losses: Loss[];
  readonly ids: CallIds;
}

/** The blocks that say one part: none with a loss, else one. */
export function writeBlock(part: Part, at: string, writing: BlockWriting): readonly JsonObject[] {
  const { losses } = writing;
  const block = blockOf(part, at, writing);
  if (block === undefined) return [];
  const cache = "cache" in part ? writeCache(part.cache, at, losses) : undefined;
  return [cache === undefined ? block : { ...block, cache_control: cache }];
}

function blockOf(part: Part, at: string, writing: BlockWriting): JsonObject | undefined {
  switch (part.type) {
    case "text":
      return writeText(part, at, writing);
    case "refusal":
      return {
        type: "text",
        text: part.text,
        ...nativeFields(part.native, "messages", at, writing.losses),
      };
    case "reasoning":
      return writeReasoning(part, at, writing);
    case "tool_call":
      return writeUse(part, at, writing);
    case "tool_result":
      return writeResult(part, at, writing);
    case "image":
      return writeImage(part, at, writing);
    case "file":
      return writeDocument(part, at, writing);
    case "native":
      if (part.wire === "messages") return part.value;
      return lose(
        writing,
        at,
        `This content is of the ${part.wire} API and has no equivalent at this model's provider.`,
      );
    case "audio":
    case "video":
      return lose(writing, at, `This provider takes no ${part.type}.`);
  }
}

export function writeCache(
  cache: CacheMark | undefined,
  at: string,
  losses: Loss[],
): JsonObject | undefined {
  if (cache === undefined) return undefined;
  const { ttl } = cache;
  if (ttl !== "30m" && ttl !== "12h")
    return ttl === undefined ? { type: "ephemeral" } : { type: "ephemeral", ttl };
  losses.push({
    path: at === "" ? "cache_control.ttl" : `${at}.cache_control.ttl`,
    why: `This provider keeps a cache for 5m or 1h, not ${ttl}; its default holds.`,
    byRule: true,
  });
  return { type: "ephemeral" };
}

// Citations of other APIs point into nothing that this provider has seen; the text that they stand in is kept.
function writeText(part: TextPart, at: string, { losses }: BlockWriting): JsonObject | undefined {
  const { text, citations = [], signature } = part;
  const own = citations
    .filter((one) => one.native?.wire === "messages")
    .map((one) => one.native?.fields);
  if (own.length < citations.length)
    losses.push({
      path: `${at}.citations`,
      why: "This provider does not take another's citations.",
      byRule: true,
    });
  if (signature !== undefined)
    losses.push({
      path: at,
      why: "A signature goes back only to the provider and model that made it.",
      byRule: true,
    });
  const extra = nativeFields(part.native, "messages", at, losses);
  if (text === "") return undefined;
  return { type: "text", text, ...(own.length > 0 ? { citations: own } : undefined), ...extra };
}

function lose({ losses }: BlockWriting, path: string, why: string): undefined {
  losses.push({ path, why });
  return undefined;
}

function writeReasoning(
  part: ReasoningPart,
  at: string,
  { target, losses }: BlockWriting,
): JsonObject | undefined {
  const { blob } = part;
  if (blob === undefined || !mayReplay(blob, "messages", target)) {
    losses.push({
      path: at,
      why: "Earlier reasoning goes back only to the provider and model that made it.",
      byRule: true,
    });
    return undefined;
  }
  return blob.kind === "encrypted"
    ? { type: "redacted_thinking", data: blob.data }
    : { type: "thinking", thinking: part.text, signature: blob.data };
}

function writeUse(part: ToolCallPart, at: string, writing: BlockWriting): JsonObject | undefined {
  const input = parseObject(part.arguments);
  if (part.custom === true)
    return lose(writing, at, "This provider has no tools with free text for input.");
  if (input === undefined)
    return lose(writing, at, "The arguments of a tool call must be a JSON object.");
  if (part.signature !== undefined)
    writing.losses.push({
      path: at,
      why: "A call's signature goes back only to the provider and model that made it.",
      byRule: true,
    });
  return {
    type: "tool_use",
    id: writing.ids.ofCall(part.id),
    name: part.name,
    input,
    ...nativeFields(part.native, "messages", at, writing.losses),
  };
}

function writeResult(part: ToolResultPart, at: string, writing: BlockWriting): JsonObject {
  const blocks = part.content.flatMap((one, index) => [
    ...writeBlock(one, one.path ?? `${at}.content[${index}]`, writing),
  ]);
  const [only] = blocks;
  const plain =
    blocks.length === 1 && only?.["type"] === "text" && only["cache_control"] === undefined;
  return {
    type: "tool_result",
    tool_use_id: writing.ids.ofResult(part.callId),
    ...(only === undefined ? undefined : { content: plain ? only["text"] : blocks }),
    ...(part.isError === true ? { is_error: true } : undefined),
    ...nativeFields(part.native, "messages", at, writing.losses),
  };
}

function writeImage(part: ImagePart, at: string, writing: BlockWriting): JsonObject | undefined {
  const { source, detail } = part;
  const extra = nativeFields(part.native, "messages", at, writing.losses);
  if (source.kind === "base64" && !IMAGE_TYPES.has(source.mediaType)) {
    return lose(
      writing,
      at,
      `This provider takes images of ${[...IMAGE_TYPES].join(", ")}, not ${source.mediaType}.`,
    );
  }
  const written =
    source.kind === "base64"
      ? { type: "base64", media_type: source.mediaType, data: source.data }
      : writeElsewhere(source, writing);
  if (written === undefined)
    return lose(writing, at, "This provider does not take the image from there. Send its bytes.");
  loseSignature(writing.losses, at, part.signature);
  if (detail !== undefined && detail !== "auto")
    writing.losses.push({
      path: `${at}.detail`,
      why: "This provider has no detail for images.",
      byRule: true,
    });
  return { type: "image", source: written, ...extra };
}

function writeDocument(part: FilePart, at: string, writing: BlockWriting): JsonObject | undefined {
  const source = documentSource(part.source, writing);
  if (source === undefined)
    return lose(
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
    ...nativeFields(part.native, "messages", at, writing.losses),
  };
}

function documentSource(source: Source, writing: BlockWriting): JsonObject | undefined {
  if (source.kind === "text") return { type: "text", media_type: "text/plain", data: source.text };
  if (source.kind !== "base64") return writeElsewhere(source, writing);
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

function writeElsewhere(source: Source, { target }: BlockWriting): JsonObject | undefined {
  if (source.kind === "url" && target.abilities?.urls !== false && /^https?:/i.test(source.url))
    return { type: "url", url: source.url };
  return source.kind === "file_id" && source.wire === "messages"
    ? { type: "file", file_id: source.id }
    : undefined;
}
