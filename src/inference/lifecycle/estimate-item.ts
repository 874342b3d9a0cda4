// The most that a call can cost, for the hold of a batch and for a wallet that pays the call: its stages up to the estimate,
// before anything is held or sent.

import { API_TRAITS } from "@postern/wires";
import type { Nano } from "../../base/money/money.ts";
import {
  type CostCeiling,
  readCostCeiling,
  rejectQuote,
  rejectUnknownOptions,
} from "../request/call-options.ts";
import type { PricedCandidate } from "../routing/priced-candidates.ts";
import type { RoutingDeps } from "../routing/routing.ts";
import {
  type BatchTarget,
  type BatchTargetDeps,
  batchTargetOf,
  plannedTarget,
  priceInBatch,
} from "./batch-target.ts";
import type { CallInput, RoutedCall } from "./call.ts";
import type { DataPolicyDeps } from "./enforce-data-policy.ts";
import { priceAllowed } from "./enforce-key-policy.ts";
import { cappedAt, withinCeiling } from "./hold/cost-ceiling.ts";
import { fullEstimate } from "./hold/hold.ts";
import { parseCall, type ParseDeps } from "./parse-call.ts";
import { routeCall } from "./route-call.ts";

export interface EstimateItemDeps {
  readonly parse: ParseDeps;
  readonly route: RoutingDeps & DataPolicyDeps;
}

/** What a call can cost at most: as a call, and in a batch of its provider. */
export interface ItemEstimate {
  readonly amount: Nano;
  /** Undefined if only the gateway can run it. */
  readonly inBatch?: { readonly target: BatchTarget; readonly amount: Nano } | undefined;
}

/** Throws the fault that the call would have. Zero for a call on the caller's own provider key. */
export async function estimateItem(deps: EstimateItemDeps, input: CallInput): Promise<Nano> {
  return (await priceItem(deps, input)).amount;
}

/** Throws the fault that the call would have. */
export async function estimateBatchItem(
  deps: EstimateItemDeps & Pick<BatchTargetDeps, "plan">,
  input: CallInput,
): Promise<ItemEstimate> {
  const { amount, first, routed, ceiling, isContinued } = await priceItem(deps, input);
  rejectQuote(routed.request.json, input.headers);
  const { candidate } = first;
  const found = isContinued ? undefined : batchTargetOf(deps.route, routed, candidate);
  const inBatch = found && priceInBatch(routed, candidate);
  if (found === undefined || inBatch === undefined) return { amount };
  const share = cappedAt(inBatch.amount, ceiling);
  const target = plannedTarget(deps, routed, { target: found, candidate, share });
  return target === undefined ? { amount } : { amount, inBatch: { target, amount: share } };
}

interface PricedItem {
  readonly amount: Nano;
  readonly first: PricedCandidate;
  readonly routed: RoutedCall;
  readonly ceiling: CostCeiling | undefined;
  /** Whether the request continues a stored response, which may be deleted before a batch of the provider has ended. */
  readonly isContinued: boolean;
}

async function priceItem(deps: EstimateItemDeps, input: CallInput): Promise<PricedItem> {
  const parsing = parseCall(deps.parse, input);
  const isContinued = parsing instanceof Promise;
  const parsed = await parsing;
  if (parsed instanceof Response) throw new Error("an item of a batch ran in the background");
  const routed = await routeCall(deps.route, parsed);
  const { request } = routed;
  rejectUnknownOptions(request.json);
  const stated = readCostCeiling(request.json, input.headers);
  const canShorten = API_TRAITS[request.api].generates;
  const ceiling = stated && { ...stated, canShorten: stated.canShorten && canShorten };
  const [first, ...others] = withinCeiling(priceAllowed(routed), ceiling, request.choices);
  const isFree = first.candidate.credential.byok;
  const full = fullEstimate(first, others).amount;
  const amount = isFree ? 0n : cappedAt(full, ceiling);
  return { amount, first, routed, ceiling, isContinued };
}
