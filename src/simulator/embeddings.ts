// Embeddings: a vector of length one that depends on the input alone.

import { wrong, type Wrong } from "./ask.ts";
import { hashText, numbersFrom } from "./hash.ts";
import { fieldsOf, listOf, numberOf, textOf, type Fields } from "./json.ts";
import { checkRange, missing } from "./openai.ts";
import { countTokens } from "./tokens.ts";

const DEFAULT_DIMENSIONS = 1_536;
const MAX_DIMENSIONS = 3_072;
const MAX_INPUTS = 2_048;

export interface Embedding {
  readonly body: Fields;
  readonly tokens: number;
  readonly text: string;
}

interface Input {
  readonly text: string;
  readonly tokens: number;
}

export function isWrongEmbedding(value: Embedding | Wrong): value is Wrong {
  return "wrong" in value;
}

/** Answers POST /v1/embeddings. */
export function embed(body: Fields): Embedding | Wrong {
  const model = textOf(body["model"]);
  if (model === "") return wrong(400, "you must provide a model parameter");
  if (body["input"] === undefined) return missing("input");
  const inputs = readInputs(body["input"]);
  if (
    inputs.length === 0 ||
    inputs.length > MAX_INPUTS ||
    inputs.some((input) => input.tokens === 0)
  ) {
    return wrong(
      400,
      "Invalid 'input': it must be a text, or up to 2048 texts or token arrays, none of them empty.",
      "input",
    );
  }
  const mistake = checkRange(body, "dimensions", {
    least: 1,
    most: MAX_DIMENSIONS,
    kind: "integer",
  });
  if (mistake !== undefined) return mistake;
  const dimensions = numberOf(body["dimensions"]) ?? DEFAULT_DIMENSIONS;
  const packed = body["encoding_format"] === "base64";
  const data = inputs.map((input, index) => {
    const vector = vectorOf(input.text, dimensions);
    return { object: "embedding", index, embedding: packed ? base64Of(vector) : [...vector] };
  });
  const tokens = inputs.reduce((sum, input) => sum + input.tokens, 0);
  return {
    body: { object: "list", data, model, usage: { prompt_tokens: tokens, total_tokens: tokens } },
    tokens,
    text: inputs.map((input) => input.text).join("\n"),
  };
}

/** Answers Gemini's embedContent and batchEmbedContents. */
export function embedGemini(body: Fields): Embedding | Wrong {
  const many = Array.isArray(body["requests"]);
  const requests = many ? listOf(body["requests"]).map(fieldsOf) : [body];
  const texts = requests.map((request) =>
    listOf(fieldsOf(request["content"])["parts"])
      .map((part) => textOf(fieldsOf(part)["text"]))
      .join("\n"),
  );
  if (texts.length === 0 || texts.includes(""))
    return wrong(400, "* EmbedContentRequest.content: contents is not specified\n");
  const embeddings = texts.map((text, index) => ({
    values: [
      ...vectorOf(text, numberOf(requests[index]?.["outputDimensionality"]) ?? DEFAULT_DIMENSIONS),
    ],
  }));
  const tokens = texts.reduce((sum, text) => sum + countTokens(text), 0);
  return {
    body: many ? { embeddings } : { embedding: embeddings[0] },
    tokens,
    text: texts.join("\n"),
  };
}

function readInputs(input: unknown): Input[] {
  if (typeof input === "string") return [{ text: input, tokens: countTokens(input) }];
  const entries = listOf(input);
  if (entries.length > 0 && entries.every((entry) => typeof entry === "number"))
    return [{ text: entries.join(" "), tokens: entries.length }];
  return entries.flatMap((entry) => readInputs(entry));
}

function vectorOf(text: string, dimensions: number): Float32Array<ArrayBuffer> {
  const next = numbersFrom(hashText(text));
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
