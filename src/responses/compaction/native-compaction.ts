// Compaction by the provider itself: the request for a summary becomes a request to the provider's own endpoint where there is
// one. The provider's item is readable only there; the provider passes it on like every other item.

import { isObject, type JsonObject, parseObject } from "../../base/json.ts";
import type { CallInput, StatefulCall } from "../../inference/lifecycle/call.ts";
import type { PrepareCall } from "../../inference/lifecycle/parse-call.ts";
import { sharedCredentialsFault } from "../../inference/lifecycle/shared-credentials.ts";
import { parseRequest } from "../../inference/request/parse-request.ts";
import type { TransportPlan } from "../../inference/translate/transport-plan.ts";

/** The fields of the endpoint that the gateway's own request can have. */
const NATIVE_FIELDS = [
  "model",
  "instructions",
  "previous_response_id",
  "prompt_cache_key",
] as const;

/** The call for a summary, whose candidates compact natively if they can. */
export async function nativeCall(
  prepareCall: PrepareCall,
  input: CallInput,
): Promise<StatefulCall> {
  const request = parseRequest("responses", input.text);
  const prepared = await prepareCall(request, input);
  if (prepared instanceof Response) throw new Error("a compaction runs in the background");
  const call: StatefulCall = prepared ?? {
    request,
    sharedCredentialsFault: () => sharedCredentialsFault(request),
    requestFor: () => ({ request }),
    storeReply: () => undefined,
  };
  return {
    ...call,
    requestFor: (candidate) => {
      const sent = call.requestFor(candidate);
      if (candidate.credential.provider.compactsResponses !== true) return sent;
      return {
        ...sent,
        adaptPlan: (original) => {
          const plan = sent.adaptPlan?.(original) ?? original;
          return plan.isTranslated ? plan : nativePlan(plan);
        },
      };
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
