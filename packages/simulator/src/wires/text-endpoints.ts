// Simulates decisions and text completions.

import { arrayIn, isObject, type JsonObject, numberIn, stringOrEmpty } from "../json-readers.ts";
import type { InvalidRequest } from "../reply/normalized-request.ts";
import { countTokens } from "../reply/tokens.ts";
import { checkRange, missingParameter } from "./openai-common.ts";
import type { SimpleReply } from "./simple-reply.ts";

const OUTPUT_TOKENS_DEFAULT = 16;
const YES = 0.75;

/** POST /v1/decisions: every answer is yes, the first choice or the first level, with the same probability. */
export function decide(body: JsonObject): SimpleReply | InvalidRequest {
  const { input } = body;
  if (input === undefined) return missingParameter("input");
  const questions = arrayIn(body["questions"]).filter(isObject);
  if (questions.length === 0) return missingParameter("questions");
  const text = typeof input === "string" ? input : JSON.stringify(input);
  const tokens = countTokens(text) + countTokens(JSON.stringify(questions));
  const usage = { input_tokens: tokens, output_tokens: 0, total_tokens: tokens };
  const answers = questions.map(answerTo);
  return {
    body: { answers, model: stringOrEmpty(body["model"]), usage },
    tokens,
    text,
  };
}

function answerTo(question: JsonObject): JsonObject {
  const { type, name = null } = question;
  const [first] = arrayIn(question["choices"] ?? question["levels"]);
  const value = isObject(first) ? first["value"] : undefined;
  const probabilities = [{ value, probability: YES }];
  if (type === "predicate") return { type, name, probability: YES };
  return type === "choice"
    ? { type, name, choice: value, confidence: YES, probabilities }
    : { type, name, score: value, confidence: YES, probabilities };
}

/** POST /v1/completions: repeats the prompt, up to its output limit. */
export function complete(body: JsonObject): SimpleReply | InvalidRequest {
  const { prompt } = body;
  const prompts = (typeof prompt === "string" ? [prompt] : arrayIn(prompt)).map(stringOrEmpty);
  if (prompts.join("") === "") return missingParameter("prompt");
  const error =
    checkRange(body, "max_tokens", { min: 1, max: 100_000, kind: "integer" }) ??
    checkRange(body, "n", { min: 1, max: 128, kind: "integer" });
  if (error !== undefined) return error;
  const limit = numberIn(body["max_tokens"]) ?? OUTPUT_TOKENS_DEFAULT;
  const choices = prompts.flatMap((one) =>
    Array.from({ length: numberIn(body["n"]) ?? 1 }, () => wordsOf(one).slice(0, limit).join("")),
  );
  const tokens = prompts.reduce((sum, one) => sum + countTokens(one), 0);
  const outputTokens = choices.reduce((sum, one) => sum + wordsOf(one).length, 0);
  const usage = {
    prompt_tokens: tokens,
    completion_tokens: outputTokens,
    total_tokens: tokens + outputTokens,
  };
  const head = { id: "cmpl-sim", object: "text_completion", model: body["model"] };
  const counts = { tokens, outputTokens, text: prompts.join("\n") };
  if (body["stream"] !== true)
    return {
      body: {
        ...head,
        choices: choices.map((text, index) => ({ index, text, finish_reason: "length" })),
        usage,
      },
      ...counts,
    };
  const options = body["stream_options"];
  const isUsageWanted = isObject(options) && options["include_usage"] === true;
  const frames = choices.flatMap((text, index) =>
    wordsOf(text).map((word) => frameOf({ ...head, choices: [{ index, text: word }] })),
  );
  return {
    body: {},
    ...counts,
    stream: {
      frames: [
        ...frames,
        ...(isUsageWanted ? [frameOf({ ...head, choices: [], usage })] : []),
        { data: "data: [DONE]\n\n", isTerminal: true },
      ],
      contentType: "text/event-stream",
    },
  };
}

function wordsOf(text: string): readonly string[] {
  return text.split(/(?<= )/);
}

function frameOf(data: JsonObject): { readonly data: string; readonly isDelta: true } {
  return { data: `data: ${JSON.stringify(data)}\n\n`, isDelta: true };
}
