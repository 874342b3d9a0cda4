// Content of turns and replies in canonical form, independent of any wire. Absent and `undefined` mean the same.

import type { JsonObject } from "../json-fields.ts";

export const WIRE_NAMES = ["chat", "responses", "messages", "gemini", "converse"] as const;
export type WireName = (typeof WIRE_NAMES)[number];

/** Fields that only one wire has. Its own writer writes them unchanged; every other writer adds a loss for each. */
export interface NativeFields {
  readonly wire: WireName;
  readonly fields: JsonObject;
}

export interface CanonicalNode {
  /** The path in the caller's request (`messages[3].content[1]`), for errors. Not part of equality. */
  readonly path?: string | undefined;
  readonly native?: NativeFields | undefined;
}

/** A prompt cache breakpoint after this content. Without `ttl` the provider's default applies. */
export interface CacheBreakpoint {
  readonly ttl?: "5m" | "30m" | "1h" | "12h" | undefined;
}

/** A `file_id` is valid only at the wire whose provider stores the file. */
export type Source =
  | { readonly kind: "base64"; readonly mediaType: string; readonly data: string }
  | {
      readonly kind: "url";
      readonly url: string;
      readonly mediaType?: string | undefined;
      /** Set if the gateway tried to fetch the URL and failed: the reason, as a sentence. */
      readonly problem?: string | undefined;
    }
  | { readonly kind: "text"; readonly mediaType: string; readonly text: string }
  | { readonly kind: "file_id"; readonly wire: WireName; readonly id: string };

/**
 * Opaque data that a provider expects back unchanged. `kind` is what it belongs to: a reasoning part ("signature" of its
 * text, or the "encrypted" reasoning itself), or a call, text or image. Without `origin` the producer is unknown.
 */
export interface OpaqueBlob {
  readonly wire: WireName;
  readonly kind: "signature" | "encrypted" | "call" | "text" | "image";
  readonly data: string;
  readonly origin?: ModelOrigin | undefined;
}

/** A provider and its own name for the model. */
export interface ModelOrigin {
  readonly provider: string;
  readonly model: string;
}

export interface Citation {
  readonly url?: string | undefined;
  readonly title?: string | undefined;
  readonly citedText?: string | undefined;
  /** UTF-16 offsets in the cited text part. Absent: the whole part. */
  readonly start?: number | undefined;
  readonly end?: number | undefined;
  /** The complete citation of its own wire. */
  readonly native?: NativeFields | undefined;
}

export interface TokenLogprob {
  readonly token: string;
  readonly logprob: number;
  readonly bytes?: readonly number[] | null | undefined;
  /** The most likely tokens at this position; they have no `top`. */
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

/** A document, such as PDF or plain text. */
export interface FilePart extends CanonicalNode {
  readonly type: "file";
  readonly source: Source;
  readonly name?: string | undefined;
  /** A note to the model about the document. */
  readonly context?: string | undefined;
  readonly citable?: boolean | undefined;
  readonly cache?: CacheBreakpoint | undefined;
}

/** `transcript` and `id` belong to audio that a model generated. */
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
  /** JSON text for a function ("{}" if empty), free text for a custom tool. Incomplete if the reply was cut off. */
  readonly arguments: string;
  readonly custom?: true | undefined;
  /** The item of the responses API, for a tool that it defines and the client runs; without its ids in a reply. */
  readonly item?: JsonObject | undefined;
  readonly signature?: OpaqueBlob | undefined;
  readonly cache?: CacheBreakpoint | undefined;
}

export interface ToolResultPart extends CanonicalNode {
  readonly type: "tool_result";
  readonly callId: string;
  /** The name of the called tool, filled in by `checkRequest`. */
  readonly name?: string | undefined;
  readonly content: readonly (TextPart | ImagePart | FilePart | MediaPart | NativePart)[];
  readonly isError?: boolean | undefined;
  readonly custom?: true | undefined;
  /** The item of the responses API, for a tool that it defines and the client runs. */
  readonly item?: JsonObject | undefined;
  readonly cache?: CacheBreakpoint | undefined;
}

export interface ReasoningPart extends CanonicalNode {
  readonly type: "reasoning";
  /** Empty if the provider shows none: a part with only a blob is valid and must be kept. */
  readonly text: string;
  /** `text` is a summary by the provider; each of its paragraphs is a separate part. */
  readonly summary?: true | undefined;
  readonly blob?: OpaqueBlob | undefined;
  readonly id?: string | undefined;
}

/** Content that only one wire has, such as a server tool's call or result, or a compaction. */
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
