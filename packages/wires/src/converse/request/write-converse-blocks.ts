// Writes a request's content blocks.

import { addNativePartLoss, takeNativeFields } from "../../canonical/canonical-losses.ts";
import type {
  Part,
  ReasoningPart,
  ToolCallPart,
  ToolResultPart,
} from "../../canonical/canonical-parts.ts";
import { addReasoningLoss, addSignatureLoss, canReplay } from "../../canonical/reasoning-blobs.ts";
import type { CallIds } from "../../canonical/tools/call-ids.ts";
import type { JsonObject } from "../../json-fields.ts";
import { checkToolInput } from "../../tool-checks.ts";
import { takesEarlierReasoning } from "./converse-model-family.ts";
import { writeCachePoint } from "./write-converse-cache-points.ts";
import { type MediaWriteContext, writeMedia } from "./write-converse-media.ts";

export interface BlockWriteContext extends MediaWriteContext {
  readonly ids: CallIds;
}

/** The blocks of one part: none if it cannot be expressed (a loss), else one, with a cache point after it if marked. */
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
      return part.wire === "converse" ? part.value : addNativePartLoss(context.losses, at, part);
  }
}

// The provider rejects text that is empty or only whitespace.
function writeText(
  text: string,
  path: string,
  { losses }: BlockWriteContext,
): { readonly text: string } | undefined {
  if (text.trim() !== "") return { text };
  if (text !== "")
    losses.push({
      path,
      reason: "This provider rejects text that contains only whitespace.",
      tolerated: true,
    });
  return undefined;
}

function writeReasoning(
  { text, blob }: ReasoningPart,
  at: string,
  { target, losses }: BlockWriteContext,
): JsonObject | undefined {
  const isTaken = blob !== undefined && takesEarlierReasoning(target);
  if (isTaken && canReplay(blob, "converse", target))
    return {
      reasoningContent:
        blob.kind === "encrypted"
          ? { redactedContent: blob.data }
          : { reasoningText: { text, signature: blob.data } },
    };
  if (blob === undefined && text !== "" && target.abilities?.reasoningField !== undefined)
    return { reasoningContent: { reasoningText: { text } } };
  return addReasoningLoss(losses, at);
}

function writeToolUse(
  part: ToolCallPart,
  at: string,
  context: BlockWriteContext,
): JsonObject | undefined {
  const input = checkToolInput(part, at, context.losses);
  if (input === undefined) return undefined;
  addSignatureLoss(context.losses, at, part.signature);
  return {
    toolUse: {
      toolUseId: context.ids.forCall(part.id),
      name: part.name,
      input,
      ...takeNativeFields(part.native, "converse", at, context.losses),
    },
  };
}

// Converse has no cache point inside a tool result: the breakpoint moves after the result.
function writeToolResult(part: ToolResultPart, at: string, context: BlockWriteContext): JsonObject {
  const content = part.content.flatMap((one, index) => {
    const path = one.path ?? `${at}.content[${index}]`;
    const block = blockOf(one, path, context);
    if ("cache" in one && one.cache !== undefined)
      context.losses.push({
        path: `${path}.cache_control`,
        reason: "This provider accepts a cache breakpoint only after a tool result, not inside it.",
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
