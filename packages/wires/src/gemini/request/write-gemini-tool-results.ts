// Writes tool results. Gemini matches a result to its call by id, or on older models by order, and requires the tool's name.

import { addLoss, addNativePartLoss, takeNativeFields } from "../../canonical/canonical-losses.ts";
import type { ToolCallPart, ToolResultPart } from "../../canonical/canonical-parts.ts";
import type { Turn } from "../../canonical/canonical-request.ts";
import type { JsonObject } from "../../json-fields.ts";
import { isGenerated } from "../reply/gemini-call-ids.ts";
import { type TurnWriteContext, writeMedia } from "./write-gemini-parts.ts";

/** The results of one turn, in the order of its calls. */
export function writeToolResults(
  turn: Turn,
  calls: readonly ToolCallPart[],
  context: TurnWriteContext,
): JsonObject[] {
  takeNativeFields(turn.native, "gemini", turn.path, context.losses);
  const position = new Map(calls.map((call, at) => [call.id, at]));
  return turn.parts
    .filter((part) => part.type === "tool_result")
    .toSorted((one, other) => (position.get(one.callId) ?? 0) - (position.get(other.callId) ?? 0))
    .map((part) => {
      const call = calls[position.get(part.callId) ?? -1];
      return writeToolResult(part, part.name ?? call?.name ?? "", part.path ?? "messages", context);
    });
}

function writeToolResult(
  part: ToolResultPart,
  name: string,
  at: string,
  context: TurnWriteContext,
): JsonObject {
  const texts: string[] = [];
  const parts: JsonObject[] = [];
  for (const [index, one] of part.content.entries()) {
    const path = one.path ?? `${at}.content[${index}]`;
    if (one.type === "text") texts.push(one.text);
    else {
      const media = writeMediaContent(one, path, context);
      if (media !== undefined) parts.push(media);
    }
  }
  const output = texts.length > 1 ? texts : (texts[0] ?? "");
  const hasCache =
    part.cache !== undefined ||
    part.content.some((one) => "cache" in one && one.cache !== undefined);
  if (hasCache)
    context.losses.push({
      path: `${at}.cache_control`,
      reason: "This provider caches automatically.",
      tolerated: true,
    });
  return {
    functionResponse: {
      id:
        context.hasCallIds && !isGenerated(part.callId)
          ? context.ids.forResult(part.callId)
          : undefined,
      name,
      response: part.isError === true ? { error: output } : { output },
      parts: parts.length === 0 ? undefined : parts,
      ...takeNativeFields(part.native, "gemini", at, context.losses),
    },
  };
}

type MediaContent = Exclude<ToolResultPart["content"][number], { type: "text" }>;

function writeMediaContent(
  part: MediaContent,
  at: string,
  context: TurnWriteContext,
): JsonObject | undefined {
  const { losses, target } = context;
  const media = part.type === "native" ? undefined : writeMedia(part, at, target, losses);
  if (media?.["inlineData"] !== undefined && context.hasCallIds)
    return { inlineData: media["inlineData"] };
  if (part.type === "native") return addNativePartLoss(losses, at, part);
  if (media !== undefined)
    addLoss(
      losses,
      at,
      "This provider supports only text in tool results, and from Gemini 3 on base64 media.",
    );
  return undefined;
}
