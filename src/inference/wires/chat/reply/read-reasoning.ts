// Reasoning and annotations have the same form in a caller's history and in a provider's reply.
import type { OpaqueBlob, Citation, ReasoningPart } from "../../../canonical/parts.ts";
import {
  type JsonObject,
  arrayIn,
  isObject,
  numberIn,
  objectIn,
  stringIn,
} from "../../../../base/json.ts";
import { decodeBlob } from "../../../canonical/reasoning.ts";

/** The convention of `reasoning_details`: an entry a part, with text or summary, and with what its maker wants back. */
export function readReasoningDetails(details: readonly unknown[], path?: string): ReasoningPart[] {
  const parts: ReasoningPart[] = [];
  for (const [at, value] of details.entries()) {
    if (!isObject(value)) continue;
    const text = stringIn(value["text"]) ?? stringIn(value["summary"]) ?? "";
    const blob = detailBlob(value);
    if (text === "" && blob === undefined) continue;
    parts.push({
      type: "reasoning",
      text,
      summary: value["type"] === "reasoning.summary" || undefined,
      id: stringIn(value["id"]),
      blob,
      path: path && `${path}[${at}]`,
    });
  }
  return parts;
}

export function detailBlob(detail: JsonObject): OpaqueBlob | undefined {
  const signature = stringIn(detail["signature"]);
  if (signature) return decodeBlob(signature, "chat", "signature");
  const data = stringIn(detail["data"]);
  return data ? decodeBlob(data, "chat", "encrypted") : undefined;
}

/** Mistral's content of type `thinking`: a string, or a list of texts. */
export function readThinkingList(part: JsonObject): string {
  const held = part["thinking"];
  if (typeof held === "string") return held;
  let text = "";
  for (const one of arrayIn(held)) text += stringIn(objectIn(one)?.["text"]) ?? "";
  return text;
}

export function readAnnotation(value: unknown): Citation | undefined {
  if (!isObject(value)) return undefined;
  const held = objectIn(value["url_citation"]);
  if (value["type"] !== "url_citation" || held === undefined)
    return { native: { wire: "chat", fields: value } };
  return {
    url: stringIn(held["url"]),
    title: stringIn(held["title"]),
    start: numberIn(held["start_index"]),
    end: numberIn(held["end_index"]),
  };
}
