// The one form between all wires: what a model call says, in no provider's words. A wire reads its own API into this form and
// writes this form as its own API; nothing here knows any wire. Absent and `undefined` mean the same everywhere.
import type { FaultCode } from "../../base/fault.ts";
import type { JsonObject } from "../../base/json.ts";
import type { Usage } from "../../base/usage-meters.ts";
import type { OutputFormat } from "./output-format.ts";

export const WIRE_NAMES = ["chat", "responses", "messages", "gemini", "converse"] as const;
export type WireName = (typeof WIRE_NAMES)[number];

/** Fields that only one wire has a word for. Its own writer gives them back; every other writer reports each as a loss. */
export interface NativeFields {
  readonly wire: WireName;
  readonly fields: JsonObject;
}

/** Where the caller wrote a thing (`messages[3].content[1]`), so that a refusal can name it. Never part of equality. */
interface CanonicalNode {
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

/**
 * One turn. Instructions keep their place and their role. Tool results stand in turns of role "tool", directly after the
 * assistant turn that called, and in nothing else; wires that put them into a user message split and join there.
 */
export interface Turn extends CanonicalNode {
  readonly role: "system" | "developer" | "user" | "assistant" | "tool";
  readonly parts: readonly Part[];
  readonly name?: string | undefined;
}

/** Where the caller's API keeps a tool, and what it is called and said there: a name that is unique in its namespace alone. */
export interface NamespaceMembership {
  readonly namespace: { readonly name: string; readonly description?: string | undefined };
  readonly name: string;
  readonly description?: string | undefined;
}

export interface FunctionTool extends CanonicalNode {
  readonly type: "function";
  /** Unique among all tools, also for one of a namespace. */
  readonly name: string;
  readonly description?: string | undefined;
  readonly parameters?: JsonObject | undefined;
  readonly strict?: boolean | undefined;
  readonly cache?: CacheBreakpoint | undefined;
  readonly member?: NamespaceMembership | undefined;
}

/** A tool whose input is free text, or text of a grammar. */
export interface CustomTool extends CanonicalNode {
  readonly type: "custom";
  readonly name: string;
  readonly description?: string | undefined;
  readonly format?: { readonly syntax: "lark" | "regex"; readonly definition: string } | undefined;
  readonly member?: NamespaceMembership | undefined;
}

/** A tool that runs at the provider. It means nothing elsewhere and is never turned into a function. */
export interface NativeTool {
  readonly type: "native";
  readonly wire: WireName;
  readonly name: string;
  readonly value: JsonObject;
  readonly path?: string | undefined;
}

export type Tool = FunctionTool | CustomTool | NativeTool;

export type ToolChoice =
  | { readonly type: "auto" | "none" | "required" }
  | { readonly type: "tool"; readonly name: string; readonly custom?: true | undefined }
  | {
      readonly type: "allowed";
      readonly mode: "auto" | "required";
      readonly names: readonly string[];
    }
  | { readonly type: "native"; readonly wire: WireName; readonly value: JsonObject };

export const EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh", "max"] as const;
export type Effort = (typeof EFFORTS)[number];

export interface Reasoning {
  readonly effort?: Effort | undefined;
  readonly budgetTokens?: number | undefined;
  /** Absent: the provider's own choice, given the effort. */
  readonly mode?: "off" | "on" | "adaptive" | "between_tools" | undefined;
  /** How much of the reasoning the caller wants to read. */
  readonly summary?: "auto" | "concise" | "detailed" | "none" | undefined;
}

export interface CanonicalRequest {
  /** The caller's name for the model. What goes upstream is `Target.model`. */
  readonly model: string;
  readonly turns: readonly Turn[];
  readonly stream?: boolean | undefined;
  /** The caller wants to see usage in the stream, where its API lets it choose. */
  readonly includeUsage?: boolean | undefined;
  readonly tools?: readonly Tool[] | undefined;
  readonly toolChoice?: ToolChoice | undefined;
  readonly parallelToolCalls?: boolean | undefined;
  readonly output?: OutputFormat | undefined;
  readonly verbosity?: "low" | "medium" | "high" | undefined;
  readonly reasoning?: Reasoning | undefined;
  readonly maxOutputTokens?: number | undefined;
  readonly temperature?: number | undefined;
  readonly topP?: number | undefined;
  readonly topK?: number | undefined;
  readonly seed?: number | undefined;
  readonly frequencyPenalty?: number | undefined;
  readonly presencePenalty?: number | undefined;
  readonly logitBias?: Readonly<Record<string, number>> | undefined;
  readonly logprobs?: boolean | undefined;
  readonly topLogprobs?: number | undefined;
  readonly stop?: readonly string[] | undefined;
  readonly n?: number | undefined;
  readonly serviceTier?: string | undefined;
  /** Who the end user is, as an opaque name. */
  readonly user?: string | undefined;
  readonly safetyIdentifier?: string | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  readonly store?: boolean | undefined;
  readonly cache?: CacheBreakpoint | undefined;
  readonly cacheKey?: string | undefined;
  readonly cacheRetention?: string | undefined;
  /** The caller used `functions`, and reads `function_call` in the reply. */
  readonly legacyFunctions?: true | undefined;
  readonly native?: NativeFields | undefined;
  /** What the caller's API calls the fields above, where that differs from the key here. */
  readonly names?: FieldNames | undefined;
}

export type RequestField = Exclude<
  keyof CanonicalRequest,
  "names" | "native" | "model" | "stream" | "legacyFunctions"
>;
export type FieldNames = Readonly<Partial<Record<RequestField, string>>>;

export const FINISH_REASONS = [
  "stop",
  "stop_sequence",
  "tool_calls",
  "length",
  "context_full",
  "refusal",
  "content_filter",
  "pause",
  "bad_tool_call",
  "error",
] as const;
export type FinishReason = (typeof FINISH_REASONS)[number];

export interface Finish {
  readonly reason: FinishReason;
  /** The word that the provider used. */
  readonly nativeReason?: string | undefined;
  /** The stop sequence that was met. */
  readonly stopSequence?: string | undefined;
  /** The provider's explanation of a refusal. */
  readonly detail?: string | undefined;
}

export interface Choice {
  readonly parts: readonly Part[];
  readonly finish: Finish;
}

export interface CanonicalReply {
  readonly id?: string | undefined;
  readonly model?: string | undefined;
  readonly createdSeconds?: number | undefined;
  /** Never empty: a reply that was blocked has one choice without parts. */
  readonly choices: readonly Choice[];
  readonly usage?: UsageReport | undefined;
  readonly serviceTier?: string | undefined;
}

/** `extras` (the cost) go into the usage object that the caller sees, as they are. */
export interface UsageReport {
  readonly usage: Usage;
  readonly extras?: JsonObject | undefined;
}

/** How a part begins in a stream. What comes whole (an image, a native part) is given whole and has no deltas. */
export type PartHead =
  | { readonly type: "text" }
  | { readonly type: "refusal" }
  | {
      readonly type: "reasoning";
      readonly summary?: true | undefined;
      readonly id?: string | undefined;
    }
  | {
      readonly type: "tool_call";
      readonly id: string;
      readonly name: string;
      readonly custom?: true | undefined;
      readonly signature?: OpaqueBlob | undefined;
      readonly native?: NativeFields | undefined;
    }
  | { readonly type: "whole"; readonly value: ImagePart | MediaPart | FilePart | NativePart };

/**
 * A stream is: start; then for each choice parts, numbered from 0 in the order in which they start, each part_start,
 * deltas, part_end; a finish for each choice after its parts have ended. `usage` may come at any time, the last one holds.
 * `error` ends everything. Parts of one choice may overlap only where the provider interleaves them.
 */
export type CanonicalEvent =
  | (Pick<CanonicalReply, "id" | "model" | "createdSeconds" | "serviceTier"> & {
      readonly type: "start";
    })
  | (PartPosition & { readonly type: "part_start"; readonly head: PartHead })
  | (PartPosition & TextDelta)
  /** The blob of a reasoning or text part, whole, after its text. */
  | (PartPosition & { readonly type: "blob"; readonly blob: OpaqueBlob })
  | (PartPosition & { readonly type: "citation"; readonly citation: Citation })
  | (PartPosition & { readonly type: "part_end" })
  | { readonly type: "finish"; readonly choice: number; readonly finish: Finish }
  | { readonly type: "usage"; readonly report: UsageReport }
  | { readonly type: "error"; readonly error: CanonicalError };

export interface PartPosition {
  readonly choice: number;
  readonly part: number;
}

/** More of a text, refusal or reasoning part, or of a tool call's arguments. Never "" unless it carries `logprobs`. */
interface TextDelta {
  readonly type: "delta";
  readonly text: string;
  readonly logprobs?: readonly TokenLogprob[] | undefined;
}

/** A provider's error in our words. A provider's 401 or 403 is never the caller's: it is `provider_not_configured`. */
export interface CanonicalError {
  readonly code: FaultCode;
  readonly status: number;
  readonly message: string;
  readonly param?: string | undefined;
  /** The provider's own word, such as `context_length_exceeded`. */
  readonly nativeCode?: string | undefined;
  /** Where the provider says it in the body; a `retry-after` header is the transport's to read. */
  readonly retryAfterSeconds?: number | undefined;
  /** Further public fields of the error object. */
  readonly fields?: JsonObject | undefined;
}

/** What the target cannot be told. `byRule`: dropped by a documented rule, listed, never refused. `always`: refused even lossy. */
export interface Loss {
  readonly path: string;
  readonly reason: string;
  readonly tolerated?: true | undefined;
  readonly fatal?: true | undefined;
}
