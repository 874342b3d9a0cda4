// Translates requests, replies and streams between the APIs of model providers, by way of one canonical form. This file is
// everything that other code may import. Examples are in README.md, and run as tests.

/** The wires that callers speak, and those that providers speak: `INBOUND_WIRES.chat.readRequest(body)`. */
export { INBOUND_WIRES, OUTBOUND_WIRES } from "./src/all-wires.ts";
export { chatWire } from "./src/chat/chat-wire.ts";
export { converseWire } from "./src/converse/converse-wire.ts";
export { messagesWire } from "./src/messages/messages-wire.ts";
export type {
  Abilities,
  InboundWire,
  OutboundWire,
  ReplyReadContext,
  ReplyWriteContext,
  Target,
  WireStreamReader,
  WireStreamWriter,
  WrittenRequest,
} from "./src/canonical/wire-interfaces.ts";
/** What APIs differ in beside their form: `API_TRAITS.messages.requiresOutputLimit`. */
export { API_TRAITS, type ApiName, type ApiTraits } from "./src/api-traits.ts";
export type { CutStream } from "./src/length-stop.ts";
export { MODEL_KINDS } from "./src/relayed/relayed-endpoint.ts";
/** Endpoints without a conversation: `RELAYED_ENDPOINTS.images.unitsMax(body)`. */
export type {
  ModelKind,
  RelayedContext,
  RelayedEndpoint,
  RelayedForm,
  RelayedStream,
  RelayedTranslation,
  StreamForm,
} from "./src/relayed/relayed-endpoint.ts";
export {
  bytesIn,
  createBytesParser,
  createRelayedMeter,
  endOfBytes,
} from "./src/relayed/relayed-stream.ts";
export { kindOfWire, RELAYED_APIS, type RelayedApi } from "./src/relayed/relayed-endpoints.ts";
/** The same for the APIs of providers: `WIRE_TRAITS.converse.framing`. */
export {
  TRANSLATION_PREFERENCE,
  type TranslatedWire,
  type UpstreamWireName,
  WIRE_TRAITS,
} from "./src/wire-traits.ts";
/** `WIRE_TRAITS.messages.createCollector?.()` makes the whole reply of a stream. */
export type { StreamCollector } from "./src/collect/stream-collector.ts";
/** What a wire throws for a request that it cannot read or write: `error.path`, `error.message`. */
export { InvalidRequest } from "./src/invalid-request.ts";

// ---- The canonical form of requests, replies and streams.

export type { CanonicalError } from "./src/canonical/canonical-error.ts";
export type { CanonicalEvent } from "./src/canonical/canonical-events.ts";
export type {
  NativeFields,
  NativePart,
  Part,
  Source,
  WireName,
} from "./src/canonical/canonical-parts.ts";
export {
  type CanonicalReply,
  FINISH_REASONS,
  type FinishReason,
  type UsageReport,
} from "./src/canonical/canonical-reply.ts";
export {
  type CanonicalRequest,
  type CustomTool,
  EFFORTS,
  type Tool,
  type ToolChoice,
  type Turn,
} from "./src/canonical/canonical-request.ts";
/** What a translation drops: `addLoss(losses, "top_k", "…")`. A hint is a loss that changes no output. */
export { type Loss, addHintLoss, addLoss, fieldPath } from "./src/canonical/canonical-losses.ts";
/** Fields that only one wire knows and that may be dropped: `NATIVE_HINTS.responses`. */
export { HINT_FIELDS, type HintGroup, NATIVE_HINTS } from "./src/canonical/native-hints.ts";
/** Reasoning of another provider within an opaque field: `isEncodedBlob(part.signature)`. */
export { decodeBlob, encodeBlob, isEncodedBlob } from "./src/canonical/reasoning-blobs.ts";
/** The part of a JSON schema that a provider takes: `reduceSchema(schema, CLAUDE_SCHEMA)`. */
export { CLAUDE_SCHEMA, GEMINI_SCHEMA, reduceSchema } from "./src/canonical/reduced-schema.ts";
/** Output schemas: `isStrictCompatible(schema)`. */
export { addInstruction, isStrictCompatible } from "./src/canonical/structured-output.ts";
/** Files that the gateway fetched in place of their URLs: `withFetchedFiles(request, files)`. */
export {
  type FetchedFile,
  type FetchedFiles,
  withFetchedFiles,
} from "./src/canonical/tools/fetched-files.ts";
/** Splits a call whose arguments are several JSON objects: `splitCalls(reply)`. */
export { createCallSplitter, splitCalls } from "./src/canonical/tools/split-calls.ts";

// ---- Translation.

/** A request for a provider of any API, and how its reply is read: `translateRequest(request, { caller: "chat", provider: "messages" }, target)`. */
export {
  searchesOnlyOnResponses,
  type TranslatedRequest,
  translateRequest,
  TRANSLATION_STEPS,
} from "./src/passes/translate-request.ts";
/** Tools that the gateway runs: `takeGatewayTools(request, "chat", { search: true, fetch: true })`, and calls in the reply. */
export {
  fetchResultText,
  type GatewayFetch,
  type GatewayMcpTool,
  type GatewaySearch,
  type GatewayTools,
  mcpServersOf,
  type McpToolLists,
  searchResultText,
  takeGatewayTools,
  toolResult,
  urlsIn,
  writeFetch,
  writeMcpCall,
  writeSearchCall,
} from "./src/passes/gateway-tools.ts";
export type {
  FetchCall,
  FetchedPage,
  FetchError,
} from "./src/canonical/tools/canonical-web-fetch.ts";
export type { McpServer, McpTool } from "./src/canonical/tools/canonical-mcp.ts";
export type { SearchCall, SearchSource } from "./src/canonical/tools/canonical-web-search.ts";
/** Citations in the text of a model that has none: `createLinkFinder(sources)("see [a](https://a.example)")`. */
export { createLinkFinder } from "./src/passes/link-citations.ts";
/** Collects the events of a stream into a reply: `createReplyCollector().push(event)`. */
export { createReplyCollector } from "./src/canonical/collect-reply.ts";
export { isForeignContainer } from "./src/canonical/tools/canonical-code-execution.ts";

// ---- Requests in the caller's own API.

/** The request that counts the tokens of a call, and its reply: `writeCountRequest("gemini", { body, path, isVertex: false })`. */
export { readCount, writeCountRequest } from "./src/count-requests.ts";
/** What a model supports at a provider, and who says so: `findAbilities({ provider: "openai", name: "gpt-5", … })`. */
export { abilitySources, findAbilities } from "./src/provider-abilities.ts";
/** Settings in the form that a model takes: `adaptSettings("messages", json, abilities)`. */
export {
  type AdaptedFields,
  adaptRejectable,
  adaptSettings,
  UNADAPTED,
} from "./src/passthrough/adapt-settings.ts";
/** The history without what other providers added: `sanitizeHistory(request, provider.rejectedHistoryFields, abilities)`. */
export { sanitizeHistory } from "./src/passthrough/chat-history.ts";
export { dropForeignHistory } from "./src/passthrough/foreign-history.ts";
/** A Responses body that was sent to Chat Completions: `chatFromResponses({ model, input: [...] })`. */
export { chatFromResponses } from "./src/passes/chat-from-responses.ts";

/** Google's other endpoints: `readEmbedContent(body, model)` is a request of the embeddings endpoint. */
export {
  type ReadEmbeddings,
  readCountTokens,
  readEmbedContent,
  writeEmbedContent,
} from "./src/gemini/gemini-endpoints.ts";
/** The path of an error by the caller's names: `namedAsSent({ generation_config: {…} }, "generationConfig.topK")`. */
export { namedAsSent } from "./src/gemini/request/sent-gemini-path.ts";

// ---- Frames of streams, and errors within them.

/** Server-sent events: `createSseParser().push(bytes)`, and `readSse(event)` for each. */
export {
  type SseEvent,
  type SseMessage,
  type SseParser,
  createSseParser,
  parseSingle,
  readSse,
} from "./src/frames/sse.ts";
/** Amazon's binary frames: `createEventFrameParser().push(bytes)`. */
export { createEventFrameParser } from "./src/frames/aws-event-stream.ts";
/** The same frames as server-sent events, for a reader of streams: `createAwsFrameParser().push(bytes)`. */
export { createAwsFrameParser } from "./src/frames/aws-frames.ts";
/** An error in a stream of the Responses API: `responsesErrorFields(error)`. */
export { failedResponseError, responsesErrorFields } from "./src/error-object.ts";

// ---- Usage.

/** The usage of a whole reply: `usageOf("messages", reply, "anthropic")`. */
export { createStreamMeter, isStreamedWire, usageOf } from "./src/usage/provider-usage.ts";
/** What a whole reply contains: `meterWholeReply("messages", "anthropic", reply)`. */
export { meterWholeReply } from "./src/usage/whole-reply.ts";
/** The text that a stream has relayed: `decodeRelayedText(meter.text)`. */
export { decodeRelayedText } from "./src/usage/relayed-text.ts";
/** A reply that is composed of several: `writeComposedEvent({ type: "end" })`. */
export {
  type ComposedEvent,
  createComposedMeter,
  createComposedReader,
  writeComposedEvent,
} from "./src/usage/canonical-usage.ts";
/** Meters a stream without parsing every event: `scanEvent(createStreamMeter("chat", "openai"), event)`. */
export {
  type StreamMeter,
  isReplyComplete,
  meterEvent,
  readCutEvent,
  readEvent,
  scanEvent,
  usageSoFar,
  isEmptyReply,
} from "./src/usage/stream-meter.ts";
/** The image model that OpenAI's tool calls if the request names none. */
export { DEFAULT_IMAGE_MODEL } from "./src/usage/responses-usage.ts";
/** The last usage within the end of a reply that was cut: `lastUsageIn(text)`. */
export { lastUsageIn } from "./src/usage/usage-in-tail.ts";
export {
  FEE_METERS,
  type FeeMeter,
  TOKEN_METERS,
  type TokenMeter,
  type Usage,
} from "./src/usage/usage-meters.ts";
