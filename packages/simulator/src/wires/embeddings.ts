// Simulates embeddings: a unit vector that depends only on the input.

import {
  arrayIn,
  numberIn,
  type JsonObject,
  objectOrEmpty,
  stringOrEmpty,
} from "../json-readers.ts";
import { hashText, randomNumbers } from "../reply/hash.ts";
import { invalidRequest, type InvalidRequest } from "../reply/normalized-request.ts";
import { countTokens } from "../reply/tokens.ts";
import { checkName, checkRange, missingParameter } from "./openai-common.ts";

const DEFAULT_DIMENSIONS = 1_536;
const MAX_DIMENSIONS = 3_072;
const MAX_INPUTS = 2_048;

export interface EmbeddingReply {
  readonly body: JsonObject;
  readonly tokens: number;
  readonly text: string;
}

interface EmbeddingInput {
  readonly text: string;
  readonly tokens: number;
}

export function isInvalidEmbedding(
  value: EmbeddingReply | InvalidRequest,
): value is InvalidRequest {
  return "invalid" in value;
}

/** POST /v1/embeddings. */
export function embed(body: JsonObject): EmbeddingReply | InvalidRequest {
  const model = stringOrEmpty(body["model"]);
  if (model === "") return invalidRequest(400, "you must provide a model parameter");
  if (body["input"] === undefined) return missingParameter("input");
  const inputs = readInputs(body["input"]);
  if (
    inputs.length === 0 ||
    inputs.length > MAX_INPUTS ||
    inputs.some((input) => input.tokens === 0)
  ) {
    return invalidRequest(
      400,
      "Invalid 'input': expected a string or an array of up to 2048 strings or token arrays, none of them empty.",
      "input",
    );
  }
  const error =
    checkName(body["encoding_format"], "encoding_format", ["float", "base64"]) ??
    checkRange(body, "dimensions", { min: 1, max: MAX_DIMENSIONS, kind: "integer" });
  if (error !== undefined) return error;
  const dimensions = numberIn(body["dimensions"]) ?? DEFAULT_DIMENSIONS;
  const isBase64 = body["encoding_format"] === "base64";
  const data = inputs.map((input, index) => {
    const vector = vectorOf(input.text, dimensions);
    return { object: "embedding", index, embedding: isBase64 ? base64Of(vector) : [...vector] };
  });
  const tokens = inputs.reduce((sum, input) => sum + input.tokens, 0);
  return {
    body: { object: "list", data, model, usage: { prompt_tokens: tokens, total_tokens: tokens } },
    tokens,
    text: inputs.map((input) => input.text).join("\n"),
  };
}

/** Gemini's embedContent and batchEmbedContents. */
export function embedGemini(body: JsonObject): EmbeddingReply | InvalidRequest {
  const isBatch = Array.isArray(body["requests"]);
  const requests = isBatch ? arrayIn(body["requests"]).map(objectOrEmpty) : [body];
  const texts = requests.map((request) =>
    arrayIn(objectOrEmpty(request["content"])["parts"])
      .map((part) => stringOrEmpty(objectOrEmpty(part)["text"]))
      .join("\n"),
  );
  if (texts.length === 0 || texts.includes(""))
    return invalidRequest(400, "* EmbedContentRequest.content: contents is not specified\n");
  const embeddings = texts.map((text, index) => ({
    values: [
      ...vectorOf(text, numberIn(requests[index]?.["outputDimensionality"]) ?? DEFAULT_DIMENSIONS),
    ],
  }));
  const tokens = texts.reduce((sum, text) => sum + countTokens(text), 0);
  return {
    body: isBatch ? { embeddings } : { embedding: embeddings[0] },
    tokens,
    text: texts.join("\n"),
  };
}

function readInputs(input: unknown): EmbeddingInput[] {
  if (typeof input === "string") return [{ text: input, tokens: countTokens(input) }];
  const entries = arrayIn(input);
  if (entries.length > 0 && entries.every((entry) => typeof entry === "number"))
    return [{ text: entries.join(" "), tokens: entries.length }];
  return entries.flatMap((entry) => readInputs(entry));
}

function vectorOf(text: string, dimensions: number): Float32Array<ArrayBuffer> {
  const next = randomNumbers(hashText(text));
  const vector = new Float32Array(dimensions);
  let squares = 0;
  for (let index = 0; index < dimensions; index++) {
    const value = next() / 2_147_483_648 - 1;
    vector[index] = value;
    squares += value * value;
  }
  const length = Math.sqrt(squares);
  return vector.map((value) => value / length);
}

function base64Of(vector: Float32Array<ArrayBuffer>): string {
  let binary = "";
  for (const byte of new Uint8Array(vector.buffer)) binary += String.fromCharCode(byte);
  return btoa(binary);
}
