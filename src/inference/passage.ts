// How a call passes from the caller's API to the provider's and back. On the same wire the bytes are relayed; between two
// wires everything goes through the canonical form, and what cannot be said is refused with the name of its field.

import type { Usage } from "../base/meters.ts";
import { abilitiesOf } from "./abilities.ts";
import { type Ask, isObject, type Json } from "./ask.ts";
import type { CanonicalRequest } from "./canonical.ts";
import type {
  InboundWire,
  OutboundWire,
  ReplyReadContext,
  ReplyWriteContext,
  WrittenRequest,
} from "./canonical-wire.ts";
import type { Candidate } from "./candidates.ts";
import { historyFor } from "./chat-history.ts";
import { droppedOf, isRefused } from "./losses.ts";
import { usageOf } from "./meter/meter.ts";
import { type Adjustments, outgoingBody } from "./outgoing.ts";
import { scrubbed } from "./provider-error.ts";
import type { UpstreamWire } from "./providers.ts";
import { costInReply, sameWire, type StreamedApi, type StreamShape } from "./stream-shape.ts";
import { type WholeAnswer, writeWhole } from "./translated-reply.ts";
import { translatedShape } from "./translated-stream.ts";
import { INBOUND, OUTBOUND } from "./wire-table.ts";

export interface Passage {
  readonly wire: UpstreamWire;
  /** Where it is sent, for a wire that says the model and the operation in the path. */
  readonly path: string | undefined;
  readonly body: string;
  /** What could not be said and was left out, because the caller allowed it or a rule says so. */
  readonly dropped: readonly string[];
  readonly usageOf: (json: Json) => Usage | undefined;
  readonly whole: (reply: WholeReply, usage: Usage | undefined, costUsd: string) => WholeAnswer;
  readonly shape: (costUsd: () => string | undefined) => StreamShape;
  readonly isTranslated: boolean;
}

export interface WholeReply {
  readonly text: string;
  readonly json: Json;
}

export interface PassageContext {
  readonly requestId: string;
  readonly now: number;
  readonly adjust: Adjustments;
}

export function passageFor(ask: Ask, candidate: Candidate, context: PassageContext): Passage {
  const [wire, ...others] = candidate.wires;
  const { api } = ask;
  if (api === "embeddings" || (wire === api && !lacksSchema(api, ask.json, candidate.model)))
    return relayed(ask, candidate, context);
  const inbound = INBOUND[api];
  const request = requestFor(inbound, ask, candidate, context.adjust);
  const translations = [wire, ...others].flatMap((one) =>
    one === "embeddings" || one === "count_tokens"
      ? []
      : [translationOn(one, OUTBOUND[one], request, candidate)],
  );
  // A provider that speaks several wires is spoken to on the first that can say it all.
  const chosen =
    translations.find(({ written }) => !written.losses.some(isRefused)) ?? translations[0];
  if (chosen === undefined) throw new Error(`no wire for ${api}`);
  return translated(ask, candidate, { ...context, ...chosen, inbound, request });
}

function relayed(ask: Ask, candidate: Candidate, { adjust }: PassageContext): Passage {
  const { api, wantsUsage } = ask;
  const { provider } = candidate.credential;
  const { id, endsByClosing: endsSilently } = provider;
  const { messages, dropped } = historyFor(ask, provider);
  return {
    wire: api,
    path: pathOn(api, candidate, ask.stream),
    body: outgoingBody(ask, candidate, messages === undefined ? adjust : { ...adjust, messages }),
    dropped: provider.storesReplies ? unstored(ask, candidate) : dropped,
    usageOf: (json) => usageOf(api, json, id),
    whole: ({ text, json }, usage, costUsd) => {
      const shown = isObject(json["error"]) ? scrubbed(text, candidate.credential) : text;
      return {
        text: usage === undefined ? shown : costInReply(shown, json["usage"], costUsd),
        dropped: [],
      };
    },
    shape: () => {
      if (api === "embeddings") throw new Error("embeddings are not streamed");
      const clean = (text: string): string => scrubbed(text, candidate.credential);
      return sameWire(api, { wantsUsage, endsSilently, clean });
    },
    isTranslated: false,
  };
}

// Anthropic's models at Vertex are named in the path; everywhere else the messages wire says the model in the body.
function pathOn(
  wire: UpstreamWire,
  { credential, upstreamName }: Candidate,
  stream: boolean,
): string | undefined {
  if (wire !== "messages" || credential.provider.messagesVersion === undefined) return undefined;
  const name = encodeURIComponent(upstreamName).replaceAll("%40", "@");
  return `/${name}:${stream ? "streamRawPredict" : "rawPredict"}`;
}

function bodyOn(wire: UpstreamWire, { credential }: Candidate, { body }: WrittenRequest): string {
  const { messagesVersion } = credential.provider;
  if (wire !== "messages" || messagesVersion === undefined) return JSON.stringify(body);
  return JSON.stringify({ ...body, model: undefined, anthropic_version: messagesVersion });
}

type TranslatedWire = keyof typeof OUTBOUND;

interface Writing {
  readonly wire: TranslatedWire;
  readonly outbound: OutboundWire;
  readonly written: WrittenRequest;
}

function translationOn(
  wire: TranslatedWire,
  outbound: OutboundWire,
  request: CanonicalRequest,
  { credential, model, upstreamName }: Candidate,
): Writing {
  const target = {
    provider: credential.provider.id,
    model: upstreamName,
    maxOutputTokens: model.maxOutputTokens ?? undefined,
    abilities: abilitiesOf(model),
  };
  return { wire, outbound, written: outbound.writeRequest(request, target) };
}

interface Translation extends PassageContext, Writing {
  readonly inbound: InboundWire;
  readonly request: CanonicalRequest;
}

function translated(ask: Ask, candidate: Candidate, translation: Translation): Passage {
  const { inbound, outbound, wire, written, request, requestId, now } = translation;
  const { credential, model, upstreamName } = candidate;
  const origin = { provider: credential.provider.id, model: upstreamName };
  const dropped = [
    ...droppedOf(ask, request, written.losses, model.id),
    ...unstored(ask, candidate),
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
    path: written.path ?? pathOn(wire, candidate, ask.stream),
    body: bodyOn(wire, candidate, written),
    dropped,
    usageOf: (json) => usageOf(wire, json, origin.provider),
    whole: ({ json }, _usage, costUsd) =>
      writeWhole(inbound, outbound.readReply(json, readContext), writeContext, costUsd),
    shape: (costUsd) =>
      translatedShape(ask.api === "embeddings" ? "chat" : ask.api, {
        reader: outbound.createStreamReader(readContext),
        writer: inbound.createStreamWriter(writeContext),
        showsUsage: ask.api !== "chat" || request.includeUsage === true,
        costUsd,
        clean: (text) => scrubbed(text, credential),
      }),
    isTranslated: true,
  };
}

// A schema for a model that has no field for one is said in another way, also on its own API, where it would be refused.
function lacksSchema(api: StreamedApi, json: Json, model: Candidate["model"]): boolean {
  let held: unknown = json;
  for (const key of SCHEMA_PATHS[api]) held = isObject(held) ? held[key] : undefined;
  return (
    isObject(held) && held["type"] === "json_schema" && abilitiesOf(model).jsonSchema === false
  );
}

const SCHEMA_PATHS: Readonly<Record<StreamedApi, readonly string[]>> = {
  chat: ["response_format"],
  responses: ["text", "format"],
  messages: ["output_config", "format"],
};

// Nothing is stored at the gateway's account, where it would be there for all of its callers.
function unstored({ api, json }: Ask, { credential }: Candidate): readonly string[] {
  return api === "chat" && json["store"] === true && !credential.byok ? ["store"] : [];
}

// Postern's own fields are for Postern; the rest is read strictly, since it must be said again in other words.
function requestFor(
  inbound: InboundWire,
  ask: Ask,
  candidate: Candidate,
  adjust: Adjustments,
): CanonicalRequest {
  const { postern: _postern, models: _models, provider: _provider, ...body } = ask.json;
  const request = inbound.readRequest({ ...body, model: ask.model });
  const { provider, byok } = candidate.credential;
  return {
    ...request,
    stream: ask.stream,
    ...(adjust.outputMax === undefined ? {} : { maxOutputTokens: adjust.outputMax }),
    ...(byok || provider.endUserField === null || request.user !== undefined
      ? {}
      : { user: adjust.pseudonym() }),
    // A provider that stores nothing is not told so.
    ...(byok ? {} : { store: provider.storesReplies ? false : undefined }),
  };
}
