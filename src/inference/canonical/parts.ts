// The content of turns and replies, in no wire's own words. Absent and `undefined` mean the same.
import type { JsonObject } from "../../base/json.ts";

export const WIRE_NAMES = ["chat", "responses", "messages", "gemini", "converse"] as const;
export type WireName = (typeof WIRE_NAMES)[number];

/** Fields that only one wire has a word for. Its own writer gives them back; every other writer reports each as a loss. */
export interface NativeFields {
  readonly wire: WireName;
  readonly fields: JsonObject;
}

/** Where the caller wrote a thing (`messages[3].content[1]`), so that a refusal can name it. Never part of equality. */
export interface CanonicalNode {
  readonly path?: string | undefined;
  readonly native?: NativeFields | undefined;
}

/** A prompt cache breakpoint after this thing. Without `ttl` it is the provider's default. */
export interface CacheBreakpoint {
  readonly ttl?: "5m" | "30m" | "1h" | "12h" | undefined;
}

/** Bytes in base64, an address, or a file that lies with one provider. `mediaType` is absent only where nobody said. */
export type Source =
  | { readonly kind: "base64"; readonly mediaType: string; readonly data: string }
  | { readonly kind: "url"; readonly url: string; readonly mediaType?: string | undefined }
  | { readonly kind: "text"; readonly mediaType: string; readonly text: string }
  | { readonly kind: "file_id"; readonly wire: WireName; readonly id: string };

/**
 * What a provider wants back unread. `kind` says what it belongs to: the reasoning part that holds it ("signature" proves
 * its text, "encrypted" is the reasoning itself), or the call, text or image that holds it. Without `origin` it came bare.
 */
export interface OpaqueBlob {
  readonly wire: WireName;
  readonly kind: "signature" | "encrypted" | "call" | "text" | "image";
  readonly data: string;
  readonly origin?: ModelOrigin | undefined;
}

/** The provider and the model (as that provider names it) that made a thing. */
export interface ModelOrigin {
  readonly provider: string;
  readonly model: string;
}

export interface Citation {
  readonly url?: string | undefined;
  readonly title?: string | undefined;
  readonly citedText?: string | undefined;
  /** UTF-16 positions within the text part that holds the citation. Absent: all of it. */
  readonly start?: number | undefined;
  readonly end?: number | undefined;
  /** The citation as its own wire wrote it, in full. */
  readonly native?: NativeFields | undefined;
}

export interface TokenLogprob {
  readonly token: string;
  readonly logprob: number;
  readonly bytes?: readonly number[] | null | undefined;
  /** The likeliest tokens at this place; these have no `top` of their own. */
  readonly top?: readonly TokenLogprob[] | undefined;
}

export interface TextPart extends CanonicalNode {
  readonly type: "text";
  readonly text: string;
  readonly cache?: CacheBreakpoint | undefined;
  readonly citations?: readonly Citation[] | undefined;
  readonly logprobs?: readonly TokenLogprob[] | undefined;
  readonly signature?: OpaqueBlob | undefined;
}

export interface RefusalPart extends CanonicalNode {
  readonly type: "refusal";
  readonly text: string;
  readonly logprobs?: readonly TokenLogprob[] | undefined;
}

export interface ImagePart extends CanonicalNode {
  readonly type: "image";
  readonly source: Source;
  readonly detail?: "auto" | "low" | "high" | "original" | undefined;
  readonly cache?: CacheBreakpoint | undefined;
  readonly signature?: OpaqueBlob | undefined;
}

/** A document: PDF, plain text and the like. */
export interface FilePart extends CanonicalNode {
  readonly type: "file";
  readonly source: Source;
  readonly name?: string | undefined;
  /** What the document is, told to the model beside it. */
  readonly context?: string | undefined;
  /** True: the model may cite it. */
  readonly citable?: boolean | undefined;
  readonly cache?: CacheBreakpoint | undefined;
}

/** Sound or moving pictures. `transcript` and `id` come with sound that a model made. */
export interface MediaPart extends CanonicalNode {
  readonly type: "audio" | "video";
  readonly source: Source;
  readonly id?: string | undefined;
  readonly transcript?: string | undefined;
  readonly cache?: CacheBreakpoint | undefined;
}

export interface ToolCallPart extends CanonicalNode {
  readonly type: "tool_call";
  readonly id: string;
  readonly name: string;
  /** JSON text for a function ("{}" for none), free text for a custom tool. Cut short where the reply was. */
  readonly arguments: string;
  readonly custom?: true | undefined;
  readonly signature?: OpaqueBlob | undefined;
  readonly cache?: CacheBreakpoint | undefined;
}

export interface ToolResultPart extends CanonicalNode {
  readonly type: "tool_result";
  readonly callId: string;
  /** The called tool's name; `checkRequest` fills it in from the call. */
  readonly name?: string | undefined;
  readonly content: readonly (TextPart | ImagePart | FilePart | MediaPart | NativePart)[];
  readonly isError?: boolean | undefined;
  readonly custom?: true | undefined;
  readonly cache?: CacheBreakpoint | undefined;
}

export interface ReasoningPart extends CanonicalNode {
  readonly type: "reasoning";
  /** What the model thought, as far as its provider shows it. "" with a blob is valid and must survive. */
  readonly text: string;
  /** True where `text` is a summary by the provider; each paragraph that it keeps apart is a part of its own. */
  readonly summary?: true | undefined;
  readonly blob?: OpaqueBlob | undefined;
  readonly id?: string | undefined;
}

/** Content that only one wire can say: a server tool's call or result, a compaction, executable code. */
export interface NativePart {
  readonly type: "native";
  readonly wire: WireName;
  readonly value: JsonObject;
  readonly path?: string | undefined;
}

export type Part =
  | TextPart
  | RefusalPart
  | ImagePart
  | FilePart
  | MediaPart
  | ToolCallPart
  | ToolResultPart
  | ReasoningPart
  | NativePart;
