// Images of Gemini models: a request of the Images API as generateContent, and its reply. Google's own endpoint in OpenAI's form
// reports no usage.

import { InvalidRequest, invalid } from "../invalid-request.ts";
import { arrayIn, isObject, isSet, type JsonObject, objectIn, stringIn } from "../json-fields.ts";
import { usageOfGemini } from "../usage/gemini-usage.ts";
import type { TokenMeter, Usage } from "../usage/usage-meters.ts";
import type { RelayedTranslation } from "./relayed-endpoint.ts";

/** More than an image of 4K and the thoughts before it. It is sent, so it bounds the hold. */
const IMAGE_TOKENS_MAX = 8_192;
const RATIOS = ["1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9", "21:9"];
const READ_FIELDS: ReadonlySet<string> = new Set([
  "model",
  "prompt",
  "n",
  "size",
  "aspect_ratio",
  "resolution",
  "response_format",
  "postern",
]);

export const GEMINI_IMAGES: RelayedTranslation = {
  wire: "gemini",
  pathOf: (name) => `/models/${encodeURIComponent(name)}:generateContent`,
  outputTokensMax: IMAGE_TOKENS_MAX,
  write: writeRequest,
  dropped: (json) =>
    Object.keys(json).filter((name) => isSet(json[name]) && !READ_FIELDS.has(name)),
  read: readReply,
  readUsage: (reply): Usage | undefined => usageOfGemini(reply, "google"),
};

function writeRequest(json: JsonObject): JsonObject {
  const { prompt, n, stream, response_format: format, resolution } = json;
  if (stream === true)
    throw new InvalidRequest("stream", "Gemini's images are not streamed. Remove `stream`.");
  if (isSet(n) && n !== 1)
    throw new InvalidRequest("n", "A Gemini model makes one image in a request. Remove `n`.");
  if (format === "url")
    throw new InvalidRequest("response_format", "Gemini returns `b64_json` only.");
  const aspectRatio = stringIn(json["aspect_ratio"]) ?? ratioOf(json["size"]);
  const imageConfig = {
    ...(aspectRatio === undefined ? {} : { aspectRatio }),
    ...(typeof resolution === "string" ? { imageSize: resolution.toUpperCase() } : {}),
  };
  return {
    contents: [{ role: "user", parts: [{ text: prompt }] }],
    generationConfig: {
      responseModalities: ["IMAGE"],
      maxOutputTokens: IMAGE_TOKENS_MAX,
      ...(Object.keys(imageConfig).length === 0 ? {} : { imageConfig }),
    },
  };
}

function sumOf(tokens: Usage["tokens"], meters: readonly TokenMeter[]): number {
  return meters.reduce((sum, meter) => sum + (tokens[meter] ?? 0), 0);
}

/** The nearest of the ratios that Gemini has. */
function ratioOf(size: unknown): string | undefined {
  if (typeof size !== "string" || size === "auto") return undefined;
  const [width = 1, height = 1] = size.split("x").map(Number);
  const wanted = Math.log(width / height);
  const distance = (ratio: string): number => {
    const [left = 1, right = 1] = ratio.split(":").map(Number);
    return Math.abs(Math.log(left / right) - wanted);
  };
  const nearest = RATIOS.toSorted((left, right) => distance(left) - distance(right))[0];
  if (nearest === undefined || Number.isNaN(wanted)) throw invalid("size", "`size` is not valid.");
  return nearest;
}

function readReply(reply: JsonObject, createdSeconds: number, { tokens }: Usage): JsonObject {
  const [candidate] = arrayIn(reply["candidates"]);
  const content = objectIn(candidate)?.["content"];
  const parts = arrayIn(objectIn(content)?.["parts"]).filter(isObject);
  const data = parts.flatMap((part) => {
    const image = part["inlineData"];
    const isShown = isObject(image) && part["thought"] !== true;
    return isShown ? [{ b64_json: image["data"] }] : [];
  });
  const input = sumOf(tokens, ["input", "input_image", "cache_read"]);
  const output = sumOf(tokens, ["output", "output_image", "reasoning"]);
  const usage = { input_tokens: input, output_tokens: output, total_tokens: input + output };
  return { created: createdSeconds, data, usage };
}
