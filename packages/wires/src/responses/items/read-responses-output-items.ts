// Items that are both in a reply's output and in a caller's history.

import type {
  Citation,
  ImagePart,
  NativeFields,
  OpaqueBlob,
  ReasoningPart,
} from "../../canonical/canonical-parts.ts";
import { decodeBlob } from "../../canonical/reasoning-blobs.ts";
import {
  arrayIn,
  isObject,
  type JsonObject,
  numberIn,
  objectIn,
  stringIn,
} from "../../json-fields.ts";

/**
 * The parts of a reasoning item: its summaries, then its text, with the blob on the last part. An item with only a blob is
 * one part without text; an empty item has no part.
 */
export function readReasoningItem(item: JsonObject, path?: string): ReasoningPart[] {
  const id = stringIn(item["id"]);
  const parts: ReasoningPart[] = [];
  for (const key of ["summary", "content"] as const) {
    for (const [at, value] of arrayIn(item[key]).entries()) {
      const text = stringIn(objectIn(value)?.["text"]);
      if (!text) continue;
      parts.push({
        type: "reasoning",
        text,
        summary: key === "summary" || undefined,
        id,
        path: path && `${path}.${key}[${at}]`,
      });
    }
  }
  const blob = encryptedBlobOf(item);
  if (blob === undefined) return parts;
  const last = parts.pop() ?? { type: "reasoning", text: "", id, path };
  return [...parts, { ...last, blob }];
}

export function encryptedBlobOf(item: JsonObject): OpaqueBlob | undefined {
  const data = stringIn(item["encrypted_content"]);
  return data ? decodeBlob(data, "responses", "encrypted") : undefined;
}

/** The signature of the next call or image. */
export function signsNextPart(
  blob: OpaqueBlob | undefined,
): blob is OpaqueBlob & { readonly kind: "call" | "image" } {
  return blob?.kind === "call" || blob?.kind === "image";
}

/** A citation that is not a URL citation is native. */
export function readAnnotation(value: unknown): Citation | undefined {
  if (!isObject(value)) return undefined;
  if (value["type"] !== "url_citation") return { native: { wire: "responses", fields: value } };
  return {
    url: stringIn(value["url"]),
    title: stringIn(value["title"]),
    start: numberIn(value["start_index"]),
    end: numberIn(value["end_index"]),
  };
}

export function readAnnotations(value: unknown): readonly Citation[] | undefined {
  const citations = arrayIn(value)
    .map(readAnnotation)
    .filter((one): one is Citation => one !== undefined);
  return citations.length > 0 ? citations : undefined;
}

/** GPT-5 marks the phase of its messages (commentary or final answer) and expects the marks back. */
export function phaseOf(item: JsonObject): NativeFields | undefined {
  const phase = stringIn(item["phase"]);
  return phase === undefined ? undefined : { wire: "responses", fields: { phase } };
}

export const IMAGE_ID_PREFIX = "ig_pst";

/** Images of other APIs' models are written like images of a tool; the id prefix distinguishes them. */
export function generatedImageOf(item: JsonObject): ImagePart | undefined {
  const { id, result } = item;
  if (item["type"] !== "image_generation_call" || typeof result !== "string") return undefined;
  if (typeof id !== "string" || !id.startsWith(IMAGE_ID_PREFIX)) return undefined;
  const mediaType = `image/${stringIn(item["output_format"]) ?? "png"}`;
  return { type: "image", source: { kind: "base64", mediaType, data: result } };
}
