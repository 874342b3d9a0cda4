// How a call passes from the caller's API to the provider's and back. On the same wire the bytes are relayed; between two
// wires everything goes through the canonical form, and what cannot be said is refused with the name of its field.

import type { Usage } from "../../base/usage-meters.ts";
import { abilitiesOf } from "./abilities.ts";
import type { ParsedRequest } from "../request/parse-request.ts";
import { isObject, type JsonObject } from "../../base/json.ts";
import type { CanonicalRequest } from "../canonical/request.ts";
import type {
  InboundWire,
  OutboundWire,
  ReplyReadContext,
  ReplyWriteContext,
  WrittenRequest,
} from "../canonical/wire.ts";
import type { Candidate } from "../routing/candidates.ts";
import { sanitizeHistory } from "./chat-history.ts";
import { droppedPaths, isRejected } from "./losses.ts";
import { usageOf } from "../metering/usage/usage.ts";
import { type RequestAdjustments, rewriteRequest } from "./rewrite-request.ts";
import { redact } from "../upstream/provider-error.ts";
import type { UpstreamWire } from "../providers/providers.ts";
import {
  addCostToReply,
  passthroughTransform,
  type StreamingApi,
  type StreamTransform,
} from "./stream-transform.ts";
import { type ClientReply, translateReply } from "./translate-reply.ts";
import { translationTransform } from "./translate-stream.ts";
import { INBOUND_WIRES, OUTBOUND_WIRES } from "../wires/wires.ts";

export interface TransportPlan {
  readonly wire: UpstreamWire;
  /** Where it is sent, for a wire that says the model and the operation in the path. */
  readonly path: string | undefined;
  readonly body: string;
  /** What could not be said and was left out, because the caller allowed it or a rule says so. */
  readonly dropped: readonly string[];
  readonly readUsage: (json: JsonObject) => Usage | undefined;
  readonly writeReply: (reply: ReplyBody, usage: Usage | undefined, costUsd: string) => ClientReply;
  readonly createStreamTransform: (costUsd: () => string | undefined) => StreamTransform;
  readonly isTranslated: boolean;
}

export interface ReplyBody {
  readonly text: string;
  readonly json: JsonObject;
}

export interface PlanContext {
  readonly requestId: string;
  readonly now: number;
  readonly adjustments: RequestAdjustments;
}

export function planFor(
  ask: ParsedRequest,
  candidate: Candidate,
  context: PlanContext,
): TransportPlan {
  const [wire, ...others] = candidate.wires;
  const { api } = ask;
  if (
    api === "embeddings" ||
    (wire === api && !needsSchemaEmulation(api, ask.json, candidate.model))
  )
    return passthroughPlan(ask, candidate, context);
  const inbound = INBOUND_WIRES[api];
  const request = canonicalRequestFor(inbound, ask, candidate, context.adjustments);
  const translations = [wire, ...others].flatMap((one) =>
    one === "embeddings" || one === "count_tokens"
      ? []
      : [writeTranslation(one, OUTBOUND_WIRES[one], request, candidate)],
  );
  // A provider that speaks several wires is spoken to on the first that can say it all.
  const chosen =
    translations.find(({ written }) => !written.losses.some(isRejected)) ?? translations[0];
  if (chosen === undefined) throw new Error(`no wire for ${api}`);
  return translationPlan(ask, candidate, { ...context, ...chosen, inbound, request });
}

function passthroughPlan(
  ask: ParsedRequest,
  candidate: Candidate,
  { adjustments }: PlanContext,
): TransportPlan {
  const { api, wantsUsage } = ask;
  const { provider } = candidate.credential;
  const { id, endsStreamByClosing: lacksTerminalEvent } = provider;
  const { messages, dropped } = sanitizeHistory(ask, provider);
  return {
    wire: api,
    path: requestPath(api, candidate, ask.stream),
    body: rewriteRequest(
      ask,
      candidate,
      messages === undefined ? adjustments : { ...adjustments, messages },
    ),
    dropped: provider.supportsStore ? droppedStore(ask, candidate) : dropped,
    readUsage: (json) => usageOf(api, json, id),
    writeReply: ({ text, json }, usage, costUsd) => {
      const safeText = isObject(json["error"]) ? redact(text, candidate.credential) : text;
      return {
        text: usage === undefined ? safeText : addCostToReply(safeText, json["usage"], costUsd),
        dropped: [],
      };
    },
    createStreamTransform: () => {
      if (api === "embeddings") throw new Error("embeddings are not streamed");
      const scrub = (text: string): string => redact(text, candidate.credential);
      return passthroughTransform(api, { wantsUsage, lacksTerminalEvent, scrub });
    },
    isTranslated: false,
  };
}

// Anthropic's models at Vertex are named in the path; everywhere else the messages wire says the model in the body.
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
}

function writeTranslation(
  wire: TranslatedWire,
  outbound: OutboundWire,
  request: CanonicalRequest,
  { credential, model, upstreamName }: Candidate,
): WrittenTranslation {
  const target = {
    provider: credential.provider.id,
    model: upstreamName,
    maxOutputTokens: model.maxOutputTokens ?? undefined,
    abilities: abilitiesOf(model),
  };
  return { wire, outbound, written: outbound.writeRequest(request, target) };
}

interface Translation extends PlanContext, WrittenTranslation {
  readonly inbound: InboundWire;
  readonly request: CanonicalRequest;
}

function translationPlan(
  ask: ParsedRequest,
  candidate: Candidate,
  translation: Translation,
): TransportPlan {
  const { inbound, outbound, wire, written, request, requestId, now } = translation;
  const { credential, model, upstreamName } = candidate;
  const origin = { provider: credential.provider.id, model: upstreamName };
  const dropped = [
    ...droppedPaths(ask, request, written.losses, model.id),
    ...droppedStore(ask, candidate),
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
  return {
    wire,
    path: written.path ?? requestPath(wire, candidate, ask.stream),
    body: requestBody(wire, candidate, written),
    dropped,
    readUsage: (json) => usageOf(wire, json, origin.provider),
    writeReply: ({ json }, _usage, costUsd) =>
      translateReply(inbound, outbound.readReply(json, readContext), writeContext, costUsd),
    createStreamTransform: (costUsd) =>
      translationTransform(ask.api === "embeddings" ? "chat" : ask.api, {
        reader: outbound.createStreamReader(readContext),
        writer: inbound.createStreamWriter(writeContext),
        showsUsage: ask.api !== "chat" || request.includeUsage === true,
        costUsd,
        scrub: (text) => redact(text, credential),
      }),
    isTranslated: true,
  };
}

// A schema for a model that has no field for one is said in another way, also on its own API, where it would be refused.
function needsSchemaEmulation(
  api: StreamingApi,
  json: JsonObject,
  model: Candidate["model"],
): boolean {
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

// Nothing is stored at the gateway's account, where it would be there for all of its callers.
function droppedStore({ api, json }: ParsedRequest, { credential }: Candidate): readonly string[] {
  return api === "chat" && json["store"] === true && !credential.byok ? ["store"] : [];
}

// Postern's own fields are for Postern; the rest is read strictly, since it must be said again in other words.
function canonicalRequestFor(
  inbound: InboundWire,
  ask: ParsedRequest,
  candidate: Candidate,
  adjustments: RequestAdjustments,
): CanonicalRequest {
  const { postern: _postern, models: _models, provider: _provider, ...body } = ask.json;
  const request = inbound.readRequest({ ...body, model: ask.model });
  const { provider, byok } = candidate.credential;
  return {
    ...request,
    stream: ask.stream,
    ...(adjustments.outputMax === undefined ? {} : { maxOutputTokens: adjustments.outputMax }),
    ...(byok || provider.endUserField === null || request.user !== undefined
      ? {}
      : { user: adjustments.pseudonym() }),
    // A provider that stores nothing is not told so.
    ...(byok ? {} : { store: provider.supportsStore ? false : undefined }),
  };
}
