// What a client asked for, freed from the wire that it came by. A wire's reader fills it, the composer answers it.

import type { Fields } from "./json.ts";
import { countTokens } from "./tokens.ts";

export interface Tool {
  readonly name: string;
  readonly schema: unknown;
  /** A tool that takes text instead of JSON. */
  readonly freeform: boolean;
}

export type ToolChoice =
  | { readonly kind: "auto" }
  | { readonly kind: "none" }
  | { readonly kind: "required" }
  | { readonly kind: "named"; readonly names: readonly string[] };

export type Format =
  | { readonly kind: "text" }
  | { readonly kind: "object" }
  | { readonly kind: "schema"; readonly schema: unknown };

export type CacheLife = "5m" | "1h";

/** A part of the prompt, in the order in which a provider's cache sees it. */
interface Segment {
  readonly text: string;
  readonly tokens: number;
  mark?: CacheLife;
}

export interface Ask {
  readonly body: Fields;
  readonly model: string;
  stream: boolean;
  /** Streamed as server-sent events, on the wire that has another way. */
  events: boolean;
  /** The conversation in the API's own items, where a later request can go on from it. */
  items: readonly unknown[];
  readonly segments: Segment[];
  userText: string;
  toolResults: string[];
  tools: readonly Tool[];
  toolChoice: ToolChoice;
  parallel: boolean;
  format: Format;
  maxTokens: number | undefined;
  stop: readonly string[];
  /** How many replies. */
  count: number;
  /** Tokens of reasoning that the request asks for; undefined leaves it to the model. */
  reasoning: number | undefined;
  images: number;
  audio: number;
  files: number;
  audioTokens: number;
  imageTokens: number;
  serviceTier: string | undefined;
}

/** A request that this provider refuses, before the wire has given it a form. */
export interface Wrong {
  readonly wrong: true;
  readonly status: number;
  readonly message: string;
  readonly param?: string;
  readonly code?: string;
}

const MEDIA_TOKENS = { image: 256, audio: 128, file: 512 } as const;
export type Media = keyof typeof MEDIA_TOKENS;

export function wrong(status: number, message: string, param?: string, code?: string): Wrong {
  return {
    wrong: true,
    status,
    message,
    ...(param === undefined ? {} : { param }),
    ...(code === undefined ? {} : { code }),
  };
}

export function isWrong(value: Ask | Wrong): value is Wrong {
  return "wrong" in value;
}

export function newAsk(body: Fields, model: string): Ask {
  return {
    body,
    model,
    stream: body["stream"] === true,
    events: true,
    items: [],
    segments: [],
    userText: "",
    toolResults: [],
    tools: [],
    toolChoice: { kind: "auto" },
    parallel: true,
    format: { kind: "text" },
    maxTokens: undefined,
    stop: [],
    count: 1,
    reasoning: undefined,
    images: 0,
    audio: 0,
    files: 0,
    audioTokens: 0,
    imageTokens: 0,
    serviceTier: undefined,
  };
}

export function addText(ask: Ask, text: string, mark?: CacheLife): void {
  ask.segments.push({ text, tokens: countTokens(text), ...(mark === undefined ? {} : { mark }) });
}

/** A medium costs the same whatever its size; its source takes part in the prompt so that another image is another prompt. */
export function addMedia(ask: Ask, kind: Media, source: string, mark?: CacheLife): void {
  const tokens = MEDIA_TOKENS[kind];
  ask.segments.push({ text: source, tokens, ...(mark === undefined ? {} : { mark }) });
  if (kind === "image") {
    ask.images += 1;
    ask.imageTokens += tokens;
  } else if (kind === "audio") {
    ask.audio += 1;
    ask.audioTokens += tokens;
  } else ask.files += 1;
}

/** A marker that stands by itself belongs to the part before it. */
export function markLast(ask: Ask, mark: CacheLife): void {
  const last = ask.segments.at(-1);
  if (last !== undefined) last.mark = mark;
}

/** The newest user turn replaces what an older one said. */
export function startUserTurn(ask: Ask): void {
  ask.userText = "";
  ask.toolResults = [];
  ask.images = 0;
  ask.audio = 0;
  ask.files = 0;
}

export function addUserText(ask: Ask, text: string): void {
  ask.userText = ask.userText === "" ? text : `${ask.userText}\n${text}`;
}

export function promptTokens(ask: Ask): number {
  let tokens = 0;
  for (const segment of ask.segments) tokens += segment.tokens;
  return Math.max(1, tokens);
}
