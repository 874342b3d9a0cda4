// Images of providers whose API differs from OpenAI's: Together, Fireworks, Stability's models at Bedrock, edits of xAI. None of
// them reports tokens. The size that is billed is the size that is sent.

import { InvalidRequest } from "../invalid-request.ts";
import { arrayIn, isObject, isSet, type JsonObject, stringIn } from "../json-fields.ts";
import type { Usage } from "../usage/usage-meters.ts";
import {
  countImages,
  DEFAULT_SIDE,
  nearestRatio,
  readImageSize,
  usageOfUnits,
} from "./image-units.ts";
import { inlineImages, rejectMask } from "./inline-images.ts";
import { fieldsWithout, type RelayedContext, type RelayedTranslation } from "./relayed-endpoint.ts";

const COMMON_FIELDS = ["model", "prompt", "n", "size", "response_format", "seed", "postern"];
const TOGETHER_FIELDS: ReadonlySet<string> = new Set([
  ...COMMON_FIELDS,
  "negative_prompt",
  "output_format",
]);

/** The number of steps is the model's default, which the price is for. */
export const TOGETHER_IMAGES: RelayedTranslation = {
  wire: "images",
  pathOf: () => "",
  write: (json, { upstreamName }) => {
    rejectStream(json, "Together");
    const { width, height } = readImageSize(json["size"]) ?? {
      width: DEFAULT_SIDE,
      height: DEFAULT_SIDE,
    };
    return {
      model: upstreamName,
      prompt: json["prompt"],
      n: countImages(json),
      width,
      height,
      response_format: json["response_format"] === "url" ? "url" : "base64",
      ...setFields(json, ["seed", "negative_prompt", "output_format"]),
    };
  },
  dropped: (json) => fieldsWithout(json, TOGETHER_FIELDS),
  read: (reply, created) => ({
    created,
    data: arrayIn(reply["data"])
      .filter(isObject)
      .map(({ b64_json, url }) => (isSet(b64_json) ? { b64_json } : { url })),
  }),
};

const FIREWORKS_RATIOS = "1:1 21:9 16:9 3:2 5:4 4:5 2:3 9:16 9:21 4:3 3:4".split(" ");
const RATIO_FIELDS: ReadonlySet<string> = new Set([...COMMON_FIELDS, "aspect_ratio"]);
/** The documented number of a distilled model, and of others. The price of an image is for it. */
const STEPS_DISTILLED = 4;
const STEPS = 28;

export const FIREWORKS_IMAGES: RelayedTranslation = {
  wire: "images",
  // Its own name has a path before it.
  pathOf: (name) => `/${encodeURIComponent(name.split("/").at(-1) ?? name)}/text_to_image`,
  write: (json, { upstreamName }) => {
    rejectSeveral(json, "Fireworks");
    return {
      prompt: json["prompt"],
      aspect_ratio: ratioOf(json, FIREWORKS_RATIOS),
      num_inference_steps: upstreamName.includes("schnell") ? STEPS_DISTILLED : STEPS,
      ...setFields(json, ["seed"]),
    };
  },
  dropped: (json) => fieldsWithout(json, RATIO_FIELDS),
  read: (reply, created) => ({ created, data: imagesOf(reply["base64"]) }),
  isEmpty: (reply) => arrayIn(reply["base64"]).length === 0,
  readUsage: (reply, context) => usageOfList(reply["base64"], context),
};

const STABILITY_RATIOS = "16:9 1:1 21:9 2:3 3:2 4:5 5:4 9:16 9:21".split(" ");
const STABILITY_FIELDS: ReadonlySet<string> = new Set([
  ...RATIO_FIELDS,
  "negative_prompt",
  "output_format",
]);

export const STABILITY_IMAGES: RelayedTranslation = {
  wire: "converse",
  pathOf: (name) => `/model/${encodeURIComponent(name)}/invoke`,
  write: (json) => {
    rejectSeveral(json, "Bedrock");
    return {
      prompt: json["prompt"],
      mode: "text-to-image",
      aspect_ratio: ratioOf(json, STABILITY_RATIOS),
      ...setFields(json, ["seed", "negative_prompt", "output_format"]),
    };
  },
  dropped: (json) => fieldsWithout(json, STABILITY_FIELDS),
  read: (reply, created) => {
    const reasons = arrayIn(reply["finish_reasons"]).filter(isSet);
    const data = imagesOf(reply["images"]);
    return { created, data, ...(reasons.length === 0 ? {} : { finish_reasons: reasons }) };
  },
  // A filtered request has no images.
  readUsage: (reply, context) => usageOfList(reply["images"], context),
};

const XAI_EDIT_FIELDS: ReadonlySet<string> = new Set([
  ...RATIO_FIELDS,
  "image",
  "images",
  "quality",
  "resolution",
]);

/** xAI's edits are JSON. It bills the images that are read, too, and states the cost. */
export const XAI_IMAGE_EDITS: RelayedTranslation = {
  wire: "image_edits",
  pathOf: () => "",
  write: (json, context) => {
    rejectStream(json, "xAI");
    rejectMask(json);
    const images = inlineImages(json, context).map(({ mediaType, data }) => ({
      type: "image_url",
      url: `data:${mediaType};base64,${data}`,
    }));
    return {
      model: context.upstreamName,
      prompt: json["prompt"],
      ...(images.length === 1 ? { image: images[0] } : { images }),
      ...setFields(json, ["n", "aspect_ratio", "resolution", "quality", "response_format"]),
    };
  },
  dropped: (json) => fieldsWithout(json, XAI_EDIT_FIELDS),
};

function usageOfList(images: unknown, context: RelayedContext): Usage | undefined {
  return usageOfUnits(arrayIn(images).length, context);
}

/** Fireworks writes data URLs. */
function imagesOf(images: unknown): readonly JsonObject[] {
  return arrayIn(images).map((image) => ({
    b64_json: (stringIn(image) ?? "").replace(/^data:[^,]{0,64},/, ""),
  }));
}

function setFields(json: JsonObject, names: readonly string[]): JsonObject {
  return Object.fromEntries(
    names.filter((name) => isSet(json[name])).map((name) => [name, json[name]]),
  );
}

function ratioOf({ aspect_ratio: ratio, size }: JsonObject, ratios: readonly string[]): string {
  if (!isSet(ratio)) return nearestRatio(readImageSize(size), ratios) ?? "1:1";
  const known = ratios.find((one) => one === ratio);
  if (known !== undefined) return known;
  throw new InvalidRequest("aspect_ratio", `\`aspect_ratio\` must be one of ${ratios.join(", ")}.`);
}

function rejectStream({ stream }: JsonObject, provider: string): void {
  if (stream === true)
    throw new InvalidRequest(
      "stream",
      `Images of ${provider} are not streamed. Remove \`stream\`.`,
    );
}

function rejectSeveral(json: JsonObject, provider: string): void {
  rejectStream(json, provider);
  if (countImages(json) !== 1)
    throw new InvalidRequest("n", `${provider} makes one image in a request. Remove \`n\`.`);
  if (json["response_format"] === "url")
    throw new InvalidRequest("response_format", `${provider} returns \`b64_json\` only.`);
}
