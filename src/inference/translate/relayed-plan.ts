// The plan for a call of an endpoint without a conversation: the body passes through, except for the model's name and the
// members that the provider names otherwise.

import type { RelayedEndpoint, Usage } from "@postern/wires";
import { isObject } from "../../base/json.ts";
import { guardedJson } from "../shared-account/guarded-json.ts";
import { withoutUnsafeLabels } from "../shared-account/reject-references.ts";
import { rejectUnknownTools } from "../shared-account/reject-unknown-tools.ts";
import { destinationOf } from "../shared-account/source-url.ts";
import { redact } from "../upstream/redact.ts";
import { withModelId } from "./reply-model.ts";
import { rewriteRequest } from "./rewrite-request.ts";
import { dropsTier, TIER_FIELD } from "./service-tier.ts";
import { addExtrasToReply } from "./stream-transform.ts";
import { allLossPaths } from "./translate-reply.ts";
import type { PlanInput, TransportPlan } from "./transport-plan.ts";

const NO_USAGE: Usage = { tokens: {}, fees: {} };

export function relayedPlan(input: PlanInput, endpoint: RelayedEndpoint): TransportPlan {
  const { request, candidate } = input;
  const { api, json } = request;
  const { credential, model } = candidate;
  const dropped = droppedFields(input);
  const listed = dropped.length === 0 ? undefined : JSON.stringify(allLossPaths(dropped, []));
  return {
    wire: api,
    path: undefined,
    body: relayedBody(input, endpoint, dropped),
    dropped,
    readUsage: (reply) =>
      endpoint.readUsage(reply, {
        request: json,
        isPriced: (fee) => model.prices.some(({ card }) => card.base[fee] !== undefined),
      }),
    writeReply: ({ text, json: reply }, usage, costUsd) => {
      const written = endpoint.writeReply?.(reply, json, usage ?? NO_USAGE);
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
      throw new Error(`${api} is not streamed`);
    },
    isTranslated: false,
  };
}

/** Labels of the caller's framework that could be references, and a tier that the model has no price for. */
function droppedFields(input: PlanInput): readonly string[] {
  const { request, candidate } = input;
  const destination = destinationOf(candidate.credential, request.api);
  const labels = withoutUnsafeLabels(guardedJson(request), destination);
  rejectUnknownTools(labels.json, destination);
  return labels.dropped.concat(dropsTier(input) ? [TIER_FIELD] : []);
}

function relayedBody(
  { request, candidate, adjustments }: PlanInput,
  endpoint: RelayedEndpoint,
  dropped: readonly string[],
): string {
  const form = candidate.credential.provider.relayedForm ?? "standard";
  const members = Object.entries(endpoint.writeRequest?.(request.json, form) ?? {});
  return rewriteRequest(request, candidate, {
    ...adjustments,
    omitted: dropped,
    members: Object.fromEntries(
      members.map(([name, value]) => [name, value === undefined ? value : JSON.stringify(value)]),
    ),
  });
}
