// A request in canonical form: every inbound wire reads it, every outbound wire writes it.

import type { JsonObject } from "../json-fields.ts";
import type {
  CacheBreakpoint,
  CanonicalNode,
  NativeFields,
  Part,
  WireName,
} from "./canonical-parts.ts";

/**
 * Instructions keep their position and role. Tool results are only in turns of role "tool", directly after the assistant
 * turn with the calls; wires that have them in user messages split and join there.
 */
export interface Turn extends CanonicalNode {
  readonly role: "system" | "developer" | "user" | "assistant" | "tool";
  readonly parts: readonly Part[];
  readonly name?: string | undefined;
}

export function isInstruction({ role }: Turn): boolean {
  return role === "system" || role === "developer";
}

export function turnPath({ path }: Turn): string {
  return path ?? "messages";
}

/** The namespace of a tool in the caller's API, and its name and description there. The name is unique in the namespace only. */
export interface NamespaceMembership {
  readonly namespace: { readonly name: string; readonly description?: string | undefined };
  readonly name: string;
  readonly description?: string | undefined;
}

export interface FunctionTool extends CanonicalNode {
  readonly type: "function";
  /** Unique among all tools, across namespaces. */
  readonly name: string;
  readonly description?: string | undefined;
  readonly parameters?: JsonObject | undefined;
  readonly strict?: boolean | undefined;
  readonly cache?: CacheBreakpoint | undefined;
  readonly member?: NamespaceMembership | undefined;
  readonly isLoaded?: true | undefined;
}

/** A tool whose input is free text or follows a grammar. */
export interface CustomTool extends CanonicalNode {
  readonly type: "custom";
  readonly name: string;
  readonly description?: string | undefined;
  readonly format?: { readonly syntax: "lark" | "regex"; readonly definition: string } | undefined;
  readonly member?: NamespaceMembership | undefined;
  /** Loaded by an item of the conversation, where the responses API reads it. */
  readonly isLoaded?: true | undefined;
}

/** A server tool, which runs at the provider. It is never translated to a function. */
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
  /** Absent: the provider's default for the effort. */
  readonly mode?: "off" | "on" | "adaptive" | "between_tools" | undefined;
  readonly summary?: "auto" | "concise" | "detailed" | "none" | undefined;
  /** The caller did not ask for this `summary`: it is its API's default. Not part of equality. */
  readonly isDefaultSummary?: true | undefined;
}

export type OutputFormat =
  | { readonly type: "text" }
  | { readonly type: "json_object" }
  | {
      readonly type: "json_schema";
      readonly schema: JsonObject;
      readonly name?: string | undefined;
      readonly description?: string | undefined;
      readonly strict?: boolean | undefined;
      /** The field of an API that always enforces the schema. Not part of equality. */
      readonly strictPath?: string | undefined;
    };

export interface CanonicalRequest {
  /** The caller's name for the model; `Target.model` is sent upstream. */
  readonly model: string;
  readonly turns: readonly Turn[];
  readonly stream?: boolean | undefined;
  /** The caller wants usage in the stream, if its API has the option. */
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
  /** An opaque end-user ID. */
  readonly user?: string | undefined;
  readonly safetyIdentifier?: string | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  readonly store?: boolean | undefined;
  readonly cache?: CacheBreakpoint | undefined;
  readonly cacheKey?: string | undefined;
  readonly cacheRetention?: string | undefined;
  /** The caller used `functions` and expects `function_call` in the reply. */
  readonly legacyFunctions?: true | undefined;
  readonly native?: NativeFields | undefined;
  /** The caller's names of the fields above that differ from the key here, for errors. */
  readonly names?: FieldNames | undefined;
}

export type RequestField = Exclude<
  keyof CanonicalRequest,
  "names" | "native" | "model" | "stream" | "legacyFunctions"
>;
export type FieldNames = Readonly<Partial<Record<RequestField, string>>>;
