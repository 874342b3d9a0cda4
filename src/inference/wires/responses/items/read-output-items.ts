// What stands in a reply's output, and in a caller's history, where replies come back.
import type {
  OpaqueBlob,
  Citation,
  ImagePart,
  NativeFields,
  ReasoningPart,
} from "../../../canonical/parts.ts";
import {
  type JsonObject,
  arrayIn,
  isObject,
  numberIn,
  objectIn,
  stringIn,
} from "../../../../base/json.ts";
import { decodeBlob } from "../../../canonical/reasoning.ts";

/**
 * A reasoning item as parts: its summaries, then its text, the blob on the last. An item of a blob alone is one part
 * without text; one that holds nothing is none.
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

/** Whether it proves what comes next, which is a call or an image. */
export function signsNextPart(
  blob: OpaqueBlob | undefined,
): blob is OpaqueBlob & { readonly kind: "call" | "image" } {
  return blob?.kind === "call" || blob?.kind === "image";
}

/** A citation's own fields beyond address, title and place are kept; what is no address is kept whole. */
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

/** GPT-5 marks what it says on the way and what it says in the end, and wants the marks back. */
export function phaseOf(item: JsonObject): NativeFields | undefined {
  const phase = stringIn(item["phase"]);
  return phase === undefined ? undefined : { wire: "responses", fields: { phase } };
}

export const IMAGE_ID_PREFIX = "ig_pst";

/** An image that another API's model made stands among the output as if a tool had; its id tells it from those. */
export function generatedImageOf(item: JsonObject): ImagePart | undefined {
  const { id, result } = item;
  if (item["type"] !== "image_generation_call" || typeof result !== "string") return undefined;
  if (typeof id !== "string" || !id.startsWith(IMAGE_ID_PREFIX)) return undefined;
  const mediaType = `image/${stringIn(item["output_format"]) ?? "png"}`;
  return { type: "image", source: { kind: "base64", mediaType, data: result } };
}
