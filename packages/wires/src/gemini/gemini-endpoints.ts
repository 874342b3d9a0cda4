// Google's endpoints beside generateContent, in the form of those that a gateway has: embeddings and counts.

import { invalid } from "../invalid-request.ts";
import {
  arrayIn,
  isObject,
  isSet,
  type JsonObject,
  mustBeArray,
  mustBeObject,
  numberIn,
  objectIn,
  optionalArray,
  optionalInteger,
  optionalObject,
} from "../json-fields.ts";
import { normalizeGeminiRequest } from "./request/normalize-gemini-request.ts";

const DIMENSIONS_MAX = 100_000;
/** What only Google's own models read. */
const HINTS = ["taskType", "title", "autoTruncate"] as const;

export interface ReadEmbeddings {
  /** The request of the embeddings endpoint. */
  readonly body: JsonObject;
  /** The paths of fields that it does not have. */
  readonly dropped: readonly string[];
}

/** A request of `embedContent`, or of `batchEmbedContents`, which has a list of them. */
export function readEmbedContent(input: unknown, model: string): ReadEmbeddings {
  const body = normalizeGeminiRequest(mustBeObject(input, ""));
  const { postern } = body;
  const isBatch = body["requests"] !== undefined;
  const requests = isBatch ? mustBeArray(body["requests"], "requests") : [body];
  if (requests.length === 0) throw invalid("requests", "`requests` must not be empty.");
  const dropped: string[] = [];
  const sizes = new Set<number | undefined>();
  const texts = requests.map((one, at) => {
    const path = isBatch ? `requests[${at}].` : "";
    const request = isBatch ? mustBeObject(one, `requests[${at}]`) : body;
    const config = optionalObject(request["embedContentConfig"], `${path}embedContentConfig`);
    const fields: JsonObject = { ...request, ...config };
    for (const name of HINTS) if (isSet(fields[name])) dropped.push(path + name);
    const field = `${path}outputDimensionality`;
    sizes.add(optionalInteger(fields["outputDimensionality"], field, 1, DIMENSIONS_MAX));
    return textOf(mustBeObject(request["content"], `${path}content`), `${path}content`);
  });
  if (sizes.size > 1)
    throw invalid("requests", "All `requests` must have the same `outputDimensionality`.");
  const [dimensions] = sizes;
  const sized = dimensions === undefined ? undefined : { dimensions };
  const own = postern === undefined ? undefined : { postern };
  return { body: { model, input: isBatch ? texts : texts[0], ...sized, ...own }, dropped };
}

function textOf(content: JsonObject, path: string): string {
  const parts = optionalArray(content["parts"], `${path}.parts`) ?? [];
  const texts = parts.map((part, at) => {
    if (isObject(part) && typeof part["text"] === "string") return part["text"];
    throw invalid(`${path}.parts[${at}]`, "Only text is embedded here.");
  });
  if (texts.join("") === "") throw invalid(path, `\`${path}\` must have a part with text.`);
  return texts.join("\n");
}

/** The embeddings in Google's form. */
export function writeEmbedContent(reply: JsonObject, isBatch: boolean): JsonObject {
  const embeddings = arrayIn(reply["data"]).map((one) => ({
    values: isObject(one) ? one["embedding"] : [],
  }));
  const usage = objectIn(reply["usage"]) ?? {};
  const promptTokenCount = numberIn(usage["prompt_tokens"]) ?? numberIn(usage["total_tokens"]);
  const usageMetadata = { promptTokenCount, cost: usage["cost"] };
  return isBatch ? { embeddings, usageMetadata } : { embedding: embeddings[0], usageMetadata };
}

/** The request that `countTokens` counts: its own contents, or those of a whole request. */
export function readCountTokens(input: unknown): JsonObject {
  const body = normalizeGeminiRequest(mustBeObject(input, ""));
  const { generateContentRequest: whole, ...own } = body;
  return { ...own, ...optionalObject(whole, "generateContentRequest") };
}
