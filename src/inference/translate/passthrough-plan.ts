// The plan for a call on the caller's own wire: the bytes pass through, except for the fields that the gateway writes.

import {
  type AdaptedFields,
  adaptRejectable,
  adaptSettings,
  UNADAPTED,
  API_TRAITS,
  dropForeignHistory,
  OUTBOUND_WIRES,
  sanitizeHistory,
  usageOf,
  WIRE_TRAITS,
} from "@postern/wires";
import { errorBody } from "../../base/error-body.ts";
import { isObject, type JsonObject } from "../../base/json.ts";
import { abilitiesOf } from "../../models/model-abilities.ts";
import { withoutUnsafeLabels } from "../shared-account/reject-references.ts";
import { rejectUnknownTools } from "../shared-account/reject-unknown-tools.ts";
import { destinationOf } from "../shared-account/source-url.ts";
import { errorTypeOf, streamErrorFault } from "../upstream/provider-error.ts";
import { redact } from "../upstream/redact.ts";
import { sentPaths } from "./losses.ts";
import { droppedStore } from "./provider-store.ts";
import { withModelId } from "./reply-model.ts";
import { type RequestAdjustments, rewriteRequest } from "./rewrite-request.ts";
import { droppedTier } from "./service-tier.ts";
import { isStreamingApi, addExtrasToReply, passthroughTransform } from "./stream-transform.ts";
import { allLossPaths } from "./translate-reply.ts";
import { type PlanInput, requestPath, type TransportPlan } from "./transport-plan.ts";

export function passthroughPlan(input: PlanInput): TransportPlan {
  const plan = planOf(input, undefined);
  const { request, candidate, isStrict } = input;
  if (isStrict) return plan;
  const rejectable = adaptRejectable(request.api, request.json, abilitiesOf(candidate.model));
  if (rejectable === undefined) return plan;
  const { reason, adapted } = rejectable;
  return { ...plan, afterRejection: { reason, plan: () => planOf(input, adapted) } };
}

function planOf(input: PlanInput, adapted: AdaptedFields | undefined): TransportPlan {
  const { candidate, requestId, modelIdOf, toPublicError } = input;
  const { api, wantsUsage } = input.request;
  if (!isStreamingApi(api)) throw new Error(`${api} has a plan of its own`);
  // The text that is sent differs from this only in fields that the gateway writes.
  const destination = destinationOf(candidate.credential, api);
  const labels = withoutUnsafeLabels(input.request.json, destination);
  const request =
    labels.json === input.request.json ? input.request : { ...input.request, json: labels.json };
  rejectUnknownTools(labels.json, destination);
  const { provider } = candidate.credential;
  const { id, endsStreamByClosing: lacksTerminalEvent } = provider;
  const { errorFormat, usageField, modelField } = API_TRAITS[api];
  const { adjustments, dropped } = adaptRequest(input, request, {
    adapted,
    labels: labels.dropped,
  });
  const allDropped = sentPaths(
    request,
    joined(dropped, droppedStore(request, candidate.credential)),
  );
  const listed = allDropped.length === 0 ? undefined : JSON.stringify(allLossPaths(allDropped, []));
  return {
    wire: api,
    path: requestPath(api, input),
    body: rewriteRequest(request, candidate, adjustments),
    dropped: allDropped,
    readUsage: (reply) => usageOf(api, reply, id),
    writeReply: ({ text, json: reply }, usage, costUsd) => {
      const named = withModelId(text, reply, modelIdOf, modelField);
      const safeText = isObject(reply["error"]) ? redact(named, candidate.credential) : named;
      return {
        text:
          usage === undefined
            ? safeText
            : addExtrasToReply(
                safeText,
                reply[usageField],
                { cost: costUsd, dropped: listed },
                usageField,
              ),
        dropped: [],
      };
    },
    createStreamTransform: () => {
      return passthroughTransform(api, {
        wantsUsage,
        modelIdOf,
        dropped: listed,
        lacksTerminalEvent,
        toErrorBody: (data) =>
          errorBody(
            errorFormat,
            toPublicError(
              streamErrorFault(
                OUTBOUND_WIRES[WIRE_TRAITS[api].base].readError(200, data),
                candidate.credential,
                {
                  isTranslated: false,
                  type: isObject(data) ? errorTypeOf(data) : undefined,
                },
              ),
            ),
            requestId,
          ),
      });
    },
    isTranslated: false,
  };
}

interface AdaptedRequest {
  readonly adapted: AdaptedFields | undefined;
  /** The paths of labels that were removed. */
  readonly labels: readonly string[];
}

/** What is changed so that this model takes the request, and the fields that are dropped for it. */
function adaptRequest(
  input: PlanInput,
  request: PlanInput["request"],
  { adapted, labels }: AdaptedRequest,
): {
  readonly adjustments: RequestAdjustments;
  readonly dropped: readonly string[];
} {
  const { candidate, adjustments } = input;
  const history = adaptHistory(request, candidate, labels);
  const { messages } = history;
  // The settings may add an instruction to the messages.
  const json =
    messages === undefined ? request.json : { ...request.json, messages: JSON.parse(messages) };
  const settings = adaptSettings(request.api, json, abilitiesOf(candidate.model));
  const tier = droppedTier(input);
  const adaptedFields = joined(joined(settings.dropped, tier), adapted?.dropped ?? NOTHING);
  const dropped = joined(history.dropped, adaptedFields);
  if (dropped.length === 0 && settings === UNADAPTED) return { adjustments, dropped };
  return {
    adjustments: {
      ...adjustments,
      messages: settings.members["messages"] ?? messages,
      input: history.input,
      contents: history.contents,
      omitted: labels.filter((path) => /^\w+$/.test(path)).concat(tier),
      members: { ...adjustments.members, ...settings.members, ...adapted?.members },
    },
    dropped,
  };
}

/** The messages or input that this model takes, as JSON text; `labels` were removed from the request. */
function adaptHistory(
  request: PlanInput["request"],
  candidate: PlanInput["candidate"],
  labels: readonly string[],
): Pick<RequestAdjustments, "messages" | "input" | "contents"> & {
  readonly dropped: readonly string[];
} {
  const { rejectedHistoryFields } = candidate.credential.provider;
  const history = sanitizeHistory(request, rejectedHistoryFields, abilitiesOf(candidate.model));
  const foreign = dropForeignHistory(request);
  const { json } = request;
  return {
    messages: history.messages ?? foreign.messages ?? withoutLabels("messages", json, labels),
    input: foreign.input ?? withoutLabels("input", json, labels),
    contents: foreign.contents,
    dropped: joined(labels, joined(history.dropped, foreign.dropped)),
  };
}

const NOTHING: readonly string[] = [];

/** Nearly always nothing is dropped, and `concat` copies also empty lists. */
function joined(one: readonly string[], other: readonly string[]): readonly string[] {
  if (one.length === 0) return other;
  return other.length === 0 ? one : one.concat(other);
}

/** The list as JSON text, if labels were removed in it. */
function withoutLabels(
  list: "messages" | "input",
  json: JsonObject,
  labels: readonly string[],
): string | undefined {
  return labels.some((path) => path.startsWith(`${list}[`))
    ? JSON.stringify(json[list])
    : undefined;
}
