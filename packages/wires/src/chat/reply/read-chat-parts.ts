// Readers of the fields that a stream's deltas and a reply's messages share.

import type {
  Citation,
  ImagePart,
  MediaPart,
  OpaqueBlob,
  Part,
} from "../../canonical/canonical-parts.ts";
import type { ReplyReadContext } from "../../canonical/wire-interfaces.ts";
import { arrayIn, isObject, type JsonObject, objectIn, stringIn } from "../../json-fields.ts";
import { readThinkingList } from "./read-chat-reasoning.ts";

const DATA_URL = /^data:([^;,]+)(?:;[^;,]*)*;base64,/i;

/** Generated images, in the format of OpenRouter and compatible servers. */
export function readImages(value: unknown): readonly ImagePart[] {
  return arrayIn(value).flatMap((one): readonly ImagePart[] => {
    const url = stringIn(objectIn(objectIn(one)?.["image_url"])?.["url"]);
    if (url === undefined) return [];
    const data = DATA_URL.exec(url);
    return data?.[1] === undefined
      ? [{ type: "image", source: { kind: "url", url } }]
      : [
          {
            type: "image",
            source: { kind: "base64", mediaType: data[1], data: url.slice(data[0].length) },
          },
        ];
  });
}

/** The search results of the whole reply, as Perplexity sends them. */
export function readSources(body: JsonObject): readonly Citation[] {
  const found = arrayIn(body["search_results"])
    .filter(isObject)
    .map((one): Citation => ({ url: stringIn(one["url"]), title: stringIn(one["title"]) }))
    .filter(({ url }) => url !== undefined);
  if (found.length > 0) return found;
  return arrayIn(body["citations"])
    .filter((one) => typeof one === "string")
    .map((url) => ({ url }));
}

/** A blob without origin belongs to the provider that sent it. */
export function withOrigin(
  blob: OpaqueBlob | undefined,
  { origin }: ReplyReadContext,
): OpaqueBlob | undefined {
  return blob === undefined || blob.origin !== undefined ? blob : { ...blob, origin };
}

/** The content is a string, or at Mistral an array that can contain `thinking`. */
export function contentParts(content: unknown): Part[] {
  if (typeof content === "string") return content === "" ? [] : [{ type: "text", text: content }];
  const parts: Part[] = [];
  for (const value of arrayIn(content)) {
    if (!isObject(value)) continue;
    const text = stringIn(value["text"]);
    if (value["type"] === "thinking")
      parts.push({ type: "reasoning", text: readThinkingList(value) });
    else if (text !== undefined && text !== "") parts.push({ type: "text", text });
    else if (text === undefined) parts.push({ type: "native", wire: "chat", value });
  }
  return parts;
}

export function readAudio(audio: { readonly [key: string]: unknown }): MediaPart {
  const data = joinedBase64(stringIn(audio["data"]) ?? "");
  return {
    type: "audio",
    source: { kind: "base64", mediaType: "audio/wav", data },
    id: stringIn(audio["id"]),
    transcript: stringIn(audio["transcript"]),
  };
}

// Some servers encode each piece of streamed audio separately, so the joined text can contain padding, and most decoders stop
// at the first padding.
function joinedBase64(text: string): string {
  if (!/=[^=]/.test(text)) return text;
  const pieces = text.match(/[^=]+=*/g) ?? [];
  return Buffer.concat(pieces.map((piece) => Buffer.from(piece, "base64"))).toString("base64");
}

/** Undefined for a function call: some servers send an empty `custom` next to every `function`. */
export function customCallOf(call: JsonObject): JsonObject | undefined {
  const custom = objectIn(call["custom"]);
  return call["type"] === "custom" || !isObject(call["function"]) ? custom : undefined;
}

export function callSignature(
  call: JsonObject,
  { origin }: ReplyReadContext,
): OpaqueBlob | undefined {
  const google = objectIn(objectIn(call["extra_content"])?.["google"]);
  const signature = stringIn(google?.["thought_signature"]);
  return signature ? { wire: "chat", kind: "call", data: signature, origin } : undefined;
}
