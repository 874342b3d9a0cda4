// The plan for a call of an endpoint without a conversation: the body passes through, except for the model's name and the
// members that the provider names otherwise.

import {
  API_TRAITS,
  bytesIn,
  createRelayedMeter,
  OUTBOUND_WIRES,
  type RelayedContext,
  type RelayedEndpoint,
  type RelayedTranslation,
  type Usage,
  WIRE_TRAITS,
} from "@postern/wires";
import { errorBody } from "../../base/error-body.ts";
import { isObject, type JsonObject } from "../../base/json.ts";
import { SECOND_MS } from "../../base/time.ts";
import { fileOf } from "../request/form-json.ts";
import { guardedJson } from "../shared-account/guarded-json.ts";
import { withoutUnsafeLabels } from "../shared-account/reject-references.ts";
import { rejectUnknownTools } from "../shared-account/reject-unknown-tools.ts";
import { destinationOf } from "../shared-account/source-url.ts";
import { errorTypeOf, streamErrorFault } from "../upstream/provider-error.ts";
import { redact } from "../upstream/redact.ts";
import { withModelId } from "./reply-model.ts";
import { rewriteRequest } from "./rewrite-request.ts";
import { droppedTier } from "./service-tier.ts";
import { addExtrasToReply, bytesTransform, passthroughTransform } from "./stream-transform.ts";
import { allLossPaths } from "./translate-reply.ts";
import type { PlanInput, TransportPlan } from "./transport-plan.ts";

const NO_USAGE: Usage = { tokens: {}, fees: {} };

export function relayedPlan(input: PlanInput, endpoint: RelayedEndpoint): TransportPlan {
  const { request, candidate } = input;
  const { api, json } = request;
  const { credential } = candidate;
  const translation = endpoint.translations?.[credential.provider.relayedForm ?? "standard"];
  const context = contextOf(input);
  if (translation !== undefined) return translatedPlan(input, { endpoint, translation, context });
  const { stream } = endpoint;
  const form = request.stream ? stream?.formOf(json, context) : undefined;
  const dropped = droppedFields(input);
  const listed = dropped.length === 0 ? undefined : JSON.stringify(allLossPaths(dropped, []));
  return {
    wire: api,
    path: undefined,
    body: relayedBody(input, endpoint, { dropped, context }),
    dropped,
    readUsage: (reply) => endpoint.readUsage(reply, context),
    isEmpty: endpoint.isEmpty,
    writeReply: ({ text, json: reply }, usage, costUsd) => {
      const written = endpoint.writeReply?.(reply, json, usage ?? NO_USAGE);
      const file = isObject(reply["error"]) ? undefined : endpoint.writeFile?.(reply, json);
      if (file !== undefined) return { ...file, dropped: [] };
      const body = written ?? reply;
      const safeText = isObject(body["error"]) ? redact(text, credential) : text;
      const ownText = written === undefined ? safeText : JSON.stringify(written);
      return {
        text: addExtrasToReply(withModelId(ownText, body, input.modelIdOf), body["usage"], {
          cost: costUsd,
          dropped: listed,
        }),
        dropped: [],
      };
    },
    createStreamTransform: () => {
      if (stream === undefined || form === undefined) throw new Error(`${api} is not streamed`);
      return form.returned === "bytes"
        ? bytesTransform((event) => bytesIn(stream, event))
        : passthroughTransform(api, {
            wantsUsage: !API_TRAITS[api].hasUsageOption || request.wantsUsage,
            modelIdOf: input.modelIdOf,
            dropped: listed,
            lacksTerminalEvent: true,
            toErrorBody: (data) => streamErrorBody(input, data),
          });
    },
    relayedStream:
      stream === undefined || form === undefined
        ? undefined
        : {
            ...form,
            createMeter: () => createRelayedMeter(stream, context),
            knownUsage: stream.usageOfBytes?.(context),
          },
    isTranslated: false,
  };
}

interface Translated {
  readonly endpoint: RelayedEndpoint;
  readonly translation: RelayedTranslation;
  readonly context: RelayedContext;
}

function translatedPlan(
  { request, candidate, now, formFiles = [] }: PlanInput,
  { endpoint, translation, context }: Translated,
): TransportPlan {
  const dropped = [...translation.dropped(request.json)];
  const listed = dropped.length === 0 ? undefined : JSON.stringify(allLossPaths(dropped, []));
  return {
    wire: translation.wire,
    path: translation.pathOf(candidate.upstreamName),
    body: JSON.stringify(
      translation.write(request.json, {
        upstreamName: candidate.upstreamName,
        fileOf: (member) => fileOf(member, formFiles),
      }),
    ),
    isForm: false,
    dropped,
    readUsage: (reply) =>
      translation.readUsage === undefined
        ? endpoint.readUsage(reply, context)
        : translation.readUsage(reply, context),
    isEmpty:
      translation.isEmpty ?? (translation.readUsage === undefined ? endpoint.isEmpty : undefined),
    writeReply: ({ json }, usage = NO_USAGE, costUsd) => {
      const reply =
        translation.read?.(json, Math.floor(now / SECOND_MS), usage) ??
        endpoint.writeReply?.(json, request.json, usage) ??
        json;
      const extras = { cost: costUsd, dropped: listed };
      return { text: addExtrasToReply(JSON.stringify(reply), reply["usage"], extras), dropped: [] };
    },
    createStreamTransform: () => {
      throw new Error(`${request.api} is not streamed here`);
    },
    isTranslated: true,
  };
}

function contextOf({ request, candidate }: PlanInput): RelayedContext {
  const { model, credential } = candidate;
  const { relayedForm = "standard", audioSecondsMin = 0 } = credential.provider;
  return {
    request: request.json,
    isPriced: (fee) => model.prices.some(({ card }) => card.base[fee] !== undefined),
    form: relayedForm,
    audioSecondsMin,
  };
}

function streamErrorBody(
  { candidate, requestId, toPublicError }: PlanInput,
  data: unknown,
): JsonObject {
  const { base } = WIRE_TRAITS.chat;
  const fault = streamErrorFault(OUTBOUND_WIRES[base].readError(200, data), candidate.credential, {
    isTranslated: false,
    type: isObject(data) ? errorTypeOf(data) : undefined,
  });
  return errorBody("openai", toPublicError(fault), requestId);
}

/** Labels of the caller's framework that could be references, and a tier that the model has no price for. */
function droppedFields(input: PlanInput): readonly string[] {
  const { request, candidate } = input;
  const destination = destinationOf(candidate.credential, request.api);
  const labels = withoutUnsafeLabels(guardedJson(request), destination);
  rejectUnknownTools(labels.json, destination);
  return labels.dropped.concat(droppedTier(input));
}

function relayedBody(
  { request, candidate, adjustments }: PlanInput,
  endpoint: RelayedEndpoint,
  { dropped, context }: { readonly dropped: readonly string[]; readonly context: RelayedContext },
): string {
  const members = Object.entries(endpoint.writeRequest?.(request.json, context) ?? {});
  const { modelSuffix = "" } = endpoint;
  const upstreamName = candidate.upstreamName.replace(new RegExp(`${modelSuffix}$`), "");
  return rewriteRequest(
    request,
    { ...candidate, upstreamName },
    {
      ...adjustments,
      omitted: dropped,
      members: Object.fromEntries(
        members.map(([name, value]) => [name, value === undefined ? value : JSON.stringify(value)]),
      ),
    },
  );
}
