// The tokens of a request's input, for endpoints that only count: OpenAI's tokenizer over its texts, at the ratio that recorded
// calls of the model's family have to it. Half of the recorded calls with text alone are within 10%.

import { isObject, type JsonObject, arrayIn } from "../../base/json.ts";
import { inlineMediaOf } from "./input-bound.ts";
import { estimateMediaTokens } from "./input-estimate.ts";
import { countTextTokens, encodingOf } from "./tokens/tokenizer.ts";

export interface InputCount {
  readonly tokens: number;
  /** `estimate` for a family whose tokenizer has no package. */
  readonly method: "tokenizer" | "estimate";
}

interface Calibration {
  readonly model: RegExp;
  /** Tokens per token of OpenAI's tokenizer, in prose and in definitions of tools. */
  readonly text: number;
  readonly definitions: number;
  readonly message: number;
  readonly tool: number;
  /** What the provider adds to every request, and to one with tools. */
  readonly request: number;
  readonly instructions: number;
}

const OTHERS = { text: 1, definitions: 0.4, message: 4.7, tool: 0, request: 2, instructions: 36 };

/** Fitted to 673 recorded calls without media on 2026-11-28, by the least relative error. */
const CALIBRATIONS: readonly Calibration[] = [
  {
    model: /claude/,
    text: 1.06,
    definitions: 1.08,
    message: 4.4,
    tool: 58,
    request: 28,
    instructions: 434,
  },
  {
    model: /gemini|gemma/,
    text: 1.04,
    definitions: 1,
    message: 4,
    tool: 2,
    request: 0,
    instructions: 0,
  },
];

const CONTENT_FIELDS = ["system", "instructions", "messages", "input"] as const;
const SCHEMA_FIELDS = ["tools", "response_format", "output_config", "text"] as const;
/** Members that no model reads as text. */
const LABELS: ReadonlySet<string> = new Set([
  "type",
  "role",
  "id",
  "call_id",
  "tool_call_id",
  "tool_use_id",
  "media_type",
  "signature",
  "encrypted_content",
  "cache_control",
  "status",
]);
const DEPTH_MAX = 64;

export async function countRequestTokens(json: JsonObject, model: string): Promise<InputCount> {
  const { text, definitions, message, tool, request, instructions } = calibrationOf(model);
  const encoding = encodingOf(model) ?? "o200k_base";
  const media = inlineMediaOf(json);
  const texts: string[] = [];
  for (const field of CONTENT_FIELDS) addTexts(json[field], media, texts, 0);
  const schemas = SCHEMA_FIELDS.flatMap((field) =>
    isObject(json[field]) || Array.isArray(json[field]) ? [JSON.stringify(json[field])] : [],
  );
  const [content, schema] = await Promise.all([
    countTextTokens(texts.join("\n"), encoding, true),
    countTextTokens(schemas.join("\n"), encoding, true),
  ]);
  const messages = Math.max(1, arrayIn(json["messages"]).length + arrayIn(json["input"]).length);
  const tools = arrayIn(json["tools"]).length;
  const overhead = request + message * messages + (tools > 0 ? instructions + tool * tools : 0);
  return {
    tokens: Math.round(
      content * text + schema * definitions + overhead + estimateMediaTokens(json, model),
    ),
    method: encodingOf(model) === undefined ? "estimate" : "tokenizer",
  };
}

function calibrationOf(model: string): Calibration {
  return CALIBRATIONS.find((one) => one.model.test(model)) ?? { model: /./, ...OTHERS };
}

function addTexts(
  value: unknown,
  media: ReadonlySet<string>,
  texts: string[],
  depth: number,
): void {
  if (typeof value === "string") {
    if (!media.has(value)) texts.push(value);
  } else if (typeof value === "number") texts.push(String(value));
  else if (depth > DEPTH_MAX) return;
  else if (Array.isArray(value)) for (const one of value) addTexts(one, media, texts, depth + 1);
  else if (isObject(value))
    for (const name in value) if (!LABELS.has(name)) addTexts(value[name], media, texts, depth + 1);
}
