// What a wire is: the functions by which one API is read into the canonical form and written from it.
import type { WireName, ModelOrigin } from "./parts.ts";
import type { Effort, CanonicalRequest } from "./request.ts";
import type { CanonicalReply } from "./reply.ts";
import type { CanonicalEvent } from "./events.ts";
import type { CanonicalError } from "./error.ts";
import type { Loss } from "./loss.ts";
import { type JsonObject, isObject, parseObject } from "../../base/json.ts";
import type { Usage } from "../../base/usage-meters.ts";

/** A model at a provider. An ability that is absent is the wire's usual: what its newest models can. */
export interface Target extends ModelOrigin {
  /** The most that the model can put out; fills in a limit where the wire demands one. */
  readonly maxOutputTokens?: number | undefined;
  readonly abilities?: Abilities | undefined;
}

export interface Abilities {
  /** Takes the role `developer`. */
  readonly developerRole?: boolean | undefined;
  /** Takes instructions in the midst of a conversation. */
  readonly midConversationInstructions?: boolean | undefined;
  /** Goes on with a trailing assistant turn. */
  readonly prefill?: boolean | undefined;
  /** Takes temperature, top_p, top_k. */
  readonly sampling?: boolean | undefined;
  /** Has a field for a JSON schema of the output. */
  readonly jsonSchema?: boolean | undefined;
  /** What stands for that field where it is missing: a tool that must be called, unless the model cannot be made to call one. */
  readonly schemaEmulation?: "tool" | "instructions" | undefined;
  readonly strictTools?: boolean | undefined;
  /** How reasoning is asked for: by effort, by a budget of tokens, or not at all. */
  readonly reasoning?: "effort" | "budget" | "none" | undefined;
  readonly efforts?: readonly Effort[] | undefined;
  /** The field in which a chat provider takes earlier reasoning back. Absent: it takes none. */
  readonly reasoningField?: "reasoning_content" | "reasoning" | "content" | undefined;
  /** Fetches images and files by address. */
  readonly urlSources?: boolean | undefined;
  /** The chat field that limits the output. */
  readonly maxTokensField?: "max_tokens" | "max_completion_tokens" | undefined;
  /** How cache marks are said on the chat wire. Absent: they are left out, and caching is the provider's own affair. */
  readonly cacheBreakpointField?: "cache_control" | "prompt_cache_breakpoint" | undefined;
  /** Knows `stream_options`. */
  readonly streamOptions?: boolean | undefined;
  /** The form that tool-call ids must have. */
  readonly callIdFormat?: "any" | "token64" | "alphanumeric9" | undefined;
  /** OpenAI's own fields beyond the common ones: `store`, `metadata`, `prompt_cache_key`, `service_tier` and their like. */
  readonly openaiFields?: boolean | undefined;
}

/** How a request was bent so that the reply can be bent back: the output schema went out as this tool. */
export interface SchemaEmulation {
  readonly outputTool: string;
}

export interface WrittenRequest {
  readonly body: JsonObject;
  /** Where it is sent, below the provider's address, for a wire that says the model and the operation in the path. */
  readonly path?: string | undefined;
  readonly losses: readonly Loss[];
  readonly emulation?: SchemaEmulation | undefined;
}

export interface ReplyReadContext {
  readonly emulation?: SchemaEmulation | undefined;
  /** Who answers: put on every blob that the reply holds. */
  readonly origin: ModelOrigin;
  /** The meter. It gets the reply, or for a stream an object of a reply's shape with the usage as merged by this wire. */
  readonly readUsage: (reply: JsonObject) => Usage | undefined;
}

export interface ReplyWriteContext {
  /** Used where the provider gave no id, model or time. */
  readonly id: string;
  readonly model: string;
  readonly createdSeconds: number;
  /** For an API that shows the input's size before the provider has told it. */
  readonly inputTokensEstimate?: number | undefined;
  /** The request as it was read: what the caller asked to see (usage, legacy functions) and what a reply repeats. */
  readonly request: CanonicalRequest;
}

export interface WrittenReply {
  readonly body: JsonObject;
  readonly losses: readonly Loss[];
}

/** One event as the transport gives it: SSE's `event:` ("" for none) and `data:`, or an AWS frame's type and payload. */
export interface WireEvent {
  readonly name: string;
  readonly data: string;
  /** The data as JSON, where somebody parsed it before. */
  readonly json?: unknown;
}

/** Gives canonical events in the order of the canonical stream, whatever the provider does. */
export interface WireStreamReader {
  push(event: WireEvent): readonly CanonicalEvent[];
  /** The upstream has ended: closes what is open; an error where the stream was cut. */
  end(): readonly CanonicalEvent[];
}

/** Gives SSE text, possibly several frames or none (""). Text of a delta is never kept back while its part may be shown. */
export interface WireStreamWriter {
  push(event: CanonicalEvent): string;
  /** The terminal events. To be called when the money is settled, and not after `error`. */
  end(): string;
  readonly losses: readonly Loss[];
}

export interface OutboundWire {
  readonly name: WireName;
  writeRequest(request: CanonicalRequest, target: Target): WrittenRequest;
  readReply(body: unknown, context: ReplyReadContext): CanonicalReply;
  createStreamReader(context: ReplyReadContext): WireStreamReader;
  /** `body` is parsed JSON, or text where it was not JSON. */
  readError(status: number, body: unknown): CanonicalError;
}

export interface InboundWire {
  readonly name: WireName;
  /** The caller's body, without Postern's own fields. Throws a `Fault` that names the path. */
  readRequest(body: unknown): CanonicalRequest;
  writeReply(reply: CanonicalReply, context: ReplyWriteContext): WrittenReply;
  createStreamWriter(context: ReplyWriteContext): WireStreamWriter;
}

/** The body of a stream event; `json` is set where the transport parsed it already. */
export function parseEvent(event: WireEvent): JsonObject | undefined {
  return isObject(event.json) ? event.json : parseObject(event.data);
}
