// What a client asked for, freed from the wire that it came by. A wire's reader fills it, the composer answers it.

import type { JsonObject } from "../../base/json.ts";
import { countTokens } from "./tokens.ts";

export interface Tool {
  readonly name: string;
  readonly schema: unknown;
  /** A tool that takes text instead of JSON. */
  readonly isFreeform: boolean;
}

export type ToolChoice =
  | { readonly kind: "auto" }
  | { readonly kind: "none" }
  | { readonly kind: "required" }
  | { readonly kind: "named"; readonly names: readonly string[] };

export type ResponseFormat =
  | { readonly kind: "text" }
  | { readonly kind: "object" }
  | { readonly kind: "schema"; readonly schema: unknown };

export type CacheTtl = "5m" | "1h";

/** A part of the prompt, in the order in which a provider's cache sees it. */
interface PromptSegment {
  readonly text: string;
  readonly tokens: number;
  cacheTtl?: CacheTtl;
}

export interface NormalizedRequest {
  readonly body: JsonObject;
  readonly model: string;
  isStream: boolean;
  /** Streamed as server-sent events, on the wire that has another way. */
  isSse: boolean;
  /** The conversation in the API's own items, where a later request can go on from it. */
  items: readonly unknown[];
  readonly segments: PromptSegment[];
  userText: string;
  toolResults: string[];
  tools: readonly Tool[];
  toolChoice: ToolChoice;
  allowsParallelCalls: boolean;
  responseFormat: ResponseFormat;
  maxTokens: number | undefined;
  stopSequences: readonly string[];
  /** How many replies. */
  choiceCount: number;
  /** Tokens of reasoning that the request asks for; undefined leaves it to the model. */
  reasoningTokens: number | undefined;
  imageCount: number;
  audioCount: number;
  fileCount: number;
  audioTokens: number;
  imageTokens: number;
  serviceTier: string | undefined;
}

/** A request that this provider refuses, before the wire has given it a form. */
export interface InvalidRequest {
  readonly invalid: true;
  readonly status: number;
  readonly message: string;
  readonly param?: string;
  readonly code?: string;
}

const MEDIA_TOKENS = { image: 256, audio: 128, file: 512 } as const;
export type MediaKind = keyof typeof MEDIA_TOKENS;

export function invalidRequest(
  status: number,
  message: string,
  param?: string,
  code?: string,
): InvalidRequest {
  return {
    invalid: true,
    status,
    message,
    ...(param === undefined ? {} : { param }),
    ...(code === undefined ? {} : { code }),
  };
}

export function isInvalid(value: NormalizedRequest | InvalidRequest): value is InvalidRequest {
  return "invalid" in value;
}

export function newRequest(body: JsonObject, model: string): NormalizedRequest {
  return {
    body,
    model,
    isStream: body["stream"] === true,
    isSse: true,
    items: [],
    segments: [],
    userText: "",
    toolResults: [],
    tools: [],
    toolChoice: { kind: "auto" },
    allowsParallelCalls: true,
    responseFormat: { kind: "text" },
    maxTokens: undefined,
    stopSequences: [],
    choiceCount: 1,
    reasoningTokens: undefined,
    imageCount: 0,
    audioCount: 0,
    fileCount: 0,
    audioTokens: 0,
    imageTokens: 0,
    serviceTier: undefined,
  };
}

export function addText(request: NormalizedRequest, text: string, cacheTtl?: CacheTtl): void {
  request.segments.push({
    text,
    tokens: countTokens(text),
    ...(cacheTtl === undefined ? {} : { cacheTtl }),
  });
}

/** A medium costs the same whatever its size; its source takes part in the prompt so that another image is another prompt. */
export function addMedia(
  request: NormalizedRequest,
  kind: MediaKind,
  source: string,
  cacheTtl?: CacheTtl,
): void {
  const tokens = MEDIA_TOKENS[kind];
  request.segments.push({ text: source, tokens, ...(cacheTtl === undefined ? {} : { cacheTtl }) });
  if (kind === "image") {
    request.imageCount += 1;
    request.imageTokens += tokens;
  } else if (kind === "audio") {
    request.audioCount += 1;
    request.audioTokens += tokens;
  } else request.fileCount += 1;
}

/** A marker that stands by itself belongs to the part before it. */
export function cacheLastSegment(request: NormalizedRequest, cacheTtl: CacheTtl): void {
  const last = request.segments.at(-1);
  if (last !== undefined) last.cacheTtl = cacheTtl;
}

/** The newest user turn replaces what an older one said. */
export function startUserTurn(request: NormalizedRequest): void {
  request.userText = "";
  request.toolResults = [];
  request.imageCount = 0;
  request.audioCount = 0;
  request.fileCount = 0;
}

export function addUserText(request: NormalizedRequest, text: string): void {
  request.userText = request.userText === "" ? text : `${request.userText}\n${text}`;
}

export function promptTokens(request: NormalizedRequest): number {
  let tokens = 0;
  for (const segment of request.segments) tokens += segment.tokens;
  return Math.max(1, tokens);
}
