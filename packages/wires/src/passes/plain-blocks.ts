// Blocks of Anthropic's API that contain plain text, for other providers: results of searches, and summaries of compactions.

import { addHintLoss } from "../canonical/canonical-losses.ts";
import type { Part } from "../canonical/canonical-parts.ts";
import type { CanonicalRequest } from "../canonical/canonical-request.ts";
import { isObject, type JsonObject } from "../json-fields.ts";
import type { ChangedRequest, StepContext } from "./translation-step.ts";

const REASON = "This provider has no such block; its text is sent.";

export function blocksAsText(
  request: CanonicalRequest,
  { losses }: Pick<StepContext, "losses">,
): ChangedRequest {
  const isPlain = (part: Part): boolean => textOf(part) !== undefined;
  if (!request.turns.some(({ parts }) => parts.some(isPlain))) return { request };
  const turns = request.turns.map((turn) =>
    Object.assign({}, turn, {
      parts: turn.parts.map((part): Part => {
        const text = textOf(part);
        if (text === undefined) return part;
        addHintLoss(losses, part.path ?? "messages", REASON);
        return { type: "text", text, path: part.path };
      }),
    }),
  );
  return { request: { ...request, turns } };
}

function textOf(part: Part): string | undefined {
  if (part.type !== "native" || part.wire !== "messages") return undefined;
  const { type, content } = part.value;
  // The encrypted form of a compaction has no text.
  if (type === "compaction")
    return typeof content === "string" && content !== "" ? content : undefined;
  return type === "search_result" ? searchText(part.value) : undefined;
}

function searchText({ source, title, content }: JsonObject): string | undefined {
  if (!Array.isArray(content)) return undefined;
  const texts = content.map((one: unknown) =>
    isObject(one) && one["type"] === "text" && typeof one["text"] === "string"
      ? one["text"]
      : undefined,
  );
  if (texts.includes(undefined)) return undefined;
  const head = [title, source].filter((one) => typeof one === "string" && one !== "");
  return [...head, ...texts].join("\n");
}
