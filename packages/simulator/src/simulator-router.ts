// Matches a path to an API by its suffix only, since providers put their APIs under different roots.

import type { JsonObject } from "./json-readers.ts";
import { parseConverseCountRequest } from "./wires/converse-request.ts";
import { parseGeminiCountRequest } from "./wires/gemini-request.ts";
import { parseCountRequest } from "./wires/messages-request.ts";
import type { SimpleApi } from "./wires/simple-endpoints.ts";
import { chatWire } from "./wires/simulated-chat.ts";
import { converseWire } from "./wires/simulated-converse.ts";
import { geminiWire } from "./wires/simulated-gemini.ts";
import { messagesWire } from "./wires/simulated-messages.ts";
import { compactWire, responsesWire } from "./wires/simulated-responses.ts";
import type { SimulatedWire } from "./wires/simulated-wire.ts";

interface TokenCounting {
  readonly parseRequest: SimulatedWire["parseRequest"];
  readonly countBody: (tokens: number) => JsonObject;
}

export type RouteMatch =
  | {
      readonly kind: "generate";
      readonly wire: SimulatedWire;
      readonly pathModel: string;
      readonly isStreaming: boolean;
    }
  | {
      readonly kind: "count";
      readonly wire: SimulatedWire;
      readonly pathModel: string;
      readonly tokenCounting: TokenCounting;
    }
  | {
      readonly kind: "simple";
      readonly wire: SimulatedWire;
      readonly pathModel: string;
      readonly api?: SimpleApi;
    }
  | { readonly kind: "models"; readonly wire: SimulatedWire; readonly pathModel: string }
  | { readonly kind: "control"; readonly name: string };

const COUNT_MESSAGES: TokenCounting = {
  parseRequest: parseCountRequest,
  countBody: (tokens) => ({ input_tokens: tokens }),
};
const COUNT_RESPONSES: TokenCounting = {
  parseRequest: responsesWire.parseRequest,
  countBody: (tokens) => ({ object: "response.input_tokens", input_tokens: tokens }),
};
const COUNT_GEMINI: TokenCounting = {
  parseRequest: parseGeminiCountRequest,
  countBody: (tokens) => ({
    totalTokens: tokens,
    promptTokensDetails: [{ modality: "TEXT", tokenCount: tokens }],
  }),
};
const COUNT_CONVERSE: TokenCounting = {
  parseRequest: parseConverseCountRequest,
  countBody: (tokens) => ({ inputTokens: tokens }),
};

const PATH_SUFFIXES: readonly (readonly [string, RouteMatch])[] = [
  ["/chat/completions", { kind: "generate", wire: chatWire, pathModel: "", isStreaming: false }],
  ["/messages", { kind: "generate", wire: messagesWire, pathModel: "", isStreaming: false }],
  ["/responses", { kind: "generate", wire: responsesWire, pathModel: "", isStreaming: false }],
  [
    "/responses/compact",
    { kind: "generate", wire: compactWire, pathModel: "", isStreaming: false },
  ],
  ["/embeddings", { kind: "simple", wire: chatWire, pathModel: "", api: "embeddings" }],
  ["/images/generations", { kind: "simple", wire: chatWire, pathModel: "", api: "images" }],
  ["/images/edits", { kind: "simple", wire: chatWire, pathModel: "", api: "image_edits" }],
  ["/audio/speech", { kind: "simple", wire: chatWire, pathModel: "", api: "speech" }],
  [
    "/audio/transcriptions",
    { kind: "simple", wire: chatWire, pathModel: "", api: "transcriptions" },
  ],
  ["/audio/translations", { kind: "simple", wire: chatWire, pathModel: "", api: "translations" }],
  ["/rerank", { kind: "simple", wire: chatWire, pathModel: "", api: "rerank" }],
  ["/decisions", { kind: "simple", wire: chatWire, pathModel: "", api: "decisions" }],
  ["/completions", { kind: "simple", wire: chatWire, pathModel: "", api: "completions" }],
  ["/moderations", { kind: "simple", wire: chatWire, pathModel: "", api: "moderations" }],
  [
    "/messages/count_tokens",
    { kind: "count", wire: messagesWire, pathModel: "", tokenCounting: COUNT_MESSAGES },
  ],
  [
    "/responses/input_tokens",
    { kind: "count", wire: responsesWire, pathModel: "", tokenCounting: COUNT_RESPONSES },
  ],
];

export function matchRoute(path: string): RouteMatch | undefined {
  for (const [suffix, route] of PATH_SUFFIXES) if (path.endsWith(suffix)) return route;
  if (path.startsWith("/sim/")) return { kind: "control", name: path.slice("/sim/".length) };
  return matchBedrockRoute(path) ?? matchModelsRoute(path);
}

function matchBedrockRoute(path: string): RouteMatch | undefined {
  const match = /\/model\/(.+)\/(converse|converse-stream|count-tokens)$/.exec(path);
  if (match === null) return undefined;
  const pathModel = decodePath(match[1] ?? "");
  if (match[2] === "count-tokens")
    return { kind: "count", wire: converseWire, pathModel, tokenCounting: COUNT_CONVERSE };
  return {
    kind: "generate",
    wire: converseWire,
    pathModel,
    isStreaming: match[2] === "converse-stream",
  };
}

function matchModelsRoute(path: string): RouteMatch | undefined {
  const match = /\/models(?:\/(.+?))?(?::([a-zA-Z]+))?$/.exec(path);
  if (match === null) return undefined;
  const pathModel = decodePath(match[1] ?? "");
  switch (match[2]) {
    case "generateContent":
      return { kind: "generate", wire: geminiWire, pathModel, isStreaming: false };
    case "streamGenerateContent":
      return { kind: "generate", wire: geminiWire, pathModel, isStreaming: true };
    case "countTokens":
      return { kind: "count", wire: geminiWire, pathModel, tokenCounting: COUNT_GEMINI };
    case "embedContent":
    case "batchEmbedContents":
      return { kind: "simple", wire: geminiWire, pathModel };
    case undefined:
      return { kind: "models", wire: path.includes("/v1beta/") ? geminiWire : chatWire, pathModel };
    default:
      return undefined;
  }
}

function decodePath(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
