// Plans how a call reaches the provider's API and how its reply comes back. On the caller's own wire the bytes pass through;
// between two wires everything goes through the canonical form.

import { errorBody, errorFormat, publicError } from "../../base/error-body.ts";
import type { Usage } from "../../base/usage-meters.ts";
import { abilitiesOf } from "./abilities.ts";
import type { ParsedRequest } from "../request/parse-request.ts";
import { isObject, type JsonObject } from "../../base/json.ts";
import type { Loss } from "../canonical/loss.ts";
import type { CanonicalRequest } from "../canonical/request.ts";
import type {
  InboundWire,
  OutboundWire,
  ReplyReadContext,
  ReplyWriteContext,
  WrittenRequest,
} from "../canonical/wire.ts";
import type { Candidate } from "../routing/candidates.ts";
import {
  rejectCanonicalReferences,
  rejectStoredReferences,
} from "../shared-account/reject-references.ts";
import { rejectUnknown } from "../shared-account/reject-unknown.ts";
import type { Destination } from "../shared-account/source-url.ts";
import { dropForeignReasoning } from "./foreign-reasoning.ts";
import {
  customToolNames,
  customToolsAsFunctions,
  hasCustomTools,
  readerWithCustomCalls,
  supportsCustomTools,
  withCustomCalls,
} from "./custom-tools.ts";
import { withAllToolsLoaded } from "./loaded-tools.ts";
import { sanitizeHistory } from "./chat-history.ts";
import { droppedPaths, isLossOfRequest, isRejected, rejectDropped } from "./losses.ts";
import { usageOf } from "../metering/usage/usage.ts";
import { droppedStore, rejectStoringFields } from "./provider-store.ts";
import { rejectedSampling } from "./rejected-sampling.ts";
import { relaxTools } from "./relaxed-tools.ts";
import { type RequestAdjustments, rewriteRequest } from "./rewrite-request.ts";
import { streamErrorFault } from "../upstream/provider-error.ts";
import { redact } from "../upstream/redact.ts";
import type { UpstreamWire } from "../providers/providers.ts";
import {
  addExtrasToReply,
  passthroughTransform,
  type StreamingApi,
  type StreamTransform,
} from "./stream-transform.ts";
import { allLossPaths, type ClientReply, translateReply } from "./translate-reply.ts";
import { translationTransform } from "./translate-stream.ts";
import { INBOUND_WIRES, OUTBOUND_WIRES } from "../wires/wires.ts";

export interface TransportPlan {
  readonly wire: UpstreamWire;
  /** The path below the provider's base URL, for a wire that names the model and the operation there. */
  readonly path: string | undefined;
  readonly body: string;
  /** The request fields that were dropped, by path. */
  readonly dropped: readonly string[];
  readonly readUsage: (json: JsonObject) => Usage | undefined;
  readonly writeReply: (reply: ReplyBody, usage: Usage | undefined, costUsd: string) => ClientReply;
  readonly createStreamTransform: () => StreamTransform;
  readonly isTranslated: boolean;
  /** Sent instead where the provider turns out not to have the endpoint of `path`. */
  readonly withoutEndpoint?: TransportPlan;
}

export interface ReplyBody {
  readonly text: string;
  readonly json: JsonObject;
}

export interface PlanContext {
  readonly requestId: string;
  readonly now: number;
  readonly adjustments: RequestAdjustments;
  /** The caller wants a 400 instead of a dropped field. */
  readonly isStrict: boolean;
}

export function planFor(
  parsed: ParsedRequest,
  candidate: Candidate,
  context: PlanContext,
): TransportPlan {
  const plan = createPlan(parsed, candidate, context);
  if (context.isStrict) rejectDropped(plan.dropped, candidate.model.id);
  return plan;
}

function createPlan(
  parsed: ParsedRequest,
  candidate: Candidate,
  context: PlanContext,
): TransportPlan {
  const [wire, ...others] = candidate.wires;
  const { api } = parsed;
  rejectStoringFields(parsed.json, candidate.credential);
  if (
    api === "embeddings" ||
    (wire === api && !needsTranslation(api, parsed.json, candidate.model))
  ) {
    // The text that is sent differs from this only in fields that the gateway writes.
    const destination = destinationOf(candidate, wire);
    rejectStoredReferences(parsed.json, destination, "request");
    rejectUnknown(parsed.json, destination);
    return passthroughPlan(parsed, candidate, context);
  }
  const inbound = INBOUND_WIRES[api];
  const request = canonicalRequestFor(inbound, parsed, candidate, context.adjustments);
  rejectCanonicalReferences(request, destinationOf(candidate, wire));
  const translations = [wire, ...others].flatMap((one) =>
    one === "embeddings" || one === "count_tokens"
      ? []
      : [writeTranslation(one, OUTBOUND_WIRES[one], request, candidate)],
  );
  // Of a provider's wires, use the first that can express the whole request, or else the first that loses only hints.
  const chosen =
    translations.find(({ written }) => !written.losses.some(isLossOfRequest)) ??
    translations.find(({ written }) => !written.losses.some(isRejected)) ??
    translations[0];
  if (chosen === undefined) throw new Error(`no wire for ${api}`);
  const destination = destinationOf(candidate, chosen.wire);
  rejectStoredReferences(chosen.written.body, destination, "translation");
  rejectUnknown(chosen.written.body, destination);
  return translationPlan(parsed, candidate, { ...context, ...chosen, inbound, request });
}

// Undefined on the caller's own provider key, with which everything may be used.
function destinationOf({ credential }: Candidate, wire: UpstreamWire): Destination | undefined {
  return credential.byok
    ? undefined
    : { provider: credential.provider, baseUrl: credential.baseUrl, wire };
}

function passthroughPlan(
  parsed: ParsedRequest,
  candidate: Candidate,
  { adjustments, requestId }: PlanContext,
): TransportPlan {
  const { api, wantsUsage } = parsed;
  const { provider } = candidate.credential;
  const { id, endsStreamByClosing: lacksTerminalEvent } = provider;
  const { messages, dropped: droppedHistory } = sanitizeHistory(parsed, candidate);
  const omitted = api === "embeddings" ? [] : rejectedSampling(api, parsed.json, candidate.model);
  const relaxed = api === "chat" ? relaxTools(parsed.json, candidate.model) : undefined;
  const foreign = dropForeignReasoning(parsed);
  const dropped = [...omitted, ...droppedHistory, ...foreign.dropped, ...(relaxed?.dropped ?? [])];
  const allDropped = [...dropped, ...droppedStore(parsed, candidate.credential)];
  const listed = allDropped.length === 0 ? undefined : JSON.stringify(allLossPaths(allDropped, []));
  return {
    wire: api,
    path: requestPath(api, candidate, parsed.stream),
    body: rewriteRequest(
      parsed,
      candidate,
      dropped.length === 0
        ? adjustments
        : {
            ...adjustments,
            messages: messages ?? foreign.messages,
            input: foreign.input,
            omitted,
            tools: relaxed?.tools,
          },
    ),
    dropped: allDropped,
    readUsage: (json) => usageOf(api, json, id),
    writeReply: ({ text, json }, usage, costUsd) => {
      const safeText = isObject(json["error"]) ? redact(text, candidate.credential) : text;
      return {
        text:
          usage === undefined
            ? safeText
            : addExtrasToReply(safeText, json["usage"], { cost: costUsd, dropped: listed }),
        dropped: [],
      };
    },
    createStreamTransform: () => {
      if (api === "embeddings") throw new Error("embeddings are not streamed");
      return passthroughTransform(api, {
        wantsUsage,
        dropped: listed,
        lacksTerminalEvent,
        toErrorBody: (data) =>
          errorBody(
            errorFormat(api),
            publicError(
              streamErrorFault(OUTBOUND_WIRES[api].readError(200, data), candidate.credential, {
                isTranslated: false,
              }),
            ),
            requestId,
          ),
      });
    },
    isTranslated: false,
  };
}

// Vertex names Anthropic's models in the path; elsewhere the messages wire names the model in the body.
function requestPath(
  wire: UpstreamWire,
  { credential, upstreamName }: Candidate,
  stream: boolean,
): string | undefined {
  if (wire !== "messages" || credential.provider.messagesVersion === undefined) return undefined;
  const name = encodeURIComponent(upstreamName).replaceAll("%40", "@");
  return `/${name}:${stream ? "streamRawPredict" : "rawPredict"}`;
}

function requestBody(
  wire: UpstreamWire,
  { credential }: Candidate,
  { body }: WrittenRequest,
): string {
  const { messagesVersion } = credential.provider;
  if (wire !== "messages" || messagesVersion === undefined) return JSON.stringify(body);
  return JSON.stringify({ ...body, model: undefined, anthropic_version: messagesVersion });
}

type TranslatedWire = keyof typeof OUTBOUND_WIRES;

interface WrittenTranslation {
  readonly wire: TranslatedWire;
  readonly outbound: OutboundWire;
  readonly written: WrittenRequest;
  /** The custom tools that are sent as functions. */
  readonly customTools: ReadonlySet<string>;
}

function writeTranslation(
  wire: TranslatedWire,
  outbound: OutboundWire,
  request: CanonicalRequest,
  { credential, model, upstreamName }: Candidate,
): WrittenTranslation {
  const abilities = abilitiesOf(model);
  const target = {
    provider: credential.provider.id,
    model: upstreamName,
    maxOutputTokens: model.maxOutputTokens ?? undefined,
    abilities,
  };
  const losses: Loss[] = [];
  const loaded = withAllToolsLoaded(request, wire, losses);
  const takesCustomTools = supportsCustomTools(wire, abilities);
  const sent = takesCustomTools ? loaded : customToolsAsFunctions(loaded, losses);
  const written = outbound.writeRequest(sent, target);
  const allLosses = losses.length === 0 ? written.losses : [...losses, ...written.losses];
  const customTools = takesCustomTools ? NO_NAMES : customToolNames(loaded);
  return { wire, outbound, written: { ...written, losses: allLosses }, customTools };
}

const NO_NAMES: ReadonlySet<string> = new Set();

interface Translation extends PlanContext, WrittenTranslation {
  readonly inbound: InboundWire;
  readonly request: CanonicalRequest;
}

function translationPlan(
  parsed: ParsedRequest,
  candidate: Candidate,
  translation: Translation,
): TransportPlan {
  const { inbound, outbound, wire, written, customTools, request, requestId, now } = translation;
  const { credential, model, upstreamName } = candidate;
  const origin = { provider: credential.provider.id, model: upstreamName };
  const dropped = [
    ...droppedPaths(parsed, request, written.losses, model.id),
    ...droppedStore(parsed, candidate.credential),
  ];
  const readContext: ReplyReadContext = {
    origin,
    emulation: written.emulation,
    readUsage: (reply) => usageOf(wire, reply, origin.provider),
  };
  const writeContext: ReplyWriteContext = {
    id: requestId,
    model: model.id,
    createdSeconds: Math.floor(now / 1_000),
    request,
  };
  const isAdapted = customTools.size > 0;
  const readReply = (json: JsonObject) => {
    const reply = outbound.readReply(json, readContext);
    return isAdapted ? withCustomCalls(reply, customTools) : reply;
  };
  const createReader = () => {
    const reader = outbound.createStreamReader(readContext);
    return isAdapted ? readerWithCustomCalls(reader, customTools) : reader;
  };
  return {
    wire,
    path: written.path ?? requestPath(wire, candidate, parsed.stream),
    body: requestBody(wire, candidate, written),
    dropped,
    readUsage: (json) => usageOf(wire, json, origin.provider),
    writeReply: ({ json }, _usage, costUsd) =>
      translateReply(inbound, readReply(json), writeContext, { costUsd, dropped }),
    createStreamTransform: () =>
      translationTransform(parsed.api === "embeddings" ? "chat" : parsed.api, {
        reader: createReader(),
        writer: inbound.createStreamWriter(writeContext),
        showsUsage: parsed.api !== "chat" || request.includeUsage === true,
        dropped,
        toPublicError: (error) =>
          publicError(streamErrorFault(error, credential, { isTranslated: true })),
      }),
    isTranslated: true,
  };
}

// A model without a JSON schema field, or without custom tools, would reject them even on its own API.
function needsTranslation(api: StreamingApi, json: JsonObject, model: Candidate["model"]): boolean {
  if (hasCustomTools(json) && !supportsCustomTools(api, abilitiesOf(model)) && api === "chat")
    return true;
  let value: unknown = json;
  for (const key of SCHEMA_PATHS[api]) value = isObject(value) ? value[key] : undefined;
  return (
    isObject(value) && value["type"] === "json_schema" && abilitiesOf(model).jsonSchema === false
  );
}

const SCHEMA_PATHS: Readonly<Record<StreamingApi, readonly string[]>> = {
  chat: ["response_format"],
  responses: ["text", "format"],
  messages: ["output_config", "format"],
};

// Translation reads the body strictly, so the gateway's own fields are removed first.
function canonicalRequestFor(
  inbound: InboundWire,
  parsed: ParsedRequest,
  candidate: Candidate,
  adjustments: RequestAdjustments,
): CanonicalRequest {
  const { postern: _postern, models: _models, provider: _provider, ...body } = parsed.json;
  const request = inbound.readRequest({ ...body, model: parsed.model });
  const { provider, byok, allowStore } = candidate.credential;
  return {
    ...request,
    stream: parsed.stream,
    ...(adjustments.outputMax === undefined ? {} : { maxOutputTokens: adjustments.outputMax }),
    ...(byok ||
    provider.endUserField === null ||
    request.user !== undefined ||
    request.safetyIdentifier !== undefined
      ? {}
      : { user: adjustments.pseudonym() }),
    // `store: false` goes only to a provider that knows the field.
    ...(allowStore === true ? {} : { store: provider.supportsStore ? false : undefined }),
  };
}
