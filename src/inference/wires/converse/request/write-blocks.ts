// Content blocks of a request.
import { type JsonObject, parseObject } from "../../../../base/json.ts";
import type {
  Part,
  ReasoningPart,
  ToolCallPart,
  ToolResultPart,
} from "../../../canonical/parts.ts";
import type { CallIds } from "../../../canonical/call-ids.ts";
import { canReplay } from "../../../canonical/reasoning.ts";
import { takeNativeFields } from "../../../canonical/loss.ts";
import { writeCachePoint } from "./write-cache-points.ts";
import { writeMedia, type MediaWriteContext } from "./write-media.ts";

export interface BlockWriteContext extends MediaWriteContext {
  readonly ids: CallIds;
}

/** The blocks that say one part: none with a loss, else one and perhaps a cache mark after it. */
export function writeBlock(
  part: Part,
  at: string,
  context: BlockWriteContext,
): readonly JsonObject[] {
  const block = blockOf(part, at, context);
  if (block === undefined) return [];
  const cache = "cache" in part ? writeCachePoint(part.cache, at, context) : undefined;
  return cache === undefined ? [block] : [block, cache];
}

function blockOf(part: Part, at: string, context: BlockWriteContext): JsonObject | undefined {
  switch (part.type) {
    case "text":
    case "refusal":
      return writeText(part.text, at, context);
    case "image":
    case "file":
    case "audio":
    case "video":
      takeNativeFields(part.native, "converse", at, context.losses);
      return writeMedia(part, at, context);
    case "reasoning":
      return writeReasoning(part, at, context);
    case "tool_call":
      return writeToolUse(part, at, context);
    case "tool_result":
      return writeToolResult(part, at, context);
    case "native":
      if (part.wire === "converse") return part.value;
      return addLoss(
        context,
        at,
        `This content is of the ${part.wire} API and has no equivalent at this model's provider.`,
      );
  }
}

// The provider refuses a text that is empty or white space alone.
function writeText(
  text: string,
  path: string,
  { losses }: BlockWriteContext,
): { readonly text: string } | undefined {
  if (text.trim() !== "") return { text };
  if (text !== "")
    losses.push({
      path,
      reason: "This provider takes no text of white space alone.",
      tolerated: true,
    });
  return undefined;
}

function writeReasoning(
  { text, blob }: ReasoningPart,
  at: string,
  { target, losses }: BlockWriteContext,
): JsonObject | undefined {
  if (blob !== undefined && canReplay(blob, "converse", target))
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
    reason: "Earlier reasoning goes back only to the provider and model that made it.",
    tolerated: true,
  });
  return undefined;
}

function writeToolUse(
  part: ToolCallPart,
  at: string,
  context: BlockWriteContext,
): JsonObject | undefined {
  if (part.custom === true)
    return addLoss(context, at, "This provider has no tools with free text for input.");
  const input = parseObject(part.arguments);
  if (input === undefined)
    return addLoss(context, at, "The arguments of a tool call must be a JSON object.");
  if (part.signature !== undefined)
    context.losses.push({
      path: at,
      reason: "A call's signature goes back only to the provider and model that made it.",
      tolerated: true,
    });
  return {
    toolUse: {
      toolUseId: context.ids.forCall(part.id),
      name: part.name,
      input,
      ...takeNativeFields(part.native, "converse", at, context.losses),
    },
  };
}

// A cache mark within a result has no place of its own: it moves behind the result.
function writeToolResult(part: ToolResultPart, at: string, context: BlockWriteContext): JsonObject {
  const content = part.content.flatMap((one, index) => {
    const path = one.path ?? `${at}.content[${index}]`;
    const block = blockOf(one, path, context);
    if ("cache" in one && one.cache !== undefined)
      context.losses.push({
        path: `${path}.cache_control`,
        reason: "At this provider a cache mark stands behind a tool result, not within.",
        tolerated: true,
      });
    return block === undefined ? [] : [block];
  });
  return {
    toolResult: {
      toolUseId: context.ids.forResult(part.callId),
      content,
      ...(part.isError === true ? { status: "error" } : undefined),
      ...takeNativeFields(part.native, "converse", at, context.losses),
    },
  };
}

function addLoss({ losses }: BlockWriteContext, path: string, reason: string): undefined {
  losses.push({ path, reason });
  return undefined;
}
