// What the APIs that callers use differ in, beside the form of requests and replies. Code outside this package asks for a trait
// and does not compare the name of an API.

import { codexToolHint } from "./canonical/canonical-losses.ts";
import { IMAGE_TOOL } from "./canonical/tools/server-tool.ts";
import { searchToolOf } from "./chat/chat-web-search.ts";
import { CHAT_FIELDS, KNOWN_CHAT_FIELDS } from "./chat/request/chat-fields.ts";
import { responsesErrorFields } from "./error-object.ts";
import { geminiCommonForm } from "./gemini/gemini-common-form.ts";
import { storedGeminiContent } from "./gemini/gemini-stored-content.ts";
import { GEMINI_FIELDS, KNOWN_GEMINI_FIELDS } from "./gemini/request/gemini-fields.ts";
import { camelCase, normalizeGeminiRequest } from "./gemini/request/normalize-gemini-request.ts";
import { sentGeminiPath } from "./gemini/request/sent-gemini-path.ts";
import { isObject, type JsonObject, objectIn } from "./json-fields.ts";
import {
  chatLengthStop,
  type CutStream,
  geminiLengthStop,
  messagesLengthStop,
  responsesLengthStop,
} from "./length-stop.ts";
import { KNOWN_MESSAGES_FIELDS, MESSAGES_FIELDS } from "./messages/request/messages-fields.ts";
import {
  chatWithPreset,
  geminiWithPreset,
  messagesWithPreset,
  responsesWithPreset,
  type WithPreset,
} from "./preset-fields.ts";
import type { RelayedEndpoint } from "./relayed/relayed-endpoint.ts";
import { RELAYED_ENDPOINTS, type RelayedApi } from "./relayed/relayed-endpoints.ts";
import { KNOWN_RESPONSES_FIELDS, RESPONSES_FIELDS } from "./responses/request/responses-fields.ts";
import { namesOf } from "./scalar-fields.ts";

export type ApiName = "chat" | "responses" | "messages" | "gemini" | RelayedApi;

export interface ApiTraits {
  /** The field with the conversation or the text. */
  readonly inputField: "messages" | "input" | "contents";
  /** An item of the input has a role. */
  readonly requiresRoles?: true;
  /** A field that can stand in place of the input. */
  readonly inputAlternative?: "prompt";
  /** False for an endpoint without a conversation, which has no stream and no routing. */
  readonly generates: boolean;
  /** What is special to an endpoint without a conversation. */
  readonly relayed?: RelayedEndpoint;
  /** Clients also send bodies of another API to it. */
  readonly acceptsOtherForm?: boolean;
  /** The body with the names that the reader knows; the same object if it has them already. */
  readonly normalize?: (json: JsonObject) => JsonObject;
  /** The name that `normalize` gives a member. Absent: its own. */
  readonly memberName?: (name: string) => string;
  /** A path that a call's report names, by the names in the body that the caller sent. Absent: it has these names itself. */
  readonly sentPath?: (sent: JsonObject, path: string) => string;
  /** The body by the names of the other APIs, for what bounds a call's cost. Absent: it has these names itself. */
  readonly commonForm?: (json: JsonObject) => JsonObject;
  /** The path names the model and whether the reply is streamed. The route adds both to the body. */
  readonly hasCallInPath?: true;
  /** The output limit is required. */
  readonly requiresOutputLimit: boolean;
  /** The names of the output limit. Providers read one or the other, so the greatest value bounds the cost. */
  readonly outputLimitFields: readonly string[];
  /** The fields of a request that translation reads. */
  readonly knownFields: ReadonlySet<string>;
  /** The number of choices in a reply. A dot leads into an object, as in the names of output limits. */
  readonly choicesField?: "n" | "generationConfig.candidateCount";
  readonly serviceTierField: "service_tier" | "serviceTier";
  readonly backgroundField?: "background";
  /** A provider stores a reply unless the request says `store: false`. */
  readonly storesReplies: boolean;
  /** A stream has usage only if `stream_options` asks for it. */
  readonly hasUsageOption: boolean;
  /** The path of the usage in the event of a stream that carries it. */
  readonly usagePath: readonly string[];
  /** The path of the model's name in the events of a stream that have it. */
  readonly modelPath: readonly string[];
  /** The terminal event, if it has no other content. */
  readonly terminalEvent?: Uint8Array;
  /** The path of the reasoning effort, if the effort decides whether a model takes sampling parameters. */
  readonly effortPath?: readonly string[];
  /** The field that turns on a web search. */
  readonly searchField?: "web_search_options";
  /** The type of a tool that providers with a sibling API run only there. */
  readonly siblingTool?: string;
  /** The members that ask for a web search, as OpenRouter's suffix `:online` of a model does. */
  readonly withSearch?: (json: JsonObject) => JsonObject;
  /** The members that ask for a web search as OpenRouter's plugin `web` does; absent: `withSearch`. */
  readonly withWebPlugin?: (json: JsonObject, plugin: JsonObject) => JsonObject;
  /** The body with the fields of a preset that it lacks. */
  readonly withPreset?: WithPreset;
  /** The API has custom tools, but not every provider of it takes them. */
  readonly hasOptionalCustomTools: boolean;
  /** The path of the output schema. */
  readonly schemaPath: readonly string[];
  /** Where the parts of a conversation are that only one provider can read. */
  readonly foreignParts?: "items" | "contents" | "parts";
  /** The form of its errors. */
  readonly errorFormat: "openai" | "messages" | "google";
  /** A request has no field for an end-user ID. */
  readonly lacksEndUser?: true;
  /** The field of a reply with its usage. */
  readonly usageField: "usage" | "usageMetadata";
  /** The field of a reply with the name of the model. */
  readonly modelField: "model" | "modelVersion";
  /** Content of a request that is stored at a provider: its path. */
  readonly storedContent?: (json: JsonObject) => string | undefined;
  /** Providers reject each other's fields in a history. */
  readonly hasProviderFields: boolean;
  /** Callers' tools take settings that only some providers have. */
  readonly adapts: "tools" | "claude" | "nothing";
  /** A reply says how long the cache keeps what the call wrote. */
  readonly reportsCacheTtl: boolean;
  /** What clients of this API can do about a tool of this type that is refused. */
  readonly toolHint?: (toolType: unknown) => string;
  /** Header in which clients look for the request id, beside `x-request-id`. */
  readonly requestIdHeader?: string;
  /** Callers' `anthropic-*` headers reach the provider. */
  readonly forwardsHeaders: boolean;
  /** Bytes that keep a silent stream open. */
  readonly keepAlive: Uint8Array;
  /** The last events of a stream that the gateway cuts: a stop at the output limit. */
  readonly lengthStop?: (cut: CutStream) => string;
  /** The last event of a stream repeats the reply. */
  readonly endRepeatsReply?: true;
  /** An error event; `body` is the body of an error response. */
  readonly errorFrame: (body: JsonObject, sequenceNumber: number) => string;
}

const encoder = new TextEncoder();
const COMMENT = encoder.encode(": keep-alive\n\n");

const RELAYED: ApiTraits = {
  outputLimitFields: [],
  knownFields: new Set(),
  inputField: "input",
  generates: false,
  requiresOutputLimit: false,
  storesReplies: false,
  hasUsageOption: false,
  hasOptionalCustomTools: false,
  schemaPath: [],
  hasProviderFields: false,
  adapts: "nothing",
  reportsCacheTtl: true,
  usagePath: ["usage"],
  modelPath: ["model"],
  usageField: "usage",
  modelField: "model",
  errorFormat: "openai",
  serviceTierField: "service_tier",
  forwardsHeaders: false,
  keepAlive: COMMENT,
  errorFrame: (body) => `data: ${JSON.stringify(body)}\n\n`,
};

function relayed(api: RelayedApi): ApiTraits {
  return { ...RELAYED, relayed: RELAYED_ENDPOINTS[api] };
}

export const API_TRAITS: Readonly<Record<ApiName, ApiTraits>> = {
  embeddings: relayed("embeddings"),
  images: relayed("images"),
  image_edits: relayed("image_edits"),
  speech: relayed("speech"),
  transcriptions: relayed("transcriptions"),
  translations: relayed("translations"),
  rerank: relayed("rerank"),
  moderations: relayed("moderations"),
  decisions: relayed("decisions"),
  completions: { ...relayed("completions"), hasUsageOption: true },
  chat: {
    ...RELAYED,
    inputField: "messages",
    requiresRoles: true,
    generates: true,
    outputLimitFields: namesOf(CHAT_FIELDS, "maxOutputTokens"),
    knownFields: KNOWN_CHAT_FIELDS,
    choicesField: "n",
    hasUsageOption: true,
    terminalEvent: encoder.encode("data: [DONE]\n\n"),
    effortPath: ["reasoning_effort"],
    searchField: "web_search_options",
    siblingTool: IMAGE_TOOL,
    withPreset: chatWithPreset,
    withSearch: ({ web_search_options }) => ({ web_search_options: web_search_options ?? {} }),
    withWebPlugin: ({ tools }, plugin) => withTool(tools, searchToolOf(plugin)),
    hasOptionalCustomTools: true,
    schemaPath: ["response_format"],
    hasProviderFields: true,
    acceptsOtherForm: true,
    adapts: "tools",
    reportsCacheTtl: false,
    lengthStop: chatLengthStop,
  },
  responses: {
    ...RELAYED,
    inputAlternative: "prompt",
    generates: true,
    outputLimitFields: namesOf(RESPONSES_FIELDS, "maxOutputTokens"),
    knownFields: KNOWN_RESPONSES_FIELDS,
    backgroundField: "background",
    storesReplies: true,
    usagePath: ["response", "usage"],
    modelPath: ["response", "model"],
    effortPath: ["reasoning", "effort"],
    schemaPath: ["text", "format"],
    foreignParts: "items",
    toolHint: codexToolHint,
    withPreset: responsesWithPreset,
    withSearch: ({ tools }) => withTool(tools, { type: "web_search" }),
    lengthStop: responsesLengthStop,
    endRepeatsReply: true,
    errorFrame: (body, sequenceNumber) => {
      const fields = responsesErrorFields(objectIn(body["error"]) ?? {});
      const data = { type: "error", sequence_number: sequenceNumber, ...fields };
      return `event: error\ndata: ${JSON.stringify(data)}\n\n`;
    },
  },
  messages: {
    ...RELAYED,
    inputField: "messages",
    requiresRoles: true,
    errorFormat: "messages",
    generates: true,
    requiresOutputLimit: true,
    outputLimitFields: namesOf(MESSAGES_FIELDS, "maxOutputTokens"),
    knownFields: KNOWN_MESSAGES_FIELDS,
    schemaPath: ["output_config", "format"],
    foreignParts: "contents",
    adapts: "claude",
    withPreset: messagesWithPreset,
    withSearch: ({ tools }) => withTool(tools, { type: "web_search_20250305", name: "web_search" }),
    lengthStop: messagesLengthStop,
    modelPath: ["message", "model"],
    requestIdHeader: "request-id",
    forwardsHeaders: true,
    terminalEvent: encoder.encode('event: message_stop\ndata: {"type":"message_stop"}\n\n'),
    keepAlive: encoder.encode('event: ping\ndata: {"type":"ping"}\n\n'),
    errorFrame: (body) => `event: error\ndata: ${JSON.stringify(body)}\n\n`,
  },
  gemini: {
    ...RELAYED,
    inputField: "contents",
    normalize: normalizeGeminiRequest,
    memberName: camelCase,
    sentPath: sentGeminiPath,
    withPreset: geminiWithPreset,
    commonForm: geminiCommonForm,
    hasCallInPath: true,
    generates: true,
    outputLimitFields: namesOf(GEMINI_FIELDS, "maxOutputTokens"),
    choicesField: "generationConfig.candidateCount",
    serviceTierField: "serviceTier",
    knownFields: KNOWN_GEMINI_FIELDS,
    foreignParts: "parts",
    errorFormat: "google",
    usageField: "usageMetadata",
    modelField: "modelVersion",
    storedContent: storedGeminiContent,
    lacksEndUser: true,
    usagePath: ["usageMetadata"],
    modelPath: ["modelVersion"],
    lengthStop: geminiLengthStop,
  },
};

const SEARCH_TYPE = /^(openrouter:)?web_search/;

/** The tools with one more, unless one of its kind is there. */
function withTool(tools: unknown, tool: JsonObject): JsonObject {
  const listed: readonly unknown[] = Array.isArray(tools) ? tools : [];
  const hasSearch = listed.some(
    (one) => isObject(one) && typeof one["type"] === "string" && SEARCH_TYPE.test(one["type"]),
  );
  return { tools: hasSearch ? listed : [...listed, tool] };
}
