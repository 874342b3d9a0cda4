// A model call in canonical form: every inbound wire reads it, every outbound wire writes it.
import type { WireName, NativeFields, CanonicalNode, CacheBreakpoint, Part } from "./parts.ts";
import type { JsonObject } from "../../base/json.ts";

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

/** The format that the caller wants the reply in. */
export type OutputFormat =
  | { readonly type: "text" }
  | { readonly type: "json_object" }
  | {
      readonly type: "json_schema";
      readonly schema: JsonObject;
      readonly name?: string | undefined;
      readonly description?: string | undefined;
      readonly strict?: boolean | undefined;
      readonly strictPath?: string | undefined;
    };

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
