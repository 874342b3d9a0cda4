// Image generation and edits: OpenAI's API. Its newer models are priced by token, with text and images in and out; others by
// image.

import { invalid } from "../invalid-request.ts";
import { isObject, isSet, type JsonObject, lookUp, numberIn, objectIn } from "../json-fields.ts";
import {
  buildUsage,
  ownMember,
  readCount,
  type ReadNotes,
  readStatedCost,
  valueAt,
} from "../usage/read-numbers.ts";
import { splitInput, splitOutput } from "../usage/token-breakdown.ts";
import type { Usage } from "../usage/usage-meters.ts";
import { GEMINI_IMAGE_EDITS, GEMINI_IMAGES } from "./gemini-images.ts";
import {
  FIREWORKS_IMAGES,
  STABILITY_IMAGES,
  TOGETHER_IMAGES,
  XAI_IMAGE_EDITS,
} from "./image-translations.ts";
import {
  countImages,
  imageClassOf,
  imageUnits,
  readImageSize,
  usageOfUnits,
} from "./image-units.ts";
import { INPUT_ONLY, type RelayedContext, type RelayedEndpoint } from "./relayed-endpoint.ts";

const IMAGES_MAX = 10;
/** The largest size of GPT Image models, 3840x2160. */
const PIXELS_MAX = 8_294_400;
/** A smaller image counts as this: its tokens are not documented. */
const SQUARE_PIXELS = 1_048_576;
/** `auto` chooses one of the standard sizes, of which 1536x1024 is the largest. */
const AUTO_PIXELS = 1_572_864;
/**
 * Fewer than any model has: a square of 1024 pixels counts 272, 1,767 and 7,033 tokens at most in these qualities of the GPT
 * Image models. Other qualities count as high.
 */
const PIXELS_PER_TOKEN: Readonly<Record<string, number>> = {
  low: 2_048,
  medium: 512,
  high: 128,
  xhigh: 64,
  max: 32,
};
/** OpenAI counts 100 for each image that is sent before the last one. */
const TOKENS_PER_PARTIAL_IMAGE = 200;
const PARTIAL_IMAGES_MAX = 3;
const FRAMES_MAX = 100;
const INPUT_IMAGES_MAX = 16;
/** More than any size counts in any fidelity. */
const TOKENS_PER_INPUT_IMAGE = 16_384;
/** Text that a model writes beside an image, such as its revised prompt. */
const TEXT_TOKENS_MAX = 500;

export const IMAGES_ENDPOINT: RelayedEndpoint = {
  ...INPUT_ONLY,
  kind: "image",
  check: checkImages,
  textFields: ["prompt", "negative_prompt"],
  knownFields:
    "aspect_ratio background moderation output_compression output_format quality resolution response_format size style",
  outputTokensMax,
  unitsMax: (json) => imageUnits(json, countImages(json)),
  imageClass: imageClassOf,
  readUsage: usageOfImages,
  isEmpty: ({ data }) => Array.isArray(data) && data.length === 0,
  translations: {
    gemini: GEMINI_IMAGES,
    together: TOGETHER_IMAGES,
    fireworks: FIREWORKS_IMAGES,
    bedrock: STABILITY_IMAGES,
  },
  stream: {
    isStream: ({ stream }) => stream === true,
    formOf: () => ({ sent: "events", returned: "events" }),
    usageInEvent: (event, context) => usageOfImages({ ...event, data: [event] }, context),
    isLast: ({ type }) => typeof type === "string" && type.endsWith(".completed"),
    // What an image costs does not depend on its bytes.
    contentOf: () => undefined,
  },
};

export const IMAGE_EDITS_ENDPOINT: RelayedEndpoint = {
  ...IMAGES_ENDPOINT,
  translations: { gemini: GEMINI_IMAGE_EDITS, xai: XAI_IMAGE_EDITS },
  // An image that is read costs less than one that is made.
  unitsMax: (json) => imageUnits(json, countImages(json) + inputImagesOf(json)),
  check: (json) => {
    checkImages(json);
    checkInputImages(json);
  },
  knownFields: `${IMAGES_ENDPOINT.knownFields} image images input_fidelity markup mask`,
  countTexts: (json) => 1 + inputImagesOf(json),
  repeatedBytes: (json) => inputImagesOf(json) * TOKENS_PER_INPUT_IMAGE,
  form: {
    isOptional: true,
    fields: {
      n: "number",
      stream: "boolean",
      partial_images: "number",
      output_compression: "number",
      frame_count: "number",
      frame_duration_ms: "number",
    },
    describeFile: () => ({}),
  },
};

function listOf(value: unknown): readonly unknown[] {
  if (!isSet(value)) return [];
  return Array.isArray(value) ? value : [value];
}

function checkInputImages({ image, images }: JsonObject): void {
  const all = [...listOf(image), ...listOf(images)];
  if (all.length === 0 || all.length > INPUT_IMAGES_MAX)
    throw invalid("image", `\`image\` is required: 1 to ${INPUT_IMAGES_MAX} images to edit.`);
  if (!all.every(isObject))
    throw invalid("image", "`image` must be a file of the form, or an object with `image_url`.");
}

/** A mask and a markup are read as images. */
function inputImagesOf({ image, images, mask, markup }: JsonObject): number {
  return [image, images, mask, markup].reduce<number>((sum, one) => sum + listOf(one).length, 0);
}

function checkImages(json: JsonObject): void {
  const { prompt, n, size } = json;
  if (typeof prompt !== "string" || prompt === "")
    throw invalid("prompt", "`prompt` is required: a description of the image.");
  if (isSet(n) && !(typeof n === "number" && Number.isInteger(n) && n >= 1 && n <= IMAGES_MAX))
    throw invalid("n", `\`n\` must be a whole number from 1 to ${IMAGES_MAX}.`);
  const pixels = pixelsOf(size);
  if (isSet(size) && (typeof size !== "string" || pixels > PIXELS_MAX || pixels < 1))
    throw invalid("size", '`size` must be "auto" or "<width>x<height>", at most 3840x2160.');
  if (json["stream"] === true && countImages(json) > 1)
    throw invalid("n", "`n` must be 1 with `stream`. Send a request for each image.");
  checkCount(json, "partial_images", 0, PARTIAL_IMAGES_MAX);
  checkCount(json, "frame_count", 1, FRAMES_MAX);
}

function checkCount(json: JsonObject, name: string, min: number, max: number): void {
  const value = json[name];
  const isCount = typeof value === "number" && Number.isInteger(value);
  if (isSet(value) && !(isCount && value >= min && value <= max))
    throw invalid(name, `\`${name}\` must be a whole number from ${min} to ${max}.`);
}

function outputTokensMax(json: JsonObject): number {
  const { size, quality } = json;
  const pixelsPerToken =
    (typeof quality === "string" ? lookUp(PIXELS_PER_TOKEN, quality) : undefined) ??
    PIXELS_PER_TOKEN["high"] ??
    1;
  const pixels = Math.max(SQUARE_PIXELS, pixelsOf(size));
  const tokens = Math.ceil(pixels / pixelsPerToken) * (numberIn(json["frame_count"]) ?? 1);
  const partial = (numberIn(json["partial_images"]) ?? 0) * TOKENS_PER_PARTIAL_IMAGE;
  return countImages(json) * (tokens + partial + TEXT_TOKENS_MAX);
}

/** Infinity for a text that is no size. */
function pixelsOf(size: unknown): number {
  if (typeof size !== "string" || size === "auto") return AUTO_PIXELS;
  const { width = Infinity, height = Infinity } = readImageSize(size) ?? {};
  return width * height;
}

function usageOfImages(reply: JsonObject, context: RelayedContext): Usage | undefined {
  const notes: ReadNotes = { clamped: false };
  const usage = objectIn(reply["usage"]);
  const statedCostUsd = readStatedCost(usage);
  if (context.isPriced("image_generation") || context.isPriced("megapixel"))
    return Array.isArray(reply["data"])
      ? usageOfUnits(reply["data"].length, context, usage)
      : undefined;
  const input = ownMember(usage, "input_tokens");
  const output = ownMember(usage, "output_tokens");
  if (typeof input !== "number" || typeof output !== "number") return undefined;
  const inputDetails = (name: string): unknown => valueAt(usage, ["input_tokens_details", name]);
  const total = readCount(notes, output);
  const text = readCount(notes, valueAt(usage, ["output_tokens_details", "text_tokens"]));
  return buildUsage(
    {
      tokens: {
        ...splitInput(notes, {
          total: readCount(notes, input),
          cached: readCount(notes, inputDetails("cached_tokens")),
          image: readCount(notes, inputDetails("image_tokens")),
          cachedImage: readCount(
            notes,
            valueAt(usage, ["input_tokens_details", "cached_tokens_details", "image_tokens"]),
          ),
        }),
        // Without details all output is images.
        ...splitOutput(notes, { total, reasoning: 0, image: Math.max(0, total - text) }),
      },
      statedCostUsd,
    },
    notes,
  );
}
