// The most that a call can cost, for the hold of a batch and for a wallet that pays the call: its stages up to the estimate,
// before anything is held or sent.

import { API_TRAITS } from "@postern/wires";
import type { Nano } from "../../base/money/money.ts";
import { readCostCeiling, rejectUnknownOptions } from "../request/call-options.ts";
import type { RoutingDeps } from "../routing/routing.ts";
import type { CallInput } from "./call.ts";
import type { DataPolicyDeps } from "./enforce-data-policy.ts";
import { priceAllowed } from "./enforce-key-policy.ts";
import { cappedAt, withinCeiling } from "./hold/cost-ceiling.ts";
import { paidEstimate } from "./hold/hold.ts";
import { parseCall, type ParseDeps } from "./parse-call.ts";
import { routeCall } from "./route-call.ts";

export interface EstimateItemDeps {
  readonly parse: ParseDeps;
  readonly route: RoutingDeps & DataPolicyDeps;
}

/** Throws the fault that the call would have. Zero for a call on the caller's own provider key. */
export async function estimateItem(deps: EstimateItemDeps, input: CallInput): Promise<Nano> {
  const parsed = await parseCall(deps.parse, input);
  if (parsed instanceof Response) throw new Error("an item of a batch ran in the background");
  const routed = await routeCall(deps.route, parsed);
  const { request } = routed;
  rejectUnknownOptions(request.json);
  const stated = readCostCeiling(request.json, input.headers);
  const canShorten = API_TRAITS[request.api].generates;
  const ceiling = stated && { ...stated, canShorten: stated.canShorten && canShorten };
  const [first, ...others] = withinCeiling(priceAllowed(routed), ceiling, request.choices);
  if (first.candidate.credential.byok) return 0n;
  return cappedAt(paidEstimate({ request, holdsAll: true }, first, others).amount, ceiling);
}
