// Reasoning and annotations have the same format in a caller's history and in a provider's reply.

import type { Citation, OpaqueBlob, ReasoningPart } from "../../canonical/canonical-parts.ts";
import { decodeBlob } from "../../canonical/reasoning-blobs.ts";
import {
  arrayIn,
  isObject,
  type JsonObject,
  numberIn,
  objectIn,
  stringIn,
} from "../../json-fields.ts";

/** `reasoning_details` has one entry per part: a text or summary, and the blob that the provider expects back. */
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

/** Mistral's content of type `thinking`: a string or an array of texts. */
export function readThinkingList(part: JsonObject): string {
  const { thinking } = part;
  if (typeof thinking === "string") return thinking;
  let text = "";
  for (const one of arrayIn(thinking)) text += stringIn(objectIn(one)?.["text"]) ?? "";
  return text;
}

export function readAnnotation(value: unknown): Citation | undefined {
  if (!isObject(value)) return undefined;
  const citation = objectIn(value["url_citation"]);
  if (value["type"] !== "url_citation" || citation === undefined)
    return { native: { wire: "chat", fields: value } };
  return {
    url: stringIn(citation["url"]),
    title: stringIn(citation["title"]),
    start: numberIn(citation["start_index"]),
    end: numberIn(citation["end_index"]),
  };
}
