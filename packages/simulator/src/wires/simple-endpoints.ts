// Simulates endpoints without a conversation: embeddings, images, audio, rerank and moderation. A reply depends only on its request.

import { arrayIn, isObject, type JsonObject, numberIn, stringOrEmpty } from "../json-readers.ts";
import { hashText } from "../reply/hash.ts";
import { invalidRequest, type InvalidRequest } from "../reply/normalized-request.ts";
import { countTokens } from "../reply/tokens.ts";
import { deltaFrame, lastFrame, speak, transcribe } from "./audio-endpoints.ts";
import { embed } from "./embeddings.ts";
import { checkName, checkRange, missingParameter } from "./openai-common.ts";
import type { SimpleReply } from "./simple-reply.ts";
import { complete, decide } from "./text-endpoints.ts";

export type SimpleApi =
  | "embeddings"
  | "images"
  | "image_edits"
  | "speech"
  | "transcriptions"
  | "translations"
  | "rerank"
  | "moderations"
  | "decisions"
  | "completions";

export const SIMPLE_ENDPOINTS: Readonly<
  Record<SimpleApi, (body: JsonObject) => SimpleReply | InvalidRequest>
> = {
  embeddings: embed,
  images: (body) => createImages(body, "image_generation"),
  image_edits: (body) =>
    inputImagesOf(body) === 0 ? missingParameter("image") : createImages(body, "image_edit"),
  speech: speak,
  transcriptions: transcribe,
  translations: transcribe,
  rerank,
  moderations: moderate,
  decisions: decide,
  completions: complete,
};

/** A PNG of one white pixel. */
const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAG7buVgAAAABJRU5ErkJggg==";
const TOKENS_BY_QUALITY: Readonly<Record<string, number>> = {
  low: 272,
  medium: 1_056,
  high: 4_160,
};
const IMAGES_MAX = 10;

const TOKENS_PER_INPUT_IMAGE = 1_000;
const TOKENS_PER_PARTIAL_IMAGE = 100;

function inputImagesOf({ image, images, mask }: JsonObject): number {
  return [image, images, mask].reduce<number>(
    (sum, one) => sum + (one === undefined ? 0 : Array.isArray(one) ? one.length : 1),
    0,
  );
}

/** POST /v1/images/generations and /v1/images/edits. Models whose name contains `each` report no usage. */
function createImages(sent: JsonObject, name: string): SimpleReply | InvalidRequest {
  // The fields of a form are text.
  const body: JsonObject = { ...sent, n: sent["n"] === undefined ? undefined : Number(sent["n"]) };
  const prompt = stringOrEmpty(body["prompt"]);
  if (prompt === "") return missingParameter("prompt");
  const error =
    checkRange(body, "n", { min: 1, max: IMAGES_MAX, kind: "integer" }) ??
    checkName(sent["quality"], "quality", ["auto", "low", "medium", "high"]);
  if (error !== undefined) return error;
  const count = numberIn(body["n"]) ?? 1;
  const textTokens = countTokens(prompt);
  const imageTokens = inputImagesOf(sent) * TOKENS_PER_INPUT_IMAGE;
  const tokens = textTokens + imageTokens;
  const quality = stringOrEmpty(sent["quality"]);
  const partial = Number(sent["partial_images"] ?? 0);
  const outputTokens =
    partial * TOKENS_PER_PARTIAL_IMAGE +
    count * (TOKENS_BY_QUALITY[quality] ?? TOKENS_BY_QUALITY["medium"] ?? 0);
  const images = Array.from({ length: count }, () => ({ b64_json: PIXEL }));
  const usage = {
    input_tokens: tokens,
    output_tokens: outputTokens,
    total_tokens: tokens + outputTokens,
    input_tokens_details: { text_tokens: textTokens, image_tokens: imageTokens },
  };
  const isPricedEach = stringOrEmpty(sent["model"]).includes("each");
  if (String(sent["stream"]) === "true")
    return {
      body: {},
      tokens,
      outputTokens,
      text: prompt,
      stream: {
        frames: [
          ...Array.from({ length: partial }, (_, index) =>
            deltaFrame({
              type: `${name}.partial_image`,
              b64_json: PIXEL,
              partial_image_index: index,
            }),
          ),
          lastFrame({
            type: `${name}.completed`,
            b64_json: PIXEL,
            ...(isPricedEach ? {} : { usage }),
          }),
        ],
        contentType: "text/event-stream",
      },
    };
  return {
    body: { created: 1_767_225_600, data: images, ...(isPricedEach ? {} : { usage }) },
    tokens,
    outputTokens,
    text: prompt,
  };
}

const DOCUMENTS_PER_SEARCH = 100;

/** POST /v2/rerank of Cohere. Models whose name contains `tokens` report tokens as Jina's do. */
function rerank(body: JsonObject): SimpleReply | InvalidRequest {
  const query = stringOrEmpty(body["query"]);
  if (query === "") return missingParameter("query");
  const documents = arrayIn(body["documents"]).map(stringOrEmpty);
  if (documents.length === 0) return missingParameter("documents");
  if (documents.includes(""))
    return invalidRequest(400, "Invalid 'documents': expected strings.", "documents");
  const limit = numberIn(body["top_n"]) ?? numberIn(body["top_k"]) ?? documents.length;
  const words = new Set(wordsOf(query));
  const results = documents
    .map((text, index) => ({ index, relevance_score: scoreOf(text, words) }))
    .toSorted((left, right) => right.relevance_score - left.relevance_score)
    .slice(0, limit);
  const tokens = documents.reduce((sum, text) => sum + countTokens(text) + countTokens(query), 0);
  const model = stringOrEmpty(body["model"]);
  const usage = model.includes("tokens")
    ? { usage: { total_tokens: tokens } }
    : {
        meta: {
          api_version: { version: "2" },
          billed_units: { search_units: Math.ceil(documents.length / DOCUMENTS_PER_SEARCH) },
        },
      };
  return {
    body: { id: `rerank-${hashText(query + documents.join("\n"))}`, results, ...usage },
    tokens,
    text: query,
  };
}

function wordsOf(text: string): readonly string[] {
  return text.toLowerCase().match(/\w+/g) ?? [];
}

/** The part of the query's words that the document has. */
function scoreOf(text: string, query: ReadonlySet<string>): number {
  const found = new Set(wordsOf(text).filter((word) => query.has(word)));
  return query.size === 0 ? 0 : found.size / query.size;
}

const CATEGORIES = ["harassment", "hate", "self-harm", "sexual", "violence"] as const;

/** POST /v1/moderations: an input is flagged for each category that it names. */
function moderate(body: JsonObject): SimpleReply | InvalidRequest {
  const { input } = body;
  const inputs = typeof input === "string" ? [input] : arrayIn(input).map(textOf);
  if (inputs.length === 0) return missingParameter("input");
  const results = inputs.map((text) => {
    const categories = Object.fromEntries(CATEGORIES.map((name) => [name, text.includes(name)]));
    return {
      flagged: Object.values(categories).includes(true),
      categories,
      category_scores: Object.fromEntries(
        CATEGORIES.map((name) => [name, text.includes(name) ? 0.9 : 0.01]),
      ),
    };
  });
  const text = inputs.join("\n");
  return {
    body: { id: `modr-${hashText(text)}`, model: stringOrEmpty(body["model"]), results },
    tokens: 0,
    text,
  };
}

function textOf(part: unknown): string {
  return isObject(part) ? stringOrEmpty(part["text"]) : stringOrEmpty(part);
}
