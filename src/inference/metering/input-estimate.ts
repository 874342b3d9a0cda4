// A count of input tokens for calls that end before their usage: a tokenizer's count or somewhat more, never the encoded
// bytes of media. It reads the request once, and only for such calls.

import { isObject, type JsonObject, arrayIn } from "../../base/json.ts";
import { imageRuleOf } from "../../models/tables/image-tokens.ts";
import { countMedia, inlineMediaOf, tokensBySize } from "./input-bound.ts";
import { estimateTextTokens } from "./text-estimate.ts";

export interface InputEstimateContext {
  /** The id of the model: media and tools count differently by its family. */
  readonly model: string;
  readonly contextTokens: number;
}

/** The estimate for an image, for a model whose provider publishes no rule. */
const IMAGE_TOKENS = 1_600;
/** A file of unknown length: a recorded PDF of six pages. */
const FILE_TOKENS = 9_000;
const AUDIO_TOKENS_MIN = 1_000;
/** At 32 kbit/s, which is little for speech, and 25 tokens a second. */
const MEDIA_BYTES_PER_TOKEN = 32;

const MESSAGE_TOKENS = 8;
const TOOL_TOKENS = 24;
/** Tokens that a provider adds to every request, to one with tools, and to one with an output schema: the highest recorded. */
const INSTRUCTIONS: readonly InstructionTokens[] = [
  { model: /claude/, request: 32, tools: 600, schema: 120 },
  { model: /grok/, request: 200, tools: 280, schema: 120 },
  { model: /llama/, request: 64, tools: 560, schema: 120 },
  { model: /./, request: 64, tools: 260, schema: 120 },
];
/** Anthropic's instructions for citations of a document. */
const CITATION_TOKENS = 600;

interface InstructionTokens {
  readonly model: RegExp;
  readonly request: number;
  readonly tools: number;
  readonly schema: number;
}

const SCHEMA_FIELDS = ["response_format", "output_format", "output_config"] as const;

export function estimateInputTokens(
  json: JsonObject,
  { model, contextTokens }: InputEstimateContext,
): number {
  const messages = arrayIn(json["messages"]).length + arrayIn(json["input"]).length;
  const text = textTokensOf(json, inlineMediaOf(json));
  const overhead = MESSAGE_TOKENS * messages + instructionTokens(json, model);
  return Math.min(contextTokens, Math.ceil(text + overhead + estimateMediaTokens(json, model)));
}

/** What images, audio and files count at most. */
export function estimateMediaTokens(json: JsonObject, model: string): number {
  const rule = imageRuleOf(model);
  return countMedia(json, (kind, part, bytes) => {
    if (kind === "image")
      return rule === undefined ? IMAGE_TOKENS : (tokensBySize(part, rule) ?? rule.usual);
    const byBytes = Math.ceil(bytes / MEDIA_BYTES_PER_TOKEN);
    return Math.max(kind === "audio" ? AUDIO_TOKENS_MIN : FILE_TOKENS, byBytes);
  }).tokens;
}

function instructionTokens(json: JsonObject, model: string): number {
  const added = INSTRUCTIONS.find((one) => one.model.test(model));
  if (added === undefined) return 0;
  const tools = arrayIn(json["tools"]).length;
  const { text } = json;
  const hasSchema =
    SCHEMA_FIELDS.some((field) => isObject(json[field])) ||
    (isObject(text) && isObject(text["format"]));
  return (
    added.request +
    (hasSchema ? added.schema : 0) +
    (tools === 0 ? 0 : added.tools + TOOL_TOKENS * tools)
  );
}

/** Below the parser's own limit; deeper values are no content. */
const DEPTH_MAX = 64;

function textTokensOf(value: unknown, media: ReadonlySet<string>, depth = 0): number {
  if (typeof value === "string") return media.has(value) ? 0 : estimateTextTokens(value);
  if (typeof value === "number") return String(value).length;
  if (depth > DEPTH_MAX || typeof value !== "object" || value === null) return 1;
  let tokens = 0;
  if (Array.isArray(value))
    for (const item of value) tokens += textTokensOf(item, media, depth + 1);
  else if (isObject(value))
    for (const name in value) {
      const member = value[name];
      if (name === "citations") tokens += CITATION_TOKENS;
      tokens += estimateTextTokens(name);
      tokens +=
        ENCRYPTED_FIELDS.has(name) && typeof member === "string"
          ? Math.ceil(member.length / ENCRYPTED_BYTES_PER_TOKEN)
          : textTokensOf(member, media, depth + 1);
    }
  return tokens;
}

/** Reasoning of earlier turns, which counts as what it says. */
const ENCRYPTED_FIELDS: ReadonlySet<string> = new Set(["encrypted_content", "signature"]);
const ENCRYPTED_BYTES_PER_TOKEN = 8;
