// Content blocks of a request.
import type {
  JsonObject,
  Part,
  ReasoningPart,
  ToolCallPart,
  ToolResultPart,
} from "../../canonical.ts";
import type { CallIds } from "../../canonical-call-ids.ts";
import { parseObject } from "../../canonical-json.ts";
import { mayReplay } from "../../canonical-reasoning.ts";
import { nativeFields } from "../../canonical-wire.ts";
import { writeCache } from "./write-cache.ts";
import { writeMedia } from "./write-media.ts";
import type { MediaWriting } from "./write-media.ts";

export interface BlockWriting extends MediaWriting {
  readonly ids: CallIds;
}

/** The blocks that say one part: none with a loss, else one and perhaps a cache mark after it. */
export function writeBlock(part: Part, at: string, writing: BlockWriting): readonly JsonObject[] {
  const block = blockOf(part, at, writing);
  if (block === undefined) return [];
  const cache = "cache" in part ? writeCache(part.cache, at, writing) : undefined;
  return cache === undefined ? [block] : [block, cache];
}

function blockOf(part: Part, at: string, writing: BlockWriting): JsonObject | undefined {
  switch (part.type) {
    case "text":
    case "refusal":
      return writeText(part.text, at, writing);
    case "image":
    case "file":
    case "audio":
    case "video":
      nativeFields(part.native, "converse", at, writing.losses);
      return writeMedia(part, at, writing);
    case "reasoning":
      return writeReasoning(part, at, writing);
    case "tool_call":
      return writeUse(part, at, writing);
    case "tool_result":
      return writeResult(part, at, writing);
    case "native":
      if (part.wire === "converse") return part.value;
      return lose(
        writing,
        at,
        `This content is of the ${part.wire} API and has no equivalent at this model's provider.`,
      );
  }
}

// The provider refuses a text that is empty or white space alone.
function writeText(
  text: string,
  path: string,
  { losses }: BlockWriting,
): { readonly text: string } | undefined {
  if (text.trim() !== "") return { text };
  if (text !== "")
    losses.push({ path, why: "This provider takes no text of white space alone.", byRule: true });
  return undefined;
}

function writeReasoning(
  { text, blob }: ReasoningPart,
  at: string,
  { target, losses }: BlockWriting,
): JsonObject | undefined {
  if (blob !== undefined && mayReplay(blob, "converse", target))
    return {
      reasoningContent:
        blob.kind === "encrypted"
          ? { redactedContent: blob.data }
          : { reasoningText: { text, signature: blob.data } },
    };
  if (blob === undefined && text !== "" && target.abilities?.reasoningField !== undefined)
    return { reasoningContent: { reasoningText: { text } } };
  losses.push({
    path: at,
    why: "Earlier reasoning goes back only to the provider and model that made it.",
    byRule: true,
  });
  return undefined;
}

function writeUse(part: ToolCallPart, at: string, writing: BlockWriting): JsonObject | undefined {
  if (part.custom === true)
    return lose(writing, at, "This provider has no tools with free text for input.");
  const input = parseObject(part.arguments);
  if (input === undefined)
    return lose(writing, at, "The arguments of a tool call must be a JSON object.");
  if (part.signature !== undefined)
    writing.losses.push({
      path: at,
      why: "A call's signature goes back only to the provider and model that made it.",
      byRule: true,
    });
  return {
    toolUse: {
      toolUseId: writing.ids.ofCall(part.id),
      name: part.name,
      input,
      ...nativeFields(part.native, "converse", at, writing.losses),
    },
  };
}

// A cache mark within a result has no place of its own: it moves behind the result.
function writeResult(part: ToolResultPart, at: string, writing: BlockWriting): JsonObject {
  const content = part.content.flatMap((one, index) => {
    const path = one.path ?? `${at}.content[${index}]`;
    const block = blockOf(one, path, writing);
    if ("cache" in one && one.cache !== undefined)
      writing.losses.push({
        path: `${path}.cache_control`,
        why: "At this provider a cache mark stands behind a tool result, not within.",
        byRule: true,
      });
    return block === undefined ? [] : [block];
  });
  return {
    toolResult: {
      toolUseId: writing.ids.ofResult(part.callId),
      content,
      ...(part.isError === true ? { status: "error" } : undefined),
      ...nativeFields(part.native, "converse", at, writing.losses),
    },
  };
}

function lose({ losses }: BlockWriting, path: string, why: string): undefined {
  losses.push({ path, why });
  return undefined;
}
