// What the APIs of providers differ in, beside the form of requests and replies. Code outside this package asks for a trait and
// does not compare the name of a wire.

import type { OUTBOUND_WIRES } from "./all-wires.ts";
import type { ApiName } from "./api-traits.ts";
import type { Abilities } from "./canonical/wire-interfaces.ts";
import { createChatCollector } from "./collect/collect-chat.ts";
import { createMessagesCollector } from "./collect/collect-messages.ts";
import { createResponsesCollector } from "./collect/collect-responses.ts";
import type { StreamCollector } from "./collect/stream-collector.ts";
import { GEMINI_TOOL_FIELDS } from "./gemini/gemini-common-form.ts";
import { operationPath } from "./gemini/request/write-gemini-request.ts";
import { OUTPUT_TOKENS_MIN } from "./responses/request/responses-fields.ts";

export type UpstreamWireName = ApiName | "count_tokens" | "gemini" | "converse";
export type TranslatedWire = keyof typeof OUTBOUND_WIRES;

export interface WireTraits {
  /** The wire that its models and errors belong to. */
  readonly base: TranslatedWire;
  /** The wire that requests are translated to, and whose streams are metered. Absent: it has neither. */
  readonly translated?: TranslatedWire;
  /** A provider limits it apart from calls of the same model. */
  readonly operation?: string;
  /** Requests to it are only written by translation and never passed through. */
  readonly isAlwaysWritten: boolean;
  readonly framing: "sse" | "aws";
  /** A stream ends without a terminal event. */
  readonly lacksTerminalEvent: boolean;
  readonly headers: Readonly<Record<string, string>>;
  /** The header in which the clients of this API send a key. Absent: `authorization`. */
  readonly keyHeader?: "x-api-key" | "x-goog-api-key";
  /** The same at a provider whose account signs requests otherwise. */
  readonly cloudKeyHeader?: "x-goog-api-key";
  /** Another API can serve the request in its place. */
  readonly isReplaceable: boolean;
  /** The other API of the same provider, for what a model supports on one of them only. */
  readonly sibling?: "chat" | "responses";
  /** The path can name the model, with the version of the API in the body. */
  readonly hasModelInPath: boolean;
  /** The path below the provider's base URL, where it names the model and the operation. */
  readonly pathOf?: (model: string, isStream: boolean) => string;
  /** In `tools`, the fields that define or turn on a tool of this wire. Others are unknown. */
  readonly toolFields?: ReadonlySet<string>;
  /** The wire takes no URL of a file, so the gateway fetches files for it. */
  readonly needsFetchedFiles: boolean;
  /** URLs of Google's storage are read with the account that calls it. */
  readonly readsGoogleStorage: boolean;
  readonly takesStops: boolean;
  readonly takesSeed: boolean;
  /** A request can ask for several choices. */
  readonly takesChoices: boolean;
  readonly returnsLogprobs: boolean;
  readonly forbidsParallelCalls: boolean;
  readonly takesCustomTools: (abilities: Abilities) => boolean;
  /** Whether it takes functions beside this effort, `undefined` for the model's default. */
  readonly takesFunctions: (abilities: Abilities, effort: unknown) => boolean;
  /** What limits the calls of tools that the provider runs: all together, or each of them. */
  readonly toolLimitField?: "max_tool_calls" | "max_uses";
  /** A request can name MCP servers, which the provider calls. */
  readonly takesMcpServers: boolean;
  /** A lower output limit is raised to it in translation. */
  readonly outputLimitMin?: number;
  /** Lists of a request whose entries name further models, which run within the call. Other wires drop them. */
  readonly namedModelLists: readonly ("advisors" | "fallbacks" | "tools")[];
  /** Runs of code in a history reach the provider, with their containers. */
  readonly sendsCodeRuns: boolean;
  /** Whose own items and client tools it takes. */
  readonly ownerOfItems?: "openai" | "anthropic";
  /** Which of OpenAI's fields a server of this wire takes if nothing else is known of it. */
  readonly openaiFields?: "common" | "all";
  /** The wire that counts the tokens of a request to this one, without a price. */
  readonly countWire?: "count_tokens";
  /** Names of tools that it takes. Absent: any. */
  readonly toolName?: RegExp;
  /** Reasoning is on only if the request turns it on. */
  readonly reasonsOnRequest: boolean;
  /** Makes the whole reply of a stream. Absent: a stream does not tell all of it. */
  readonly createCollector?: () => StreamCollector;
}

const DEFAULTS: Omit<WireTraits, "base"> = {
  isAlwaysWritten: false,
  framing: "sse",
  lacksTerminalEvent: false,
  headers: {},
  isReplaceable: true,
  hasModelInPath: false,
  needsFetchedFiles: false,
  readsGoogleStorage: false,
  takesStops: true,
  takesSeed: false,
  takesChoices: false,
  returnsLogprobs: false,
  forbidsParallelCalls: true,
  takesCustomTools: () => false,
  takesFunctions: () => true,
  namedModelLists: [],
  takesMcpServers: false,
  sendsCodeRuns: false,
  reasonsOnRequest: false,
};

const MESSAGES: WireTraits = {
  ...DEFAULTS,
  base: "messages",
  headers: { "anthropic-version": "2023-06-01" },
  keyHeader: "x-api-key",
  toolLimitField: "max_uses",
};

const RELAYED: WireTraits = { ...DEFAULTS, base: "chat", isReplaceable: false };

export const WIRE_TRAITS: Readonly<Record<UpstreamWireName, WireTraits>> = {
  chat: {
    ...DEFAULTS,
    base: "chat",
    translated: "chat",
    sibling: "responses",
    takesSeed: true,
    takesChoices: true,
    returnsLogprobs: true,
    openaiFields: "common",
    takesCustomTools: ({ openaiFields }) => openaiFields !== false,
    createCollector: createChatCollector,
    takesFunctions: ({ chatTools }, effort) =>
      chatTools === undefined ||
      effort === "none" ||
      (chatTools === "without_effort" && (effort === undefined || effort === null)),
  },
  responses: {
    ...DEFAULTS,
    base: "responses",
    translated: "responses",
    sibling: "chat",
    takesStops: false,
    returnsLogprobs: true,
    ownerOfItems: "openai",
    openaiFields: "all",
    outputLimitMin: OUTPUT_TOKENS_MIN,
    namedModelLists: ["tools"],
    sendsCodeRuns: true,
    takesCustomTools: () => true,
    toolLimitField: "max_tool_calls",
    createCollector: createResponsesCollector,
    takesMcpServers: true,
  },
  messages: {
    ...MESSAGES,
    createCollector: createMessagesCollector,
    translated: "messages",
    ownerOfItems: "anthropic",
    hasModelInPath: true,
    reasonsOnRequest: true,
    namedModelLists: ["advisors", "fallbacks"],
    countWire: "count_tokens",
    toolName: /^[A-Za-z0-9_-]{1,128}$/,
    takesMcpServers: true,
  },
  count_tokens: { ...MESSAGES, operation: "count_tokens" },
  embeddings: RELAYED,
  images: RELAYED,
  image_edits: RELAYED,
  speech: RELAYED,
  transcriptions: RELAYED,
  translations: RELAYED,
  rerank: RELAYED,
  moderations: RELAYED,
  decisions: RELAYED,
  // Every chat model of a provider that has it.
  completions: { ...RELAYED, operation: "completions" },
  gemini: {
    ...DEFAULTS,
    base: "gemini",
    forbidsParallelCalls: false,
    translated: "gemini",
    takesSeed: true,
    takesChoices: true,
    returnsLogprobs: true,
    pathOf: operationPath,
    toolFields: GEMINI_TOOL_FIELDS,
    lacksTerminalEvent: true,
    keyHeader: "x-goog-api-key",
    toolName: /^[A-Za-z_][A-Za-z0-9_.:-]{0,127}$/,
    cloudKeyHeader: "x-goog-api-key",
    readsGoogleStorage: true,
  },
  converse: {
    ...DEFAULTS,
    base: "converse",
    forbidsParallelCalls: false,
    translated: "converse",
    isAlwaysWritten: true,
    framing: "aws",
    toolName: /^[A-Za-z0-9_-]{1,64}$/,
    needsFetchedFiles: true,
  },
};

/** From the provider's own APIs to those that others imitate. */
export const TRANSLATION_PREFERENCE: readonly TranslatedWire[] = [
  "messages",
  "responses",
  "gemini",
  "converse",
  "chat",
];
