// The plan for a call between two wires: everything goes through the canonical form.

import {
  type Loss,
  addPartLabelLosses,
  type CanonicalReply,
  type CanonicalRequest,
  withFetchedFiles,
  type OutboundWire,
  type ReplyReadContext,
  type ReplyWriteContext,
  type WireStreamReader,
  type WrittenRequest,
  usageOf,
  clientToolsAsFunctions,
  betaOf,
  INBOUND_WIRES,
  OUTBOUND_WIRES,
  withoutCompactions,
  withAllToolsLoaded,
  openAiToolsAsFunctions,
  readerWithClientCalls,
  type SentClientTools,
  withClientCalls,
  API_TRAITS,
  WIRE_TRAITS,
  type TranslatedWire,
} from "@postern/wires";
import { errorFormat, errorObject, publicError } from "../../base/error-body.ts";
import type { UpstreamWire } from "../providers/providers.ts";
import type { Candidate } from "../routing/candidates.ts";
import {
  rejectCanonicalReferences,
  rejectStoredReferences,
} from "../shared-account/reject-references.ts";
import { rejectUnknownTools } from "../shared-account/reject-unknown-tools.ts";
import { destinationOf } from "../shared-account/source-url.ts";
import { streamErrorFault } from "../upstream/provider-error.ts";
import { abilitiesOf } from "./abilities.ts";
import { droppedPaths, isLossOfRequest, isRejected } from "./losses.ts";
import { droppedStore } from "./provider-store.ts";
import type { RequestAdjustments } from "./rewrite-request.ts";
import type { StreamingApi } from "./stream-transform.ts";
import {
  customToolNames,
  customToolsAsFunctions,
  readerWithCustomCalls,
  withCustomCalls,
} from "./tools/custom-tools.ts";
import { askForTools } from "./tools/forced-tools.ts";
import { limitedTools } from "./tools/tool-limit.ts";
import {
  readerWithTranslatedCalls,
  type ServerToolTranslation,
  translateServerTools,
  withTranslatedCalls,
} from "./tools/translate-server-tools.ts";
import { translateReply } from "./translate-reply.ts";
import { translationTransform } from "./translate-stream.ts";
import { type PlanInput, requestPath, type TransportPlan } from "./transport-plan.ts";

export function translationPlan(input: PlanInput, api: StreamingApi): TransportPlan {
  const { credential, wires } = input.candidate;
  const read = canonicalRequestFor(input, api);
  const canonical = input.files === undefined ? read : withFetchedFiles(read, input.files);
  rejectCanonicalReferences(canonical, destinationOf(credential, wires[0]));
  const chosen = chooseTranslation(api, canonical, input.candidate);
  const { body } = chosen.written;
  const destination = destinationOf(credential, chosen.wire);
  rejectStoredReferences(body, destination, "translation");
  rejectUnknownTools(body, destination);
  return planOf(input, { ...chosen, api, canonical });
}

/** Of a provider's wires, the first that can express the whole request, or else the first that loses only hints. */
function chooseTranslation(
  api: StreamingApi,
  request: CanonicalRequest,
  candidate: Candidate,
): WrittenTranslation {
  const translations = candidate.wires.flatMap((wire) => {
    const { translated, sibling } = WIRE_TRAITS[wire];
    const isRefused =
      sibling !== undefined &&
      candidate.wires.includes(sibling) &&
      refusesFunctions(wire, request, candidate);
    return translated === undefined || isRefused
      ? []
      : [writeTranslation({ caller: api, provider: translated }, request, candidate)];
  });
  const chosen =
    translations.find(({ written }) => !written.losses.some(isLossOfRequest)) ??
    translations.find(({ written }) => !written.losses.some(isRejected)) ??
    translations[0];
  if (chosen === undefined) throw new Error(`no wire for ${candidate.model.id}`);
  return chosen;
}

function refusesFunctions(
  wire: UpstreamWire,
  { tools = [], reasoning }: CanonicalRequest,
  { model }: Candidate,
): boolean {
  const effort = reasoning?.mode === "off" ? "none" : reasoning?.effort;
  return tools.length > 0 && !WIRE_TRAITS[wire].takesFunctions(abilitiesOf(model), effort);
}

// Translation reads the body strictly, so the gateway's own fields are removed first.
function canonicalRequestFor(
  { request, candidate, adjustments }: PlanInput,
  api: StreamingApi,
): CanonicalRequest {
  const { postern: _postern, models: _models, provider: _provider, ...body } = request.json;
  const canonical = INBOUND_WIRES[api].readRequest({ ...body, model: request.model });
  const { provider, byok, allowStore } = candidate.credential;
  return {
    ...canonical,
    stream: request.stream,
    ...(adjustments.outputMax === undefined ? {} : { maxOutputTokens: adjustments.outputMax }),
    ...(byok ||
    provider.endUserField === null ||
    canonical.user !== undefined ||
    canonical.safetyIdentifier !== undefined
      ? {}
      : { user: adjustments.pseudonym() }),
    // `store: false` goes only to a provider that knows the field.
    ...(allowStore === true ? {} : { store: provider.supportsStore ? false : undefined }),
  };
}

interface WrittenTranslation {
  readonly wire: TranslatedWire;
  readonly outbound: OutboundWire;
  readonly written: WrittenRequest;
  /** The custom tools that are sent as functions. */
  readonly customTools: ReadonlySet<string>;
  readonly clientTools: SentClientTools;
  readonly createPartTranslation: ServerToolTranslation["createPartTranslation"];
}

function writeTranslation(
  direction: { readonly caller: StreamingApi; readonly provider: TranslatedWire },
  request: CanonicalRequest,
  { credential, model, upstreamName }: Candidate,
): WrittenTranslation {
  const wire = direction.provider;
  const outbound = OUTBOUND_WIRES[wire];
  const abilities = abilitiesOf(model);
  const target = {
    provider: credential.provider.id,
    model: upstreamName,
    maxOutputTokens: model.maxOutputTokens ?? undefined,
    abilities,
  };
  const losses: Loss[] = [];
  const readable = withoutCompactions(request, wire, losses);
  const server = translateServerTools(readable, direction, target, losses);
  const own = clientToolsAsFunctions(server.request, wire);
  const client = openAiToolsAsFunctions(own, wire, losses);
  const loaded = askForTools(withAllToolsLoaded(client.request, wire, losses), abilities, losses);
  const takesCustomTools = WIRE_TRAITS[wire].takesCustomTools(abilities);
  const sent = takesCustomTools ? loaded : customToolsAsFunctions(loaded, losses);
  const written = outbound.writeRequest(sent, target);
  const labels: Loss[] = [];
  addPartLabelLosses(sent, wire, labels);
  const allLosses = [...losses, ...written.losses, ...labels];
  const customTools = takesCustomTools ? NO_NAMES : customToolNames(loaded);
  const { createPartTranslation } = server;
  const complete = { ...written, losses: allLosses };
  const clientTools = client.sent;
  return { wire, outbound, written: complete, customTools, clientTools, createPartTranslation };
}

const NO_NAMES: ReadonlySet<string> = new Set();

interface Translation extends WrittenTranslation {
  readonly api: StreamingApi;
  readonly canonical: CanonicalRequest;
}

function planOf(input: PlanInput, translation: Translation): TransportPlan {
  const { api, canonical, outbound, wire, written } = translation;
  const { request, candidate, requestId, now } = input;
  const { credential, model, upstreamName } = candidate;
  const inbound = INBOUND_WIRES[api];
  const origin = { provider: credential.provider.id, model: upstreamName };
  const dropped = [
    ...droppedPaths(input.isLossy, canonical, written.losses, model.id),
    ...droppedStore(request, credential),
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
    request: canonical,
  };
  return {
    wire,
    path: written.path ?? requestPath(wire, input),
    body: requestBody(wire, candidate, withToolLimit(wire, written, input.adjustments)),
    beta: betaOf(written.body, wire),
    dropped,
    readUsage: (json) => usageOf(wire, json, origin.provider),
    writeReply: ({ json }, _usage, costUsd) =>
      translateReply(
        inbound,
        adaptReply(outbound.readReply(json, readContext), translation, requestId),
        writeContext,
        { costUsd, dropped },
      ),
    createStreamTransform: () =>
      translationTransform(api, {
        reader: adaptReader(outbound.createStreamReader(readContext), translation, requestId),
        writer: inbound.createStreamWriter(writeContext),
        showsUsage: !API_TRAITS[api].hasUsageOption || canonical.includeUsage === true,
        dropped,
        toErrorObject: (error) =>
          errorObject(
            errorFormat(api),
            publicError(streamErrorFault(error, credential, { isTranslated: true })),
            requestId,
          ),
      }),
    isTranslated: true,
  };
}

/** The provider's reply with calls in the form of the caller's tools. */
function adaptReply(
  original: CanonicalReply,
  { customTools, clientTools, createPartTranslation }: Translation,
  requestId: string,
): CanonicalReply {
  const custom = customTools.size > 0 ? withCustomCalls(original, customTools) : original;
  const reply = clientTools.size > 0 ? withClientCalls(custom, clientTools) : custom;
  const translate = createPartTranslation?.(requestId);
  return translate === undefined ? reply : withTranslatedCalls(reply, translate);
}

function adaptReader(
  original: WireStreamReader,
  { customTools, clientTools, createPartTranslation }: Translation,
  requestId: string,
): WireStreamReader {
  const custom = customTools.size > 0 ? readerWithCustomCalls(original, customTools) : original;
  const reader = clientTools.size > 0 ? readerWithClientCalls(custom, clientTools) : custom;
  const translate = createPartTranslation?.(requestId);
  return translate === undefined ? reader : readerWithTranslatedCalls(reader, translate);
}

function withToolLimit(
  wire: UpstreamWire,
  written: WrittenRequest,
  { toolCallsMax }: RequestAdjustments,
): WrittenRequest {
  if (toolCallsMax === undefined) return written;
  return {
    ...written,
    body: { ...written.body, ...limitedTools(wire, written.body, toolCallsMax) },
  };
}

function requestBody(
  wire: UpstreamWire,
  { credential }: Candidate,
  { body }: WrittenRequest,
): string {
  const { messagesVersion } = credential.provider;
  if (!WIRE_TRAITS[wire].hasModelInPath || messagesVersion === undefined)
    return JSON.stringify(body);
  return JSON.stringify({ ...body, model: undefined, anthropic_version: messagesVersion });
}
