// The plan for a call between two wires: everything goes through the canonical form.

import {
  API_TRAITS,
  type CanonicalReply,
  type CanonicalRequest,
  createComposedMeter,
  createComposedReader,
  createStreamMeter,
  type GatewayTools,
  INBOUND_WIRES,
  type ReplyWriteContext,
  takeGatewayTools,
  type Target,
  type TranslatedRequest,
  translateRequest,
  type Turn,
  type Usage,
  WIRE_TRAITS,
  withFetchedFiles,
  type WrittenRequest,
} from "@postern/wires";
import { errorObject } from "../../base/error-body.ts";
import { invalid } from "../../base/fault.ts";
import { abilitiesOf } from "../../models/model-abilities.ts";
import type { UpstreamWire } from "../providers/providers.ts";
import { gatewayToolsOf } from "../request/tool-bounds.ts";
import type { Candidate } from "../routing/candidates.ts";
import {
  rejectCanonicalReferences,
  rejectStoredReferences,
} from "../shared-account/reject-references.ts";
import { rejectUnknownTools } from "../shared-account/reject-unknown-tools.ts";
import { destinationOf } from "../shared-account/source-url.ts";
import { streamErrorFault } from "../upstream/provider-error.ts";
import { droppedPaths, isLossOfRequest, isRejected, sentPaths } from "./losses.ts";
import { droppedStore } from "./provider-store.ts";
import { limitedTools, type RequestAdjustments } from "./rewrite-request.ts";
import { droppedTier } from "./service-tier.ts";
import type { StreamingApi } from "./stream-transform.ts";
import { translateReply } from "./translate-reply.ts";
import { translationTransform } from "./translate-stream.ts";
import {
  type LoopTurn,
  type PlanInput,
  requestPath,
  type TransportPlan,
  type TurnLimits,
} from "./transport-plan.ts";

export function translationPlan(input: PlanInput, api: StreamingApi): TransportPlan {
  const { credential, wires } = input.candidate;
  const read = canonicalRequestFor(input, api);
  const canonical = input.files === undefined ? read : withFetchedFiles(read, input.files);
  rejectCanonicalReferences(canonical, destinationOf(credential, wires[0]));
  const tools = runsGatewayTools(input)
    ? takeGatewayTools(canonical, api, offeredTools(input))
    : undefined;
  return tools === undefined
    ? planOf(input, checkedTranslation(input, api, canonical))
    : loopPlan(input, api, tools);
}

type ToolInput = Pick<PlanInput, "request" | "candidate" | "mcp">;

/** Whether the gateway runs tools of the call. */
export function runsGatewayTools(input: ToolInput): boolean {
  const { search, fetch, mcp } = offeredTools(input);
  return search || fetch || mcp !== undefined;
}

function offeredTools({ request, candidate: { model, credential }, mcp }: ToolInput) {
  const { search, fetch } = gatewayToolsOf(request, model);
  return { search: search && !credential.byok, fetch: fetch && !credential.byok, mcp };
}

function checkedTranslation(
  { candidate }: PlanInput,
  api: StreamingApi,
  canonical: CanonicalRequest,
): ChosenTranslation {
  const chosen = chooseTranslation(api, canonical, candidate);
  const { body } = chosen.written;
  const destination = destinationOf(candidate.credential, chosen.wire);
  rejectStoredReferences(body, destination, "translation");
  rejectUnknownTools(body, destination);
  return { ...chosen, api, canonical };
}

/** The first turn's request, and the reply that is composed of the replies of all turns. */
function loopPlan(input: PlanInput, api: StreamingApi, tools: GatewayTools): TransportPlan {
  if (input.request.choices > 1)
    throw invalid(
      "n",
      "`n` must be 1 for a call in which the gateway searches the web, fetches pages or calls MCP servers.",
    );
  const { request: canonical, search, fetch, mcp, writeOpening, losses } = tools;
  const first = checkedTranslation(input, api, canonical);
  const { written } = first;
  const withLosses = { ...first, written: { ...written, losses: [...losses, ...written.losses] } };
  const plan = planOf(input, {
    ...withLosses,
    // Written by the composer of the reply, in this process.
    readUsage: (json) => json["usage"] as Usage | undefined,
    readReply: (json) => (json as { readonly reply: CanonicalReply }).reply,
    createStreamReader: createComposedReader,
  });
  const { provider } = input.candidate.credential;
  const turnOf = (translation: ChosenTranslation): LoopTurn => ({
    wire: translation.wire,
    path: translation.written.path ?? requestPath(translation.wire, input),
    body: requestBody(translation.wire, input.candidate, translation.written),
    beta: translation.written.beta,
    readUsage: translation.readUsage,
    readReply: translation.readReply,
    createStreamReader: translation.createStreamReader,
    createMeter: () => createStreamMeter(translation.wire, provider.id),
  });
  return {
    ...plan,
    createMeter: createComposedMeter,
    loop: {
      api,
      search,
      fetch,
      mcp,
      writeOpening,
      outputMax: canonical.maxOutputTokens,
      first: turnOf(first),
      continueWith: (turns, limits) =>
        turnOf(checkedTranslation(input, api, laterRequest(tools, turns, limits))),
    },
  };
}

/** A choice that forces a call applies to the first turn alone. */
function laterRequest(
  { request }: GatewayTools,
  added: readonly Turn[],
  { outputMax, exhausted }: TurnLimits,
): CanonicalRequest {
  const { toolChoice, turns, tools = [] } = request;
  const isForced = toolChoice?.type === "required" || toolChoice?.type === "tool";
  const later: CanonicalRequest = {
    ...request,
    turns: [...turns, ...added],
    maxOutputTokens: outputMax,
    toolChoice: isForced ? undefined : toolChoice,
  };
  if (exhausted.size === 0) return later;
  // Other tools stay. Without any, the function stays, because the conversation has its calls.
  const others = tools.filter(({ name }) => !exhausted.has(name));
  return others.length === 0
    ? { ...later, toolChoice: { type: "none" } }
    : { ...later, tools: others };
}

/** Chooses the first wire of the provider that can express the whole request, or else the first that loses only hints. */
function chooseTranslation(
  api: StreamingApi,
  request: CanonicalRequest,
  candidate: Candidate,
): TranslatedRequest {
  const target = targetOf(candidate);
  const translations = candidate.wires.flatMap((wire) => {
    const { translated, sibling } = WIRE_TRAITS[wire];
    const isRefused =
      sibling !== undefined &&
      candidate.wires.includes(sibling) &&
      refusesFunctions(wire, request, candidate);
    return translated === undefined || isRefused
      ? []
      : [translateRequest(request, { caller: api, provider: translated }, target)];
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
function canonicalRequestFor(input: PlanInput, api: StreamingApi): CanonicalRequest {
  const { request, candidate, adjustments } = input;
  const { postern: _postern, models: _models, provider: _provider, ...body } = request.json;
  const canonical = INBOUND_WIRES[api].readRequest({ ...body, model: request.model });
  const { provider, byok, allowStore } = candidate.credential;
  return {
    ...canonical,
    stream: request.stream,
    ...(droppedTier(input).length > 0 ? { serviceTier: undefined } : {}),
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

function targetOf({ credential, model, upstreamName }: Candidate): Target {
  return {
    provider: credential.provider.id,
    model: upstreamName,
    maxOutputTokens: model.maxOutputTokens ?? undefined,
    abilities: abilitiesOf(model),
  };
}

interface ChosenTranslation extends TranslatedRequest {
  readonly api: StreamingApi;
  readonly canonical: CanonicalRequest;
}

function planOf(input: PlanInput, translation: ChosenTranslation): TransportPlan {
  const { api, canonical, wire, written } = translation;
  const { request, candidate, requestId, now, modelIdOf, toPublicError } = input;
  const { credential, model } = candidate;
  const inbound = INBOUND_WIRES[api];
  const dropped = sentPaths(request, [
    ...droppedPaths(input.isLossy, canonical, written.losses, model.id),
    ...droppedStore(request, credential),
    ...droppedTier(input),
  ]);
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
    beta: written.beta,
    dropped,
    readUsage: translation.readUsage,
    writeReply: ({ json }, _usage, costUsd) =>
      translateReply(inbound, translation.readReply(json, requestId), writeContext, {
        costUsd,
        dropped,
        modelIdOf,
      }),
    createStreamTransform: () =>
      translationTransform(api, {
        reader: translation.createStreamReader(requestId),
        writer: inbound.createStreamWriter(writeContext),
        showsUsage: !API_TRAITS[api].hasUsageOption || canonical.includeUsage === true,
        dropped,
        modelIdOf,
        toErrorObject: (error) =>
          errorObject(
            API_TRAITS[api].errorFormat,
            toPublicError(streamErrorFault(error, credential, { isTranslated: true })),
            requestId,
          ),
      }),
    isTranslated: true,
  };
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
