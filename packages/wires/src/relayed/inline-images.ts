// The images of an edit, for a provider that gets their bytes in JSON.

import { InvalidRequest } from "../invalid-request.ts";
import { isObject, type JsonObject } from "../json-fields.ts";
import { readUrlSource } from "../openai-parts.ts";
import type { TranslationContext } from "./relayed-endpoint.ts";

interface InlineImage {
  readonly mediaType: string;
  /** Base64. */
  readonly data: string;
}

/** Throws an `InvalidRequest` for a URL, which the gateway would have to fetch. */
export function inlineImages(
  json: JsonObject,
  { fileOf }: TranslationContext,
): readonly InlineImage[] {
  return ["image", "images"].flatMap((field) =>
    [json[field]].flat().flatMap((image, index) => {
      if (!isObject(image)) return [];
      const file = fileOf(image);
      if (file !== undefined)
        return [{ mediaType: file.contentType, data: Buffer.from(file.bytes).toString("base64") }];
      const path = `${field}[${index}].image_url`;
      const source = readUrlSource(image["image_url"], path, "image/");
      if (source.kind === "base64") return [{ mediaType: source.mediaType, data: source.data }];
      throw new InvalidRequest(
        path,
        "This model takes images to edit as files of a form, or as base64 `data:` URLs. Send one of them.",
      );
    }),
  );
}

/** Throws an `InvalidRequest` for what tells the place of the edit. */
export function rejectMask(json: JsonObject): void {
  for (const field of ["mask", "markup"])
    if (json[field] !== undefined && json[field] !== null)
      throw new InvalidRequest(
        field,
        `This model takes no \`${field}\`. Remove it, and say in \`prompt\` what to change.`,
      );
}
