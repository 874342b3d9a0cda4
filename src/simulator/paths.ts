// Which API a path belongs to. Providers put their APIs under different roots, so only the end of a path counts.

import { chat } from "./chat.ts";
import { converse } from "./converse.ts";
import { readConverseCount } from "./converse-request.ts";
import { gemini } from "./gemini.ts";
import { readGeminiCount } from "./gemini-request.ts";
import { messages } from "./messages.ts";
import { readToCount } from "./messages-request.ts";
import { responses } from "./responses.ts";
import type { Fields } from "./json.ts";
import type { Wire } from "./wire.ts";

interface Counting {
  readonly read: Wire["read"];
  readonly answer: (tokens: number) => Fields;
}

export type Place =
  | {
      readonly kind: "generate";
      readonly wire: Wire;
      readonly pathModel: string;
      readonly streaming: boolean;
    }
  | {
      readonly kind: "count";
      readonly wire: Wire;
      readonly pathModel: string;
      readonly counting: Counting;
    }
  | { readonly kind: "embed"; readonly wire: Wire; readonly pathModel: string }
  | { readonly kind: "models"; readonly wire: Wire; readonly pathModel: string }
  | { readonly kind: "own"; readonly what: string };

const COUNT_MESSAGES: Counting = {
  read: readToCount,
  answer: (tokens) => ({ input_tokens: tokens }),
};
const COUNT_RESPONSES: Counting = {
  read: responses.read,
  answer: (tokens) => ({ object: "response.input_tokens", input_tokens: tokens }),
};
const COUNT_GEMINI: Counting = {
  read: readGeminiCount,
  answer: (tokens) => ({
    totalTokens: tokens,
    promptTokensDetails: [{ modality: "TEXT", tokenCount: tokens }],
  }),
};
const COUNT_CONVERSE: Counting = {
  read: readConverseCount,
  answer: (tokens) => ({ inputTokens: tokens }),
};

const ENDS: readonly (readonly [string, Place])[] = [
  ["/chat/completions", { kind: "generate", wire: chat, pathModel: "", streaming: false }],
  ["/messages", { kind: "generate", wire: messages, pathModel: "", streaming: false }],
  ["/responses", { kind: "generate", wire: responses, pathModel: "", streaming: false }],
  ["/embeddings", { kind: "embed", wire: chat, pathModel: "" }],
  [
    "/messages/count_tokens",
    { kind: "count", wire: messages, pathModel: "", counting: COUNT_MESSAGES },
  ],
  [
    "/responses/input_tokens",
    { kind: "count", wire: responses, pathModel: "", counting: COUNT_RESPONSES },
  ],
];

export function placeOf(path: string): Place | undefined {
  for (const [end, place] of ENDS) if (path.endsWith(end)) return place;
  if (path.startsWith("/sim/")) return { kind: "own", what: path.slice("/sim/".length) };
  return bedrockPlace(path) ?? modelsPlace(path);
}

function bedrockPlace(path: string): Place | undefined {
  const match = /\/model\/(.+)\/(converse|converse-stream|count-tokens)$/.exec(path);
  if (match === null) return undefined;
  const pathModel = decoded(match[1] ?? "");
  if (match[2] === "count-tokens")
    return { kind: "count", wire: converse, pathModel, counting: COUNT_CONVERSE };
  return { kind: "generate", wire: converse, pathModel, streaming: match[2] === "converse-stream" };
}

function modelsPlace(path: string): Place | undefined {
  const match = /\/models(?:\/(.+?))?(?::([a-zA-Z]+))?$/.exec(path);
  if (match === null) return undefined;
  const pathModel = decoded(match[1] ?? "");
  switch (match[2]) {
    case "generateContent":
      return { kind: "generate", wire: gemini, pathModel, streaming: false };
    case "streamGenerateContent":
      return { kind: "generate", wire: gemini, pathModel, streaming: true };
    case "countTokens":
      return { kind: "count", wire: gemini, pathModel, counting: COUNT_GEMINI };
    case "embedContent":
    case "batchEmbedContents":
      return { kind: "embed", wire: gemini, pathModel };
    case undefined:
      return { kind: "models", wire: path.includes("/v1beta/") ? gemini : chat, pathModel };
    default:
      return undefined;
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
