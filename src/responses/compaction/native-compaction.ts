// Compaction by the provider itself: the request for a summary becomes a request to the provider's own endpoint where there is
// one. The provider's item is readable only there; the provider passes it on like every other item.

import { isObject, type JsonObject, parseObject } from "../../base/json.ts";
import type { CallInput, StatefulCall } from "../../inference/lifecycle/call.ts";
import { sharedCredentialsFault } from "../../inference/lifecycle/shared-credentials.ts";
import { parseRequest, type ParsedRequest } from "../../inference/request/parse-request.ts";
import type { TransportPlan } from "../../inference/translate/transport-plan.ts";

/** Opens stored responses and sealed summaries that the request refers to. */
export type PrepareCall = (
  request: ParsedRequest,
  input: CallInput,
) => Promise<StatefulCall | Response | undefined> | StatefulCall | undefined;

/** The fields of the endpoint that the gateway's own request can have. */
const NATIVE_FIELDS = [
  "model",
  "instructions",
  "previous_response_id",
  "prompt_cache_key",
] as const;

/** The call for a summary, whose candidates compact natively if they can. */
export async function nativeCall(prepare: PrepareCall, input: CallInput): Promise<StatefulCall> {
  const request = parseRequest("responses", input.text);
  const prepared = await prepare(request, input);
  if (prepared instanceof Response) throw new Error("a compaction runs in the background");
  const call = prepared ?? {
    request,
    sharedCredentialsFault: () => sharedCredentialsFault(request),
    planFor: (_candidate, createPlan) => createPlan(request),
    storeReply: () => undefined,
  };
  return {
    ...call,
    planFor: (candidate, createPlan) => {
      const plan = call.planFor(candidate, createPlan);
      const { compactsResponses } = candidate.credential.provider;
      return compactsResponses === true && plan.wire === "responses" && !plan.isTranslated
        ? nativePlan(plan)
        : plan;
    },
  };
}

function nativePlan(plan: TransportPlan): TransportPlan {
  const body = parseObject(plan.body) ?? {};
  const { input } = body;
  // The last item asks for the summary.
  const items = Array.isArray(input) ? input.slice(0, -1) : [];
  const kept = NATIVE_FIELDS.flatMap((name) =>
    (body[name] ?? undefined) === undefined ? [] : [[name, body[name]] as const],
  );
  return {
    ...plan,
    path: "/compact",
    body: JSON.stringify({ ...Object.fromEntries(kept), input: items }),
    withoutEndpoint: plan,
  };
}

export function isNativeReply(reply: unknown): reply is JsonObject {
  return isObject(reply) && reply["object"] === "response.compaction";
}
