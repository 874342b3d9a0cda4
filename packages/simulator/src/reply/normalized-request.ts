// A request in a form that is independent of its wire.

import type { JsonObject } from "../json-readers.ts";
import { countTokens } from "./tokens.ts";

export interface Tool {
  readonly name: string;
  /** The namespace of a tool in the Responses API. */
  readonly namespace?: string;
  readonly schema: unknown;
  /** A tool that takes text instead of JSON. */
  readonly isFreeform: boolean;
  readonly isStrict?: boolean;
}

export type ToolChoice =
  | { readonly kind: "auto" }
  | { readonly kind: "none" }
  | { readonly kind: "required" }
  | { readonly kind: "named"; readonly names: readonly string[] };

export type ResponseFormat =
  | { readonly kind: "text" }
  | { readonly kind: "object" }
  | {
      readonly kind: "schema";
      readonly schema: unknown;
      readonly name?: string;
      readonly isStrict?: boolean;
    };

export type CacheTtl = "5m" | "1h";

/** A part of the prompt, in prompt-cache order. */
interface PromptSegment {
  readonly text: string;
  readonly tokens: number;
  cacheTtl?: CacheTtl;
}

export interface NormalizedRequest {
  readonly body: JsonObject;
  readonly model: string;
  isStream: boolean;
  /** Streamed as server-sent events; false for Gemini's JSON array stream. */
  isSse: boolean;
  /** The conversation in the API's own items, for `previous_response_id`. */
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
  choiceCount: number;
  /** The requested number of reasoning tokens; undefined for the model's default. */
  reasoningTokens: number | undefined;
  imageCount: number;
  audioCount: number;
  fileCount: number;
  audioTokens: number;
  imageTokens: number;
  serviceTier: string | undefined;
}

/** A rejected request, independent of the wire's error format. */
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

/** Media of one kind cost a fixed number of tokens. The source is part of the prompt, so another image misses the cache. */
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

/** Applies a standalone cache marker to the segment before it. */
export function cacheLastSegment(request: NormalizedRequest, cacheTtl: CacheTtl): void {
  const last = request.segments.at(-1);
  if (last !== undefined) last.cacheTtl = cacheTtl;
}

/** Only the latest user turn counts for the reply. */
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
