// What tools answered. The provider matches results to calls by id or by place, and knows them by the tool's name.
import type { JsonObject, ToolCallPart, ToolResultPart, Turn } from "../../canonical.ts";
import { nativeFields } from "../../canonical-wire.ts";
import { isMinted } from "./call-ids.ts";
import { writeMedia } from "./write-parts.ts";
import type { TurnWriting } from "./write-turns.ts";

/** The results of one turn, in the order of its calls. */
export function writeResults(
  turn: Turn,
  calls: readonly ToolCallPart[],
  writing: TurnWriting,
): JsonObject[] {
  nativeFields(turn.native, "gemini", turn.path, writing.losses);
  const place = new Map(calls.map((call, at) => [call.id, at]));
  return turn.parts
    .filter((part) => part.type === "tool_result")
    .toSorted((one, other) => (place.get(one.callId) ?? 0) - (place.get(other.callId) ?? 0))
    .map((part) => {
      const call = calls[place.get(part.callId) ?? -1];
      return writeResult(part, part.name ?? call?.name ?? "", part.path ?? "messages", writing);
    });
}

function writeResult(
  part: ToolResultPart,
  name: string,
  at: string,
  writing: TurnWriting,
): JsonObject {
  const texts: string[] = [];
  const parts: JsonObject[] = [];
  for (const [index, one] of part.content.entries()) {
    const path = one.path ?? `${at}.content[${index}]`;
    if (one.type === "text") texts.push(one.text);
    else {
      const held = writeHeld(one, path, writing);
      if (held !== undefined) parts.push(held);
    }
  }
  const said = texts.length > 1 ? texts : (texts[0] ?? "");
  const hasCache =
    part.cache !== undefined ||
    part.content.some((one) => "cache" in one && one.cache !== undefined);
  if (hasCache)
    writing.losses.push({
      path: `${at}.cache_control`,
      why: "This provider caches by itself.",
      byRule: true,
    });
  return {
    functionResponse: {
      id: writing.named && !isMinted(part.callId) ? writing.ids.ofResult(part.callId) : undefined,
      name,
      response: part.isError === true ? { error: said } : { output: said },
      parts: parts.length === 0 ? undefined : parts,
      ...nativeFields(part.native, "gemini", at, writing.losses),
    },
  };
}

type Held = Exclude<ToolResultPart["content"][number], { type: "text" }>;

function writeHeld(part: Held, at: string, writing: TurnWriting): JsonObject | undefined {
  const { losses, target } = writing;
  const media = part.type === "native" ? undefined : writeMedia(part, at, target, losses);
  if (media?.["inlineData"] !== undefined && writing.named)
    return { inlineData: media["inlineData"] };
  if (part.type === "native" || media !== undefined)
    losses.push({
      path: at,
      why:
        part.type === "native"
          ? `This content is of the ${part.wire} API and has no equivalent at this model's provider.`
          : "A tool result holds only text, and from the third generation of models on bytes, at this provider.",
    });
  return undefined;
}
