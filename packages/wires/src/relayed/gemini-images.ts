// Images of Gemini models: a request of the Images API as generateContent, and its reply. Google's own endpoint in OpenAI's form
// reports no usage.

import { InvalidRequest } from "../invalid-request.ts";
import { arrayIn, isObject, isSet, type JsonObject, objectIn, stringIn } from "../json-fields.ts";
import { usageOfGemini } from "../usage/gemini-usage.ts";
import { sumTokens, type Usage } from "../usage/usage-meters.ts";
import { nearestRatio, readImageSize } from "./image-units.ts";
import { inlineImages, rejectMask } from "./inline-images.ts";
import {
  fieldsWithout,
  type RelayedTranslation,
  type TranslationContext,
} from "./relayed-endpoint.ts";

/** More than an image of 4K and the thoughts before it. It is sent, so it bounds the hold. */
const IMAGE_TOKENS_MAX = 8_192;
const RATIOS = ["1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9", "21:9"];
const READ_FIELDS = [
  "model",
  "prompt",
  "n",
  "size",
  "aspect_ratio",
  "resolution",
  "response_format",
  "postern",
];
const CREATE_FIELDS: ReadonlySet<string> = new Set(READ_FIELDS);
const EDIT_FIELDS: ReadonlySet<string> = new Set([...READ_FIELDS, "image", "images"]);

export const GEMINI_IMAGES: RelayedTranslation = {
  wire: "gemini",
  pathOf: (name) => `/models/${encodeURIComponent(name)}:generateContent`,
  outputTokensMax: IMAGE_TOKENS_MAX,
  write: (json) => writeRequest(json, []),
  dropped: (json) => fieldsWithout(json, CREATE_FIELDS),
  read: readReply,
  readUsage: (reply): Usage | undefined => usageOfGemini(reply, "google"),
};

/** The images come before the text, as parts of the same turn. */
export const GEMINI_IMAGE_EDITS: RelayedTranslation = {
  ...GEMINI_IMAGES,
  write: (json, context) => {
    rejectMask(json);
    return writeRequest(json, imageParts(json, context));
  },
  dropped: (json) => fieldsWithout(json, EDIT_FIELDS),
};

function imageParts(json: JsonObject, context: TranslationContext): readonly JsonObject[] {
  return inlineImages(json, context).map(({ mediaType: mimeType, data }) => ({
    inlineData: { mimeType, data },
  }));
}

function writeRequest(json: JsonObject, images: readonly JsonObject[]): JsonObject {
  const { prompt, n, stream, response_format: format, resolution } = json;
  if (stream === true)
    throw new InvalidRequest("stream", "Gemini's images are not streamed. Remove `stream`.");
  if (isSet(n) && n !== 1)
    throw new InvalidRequest("n", "A Gemini model makes one image in a request. Remove `n`.");
  if (format === "url")
    throw new InvalidRequest("response_format", "Gemini returns `b64_json` only.");
  const aspectRatio =
    stringIn(json["aspect_ratio"]) ?? nearestRatio(readImageSize(json["size"]), RATIOS);
  const imageConfig = {
    ...(aspectRatio === undefined ? {} : { aspectRatio }),
    ...(typeof resolution === "string" ? { imageSize: resolution.toUpperCase() } : {}),
  };
  return {
    contents: [{ role: "user", parts: [...images, { text: prompt }] }],
    generationConfig: {
      responseModalities: ["IMAGE"],
      maxOutputTokens: IMAGE_TOKENS_MAX,
      ...(Object.keys(imageConfig).length === 0 ? {} : { imageConfig }),
    },
  };
}

function readReply(reply: JsonObject, createdSeconds: number, used: Usage): JsonObject {
  const [candidate] = arrayIn(reply["candidates"]);
  const content = objectIn(candidate)?.["content"];
  const parts = arrayIn(objectIn(content)?.["parts"]).filter(isObject);
  const data = parts.flatMap((part) => {
    const image = part["inlineData"];
    const isShown = isObject(image) && part["thought"] !== true;
    return isShown ? [{ b64_json: image["data"] }] : [];
  });
  const input = sumTokens(used, "input", "input_image", "cache_read");
  const output = sumTokens(used, "output", "output_image", "reasoning");
  const usage = { input_tokens: input, output_tokens: output, total_tokens: input + output };
  return { created: createdSeconds, data, usage };
}
