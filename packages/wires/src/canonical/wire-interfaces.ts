// The interfaces of a wire: the functions that read one API into the canonical form and write it from there.

import { isObject, type JsonObject, parseObject } from "../json-fields.ts";
import type { Usage } from "../usage/usage-meters.ts";
import type { CanonicalError } from "./canonical-error.ts";
import type { CanonicalEvent } from "./canonical-events.ts";
import type { Loss } from "./canonical-losses.ts";
import type { ModelOrigin, WireName } from "./canonical-parts.ts";
import type { CanonicalReply } from "./canonical-reply.ts";
import type { CanonicalRequest, Effort } from "./canonical-request.ts";

/** A model at a provider. An absent ability defaults to that of the newest models on the wire. */
export interface Target extends ModelOrigin {
  /** The output limit to send if the wire requires one and the caller set none. */
  readonly maxOutputTokens?: number | undefined;
  readonly abilities?: Abilities | undefined;
}

export interface Abilities {
  /** Accepts the role `developer`. */
  readonly developerRole?: boolean | undefined;
  /** Accepts instructions after the first message. */
  readonly midConversationInstructions?: boolean | undefined;
  /** Continues a trailing assistant turn. */
  readonly prefill?: boolean | undefined;
  /** Accepts `temperature`, `top_p` and `top_k`: always, never, or only while it does not reason. */
  readonly sampling?: boolean | "without_reasoning" | undefined;
  /** Accepts only one of `temperature` and `top_p`. */
  readonly singleSampling?: boolean | undefined;
  /** Does not reason unless the request has an effort. */
  readonly reasonsOnRequest?: boolean | undefined;
  /** Has a field for a JSON schema of the output. */
  readonly jsonSchema?: boolean | undefined;
  /** The substitute for that field: a forced tool call, or instructions if the model cannot be forced. */
  readonly schemaEmulation?: "tool" | "instructions" | undefined;
  readonly strictTools?: boolean | undefined;
  /** Takes functions on the chat wire only with the effort `none`, or only without an effort. Absent: always. */
  readonly chatTools?: "without_reasoning" | "without_effort" | undefined;
  /** Reasoning is set by an effort, by a token budget, or not at all. */
  readonly reasoning?: "effort" | "budget" | "none" | undefined;
  readonly efforts?: readonly Effort[] | undefined;
  /** What Claude takes to turn its reasoning off: nothing, if it always reasons. Absent: `disabled`. */
  readonly thinkingOff?: "between_tools" | "never" | undefined;
  /** Takes a choice that forces a tool call: always, never, or only while it does not reason. */
  readonly forcedTools?: boolean | "without_reasoning" | undefined;
  /** Takes stop sequences, where the wire has them. */
  readonly stop?: boolean | undefined;
  /** Returns log probabilities. */
  readonly logprobs?: boolean | undefined;
  /** Returns more than one choice, where the wire has `n`. */
  readonly choices?: boolean | undefined;
  /** Rejects the fields of OpenAI's API that it does not have, instead of ignoring them. */
  readonly rejectsUnknownFields?: boolean | undefined;
  /** The name of `seed` on the chat wire. */
  readonly seedField?: "seed" | "random_seed" | undefined;
  /** Takes the computer tool in the form of versions before the toolset. */
  readonly computerTool?: boolean | undefined;
  /** Takes a token budget beside an effort. */
  readonly thinkingBudget?: boolean | undefined;
  /** The field in which a chat provider accepts earlier reasoning. Absent: none. */
  readonly reasoningField?: "reasoning_content" | "reasoning" | "content" | undefined;
  /** Fetches images and files by URL. */
  readonly urlSources?: boolean | undefined;
  /** Searches the web if the chat wire's `web_search_options` is set. */
  readonly webSearchOptions?: boolean | undefined;
  /** The name of the output limit on the chat wire. */
  readonly maxTokensField?: "max_tokens" | "max_completion_tokens" | undefined;
  /** The field of cache breakpoints on the chat and responses wires. Absent: the provider caches automatically. */
  readonly cacheBreakpointField?: "cache_control" | "prompt_cache_breakpoint" | undefined;
  /** Accepts a user message directly after a tool's result. */
  readonly userAfterTool?: boolean | undefined;
  /** Accepts `stream_options`. */
  readonly streamOptions?: boolean | undefined;
  /** The required format of tool-call ids. */
  readonly callIdFormat?: "any" | "token64" | "alphanumeric9" | undefined;
  /** Accepts OpenAI's own fields, such as `store`, `metadata` and `prompt_cache_key`. */
  readonly openaiFields?: boolean | undefined;
}

/** The tool that carried the output schema; the reply's call of it is turned back into text. */
export interface SchemaEmulation {
  readonly outputTool: string;
}

export interface WrittenRequest {
  readonly body: JsonObject;
  /** The path below the provider's base URL, for wires that have the model in the path. */
  readonly path?: string | undefined;
  readonly losses: readonly Loss[];
  readonly emulation?: SchemaEmulation | undefined;
  /** A beta of Anthropic's API that the request uses. */
  readonly beta?: string | undefined;
}

export interface ReplyReadContext {
  readonly emulation?: SchemaEmulation | undefined;
  /** Set on every blob of the reply. */
  readonly origin: ModelOrigin;
  /** Reads the usage of a reply, or for a stream of an object with the merged usage in a reply's form. */
  readonly readUsage: (reply: JsonObject) => Usage | undefined;
}

export interface ReplyWriteContext {
  /** `id`, `model` and `createdSeconds` are defaults for what the provider does not send. `id` is the request id. */
  readonly id: string;
  readonly model: string;
  readonly createdSeconds: number;
  /** For an API that reports input tokens at the start of a stream. */
  readonly inputTokensEstimate?: number | undefined;
  /** Decides what the reply contains (usage, legacy functions). Some APIs repeat its fields in the reply. */
  readonly request: CanonicalRequest;
}

export interface WrittenReply {
  readonly body: JsonObject;
  readonly losses: readonly Loss[];
}

/** An SSE event (`name` is "" without `event:`), or an AWS frame's type and payload. */
export interface WireEvent {
  readonly name: string;
  readonly data: string;
  /** The parsed data, if the transport has parsed it. */
  readonly json?: unknown;
}

/** Returns canonical events in the order that `CanonicalEvent` documents, whatever the provider sends. */
export interface WireStreamReader {
  push(event: WireEvent): readonly CanonicalEvent[];
  /** At the end of the stream: ends open parts, or returns an error if the stream was cut off. */
  end(): readonly CanonicalEvent[];
}

/** Returns SSE text of zero or more events. A delta is written at once unless its part has to wait for another. */
export interface WireStreamWriter {
  push(event: CanonicalEvent): string;
  /** The terminal events. Called after the charge is settled, and not after `error`. */
  end(): string;
  readonly losses: readonly Loss[];
}

export interface OutboundWire {
  readonly name: WireName;
  writeRequest(request: CanonicalRequest, target: Target): WrittenRequest;
  readReply(body: unknown, context: ReplyReadContext): CanonicalReply;
  createStreamReader(context: ReplyReadContext): WireStreamReader;
  /** `body` is parsed JSON, or text if it is not JSON. */
  readError(status: number, body: unknown): CanonicalError;
}

export interface InboundWire {
  readonly name: WireName;
  /** Reads the caller's body. Throws an `InvalidRequest` that names the field. */
  readRequest(body: unknown): CanonicalRequest;
  writeReply(reply: CanonicalReply, context: ReplyWriteContext): WrittenReply;
  createStreamWriter(context: ReplyWriteContext): WireStreamWriter;
}

export function parseEvent(event: WireEvent): JsonObject | undefined {
  return isObject(event.json) ? event.json : parseObject(event.data);
}
