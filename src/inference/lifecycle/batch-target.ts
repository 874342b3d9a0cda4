// Items that a provider runs in a batch of its own, at its lower price. The request is written by the stages of a call up to its
// plan; the result is metered, translated and settled as the reply to a call.

import { WIRE_TRAITS } from "@postern/wires";
import { Fault } from "../../base/fault.ts";
import { minNano, type Nano } from "../../base/money/money.ts";
import { findModel } from "../../models/catalog.ts";
import { cardAt } from "../../models/price-card.ts";
import { BATCH_TIER, isPriced } from "../../models/price.ts";
import type { CostEstimate } from "../metering/cost-estimate.ts";
import type { Credential } from "../providers/credentials.ts";
import type { UpstreamWire } from "../providers/providers.ts";
import { type ForwardedHeaders, withBeta } from "../request/forwarded-headers.ts";
import { usesGatewayTools } from "../request/tool-bounds.ts";
import type { Candidate } from "../routing/candidates.ts";
import { priceCandidates } from "../routing/priced-candidates.ts";
import type { RoutingDeps } from "../routing/routing.ts";
import type { ReplyBody } from "../translate/transport-plan.ts";
import { toFailedAttempt } from "../upstream/failure.ts";
import type { CallInput, HeldCall, Hold, OpenCall, ParsedCall, RoutedCall } from "./call.ts";
import { allowsBatch, type DataPolicyDeps } from "./enforce-data-policy.ts";
import { parseCall, type ParseDeps } from "./parse-call.ts";
import { planCall, type PlanDeps } from "./plan-call.ts";
import { wantsReceipt } from "./receipt-request.ts";
import { respond, type RespondDeps } from "./reply/respond-to-caller.ts";
import { routeCall } from "./route-call.ts";

/** Where a provider runs an item. */
export interface BatchTarget {
  readonly provider: string;
  /** The label of the gateway's key there. */
  readonly credential: string;
  readonly model: string;
  /** The provider's name for the model. */
  readonly upstreamName: string;
  readonly wire: UpstreamWire;
}

/** Undefined if only the gateway can run the call. */
export function batchTargetOf(
  deps: DataPolicyDeps,
  { request, input: { caller } }: RoutedCall,
  candidate: Candidate,
): BatchTarget | undefined {
  const { credential, model, upstreamName } = candidate;
  const { provider, byok, label } = credential;
  const wire = batchWireOf(candidate);
  // Another tier or speed has a price of its own, and guardrails check each reply before it is charged.
  const isSpecial = request.serviceTier !== undefined || request.speed !== undefined;
  const isGuarded = caller.guardrailsAt !== undefined;
  // A hold refuses the call of a session that was stopped, and an item of a provider's batch has none.
  const isInSession = caller.policy?.session !== undefined;
  // The gateway decides which MCP servers a key may use when it runs the call.
  const usesTools = request.hasMcp || usesGatewayTools(request, model);
  if (byok || isSpecial || isGuarded || isInSession || usesTools) return undefined;
  if (wire === undefined) return undefined;
  if (!allowsBatch(model, request, caller, deps)) return undefined;
  return { provider: provider.id, credential: label, model: model.id, upstreamName, wire };
}

/** The wire of the call if the provider has it in batches, else one to which it is translated. */
function batchWireOf({ credential, model, wires }: Candidate): UpstreamWire | undefined {
  const [own] = wires;
  const inBatches = credential.provider.batches?.wires ?? [];
  if (inBatches.includes(own)) return own;
  const isOffered = (wire: UpstreamWire): boolean => model.wires.some((known) => known === wire);
  return WIRE_TRAITS[own].isReplaceable ? inBatches.find(isOffered) : undefined;
}

function onWire(candidate: Candidate, wire: UpstreamWire): Candidate {
  return candidate.wires[0] === wire ? candidate : { ...candidate, wires: [wire] };
}

/**
 * With the wire that the request is written on: OpenAI's newest models take functions only on another one. Throws the fault that the
 * call would have; undefined if only a call can be written.
 */
export function plannedTarget(
  deps: Pick<BatchTargetDeps, "plan">,
  routed: RoutedCall,
  {
    target,
    candidate,
    share,
  }: { readonly target: BatchTarget; readonly candidate: Candidate; readonly share: Nano },
): BatchTarget | undefined {
  const { wires, credential } = candidate;
  try {
    const item = { candidate: onWire(candidate, target.wire), share };
    const { wire } = heldItem(deps, routed, item).plan;
    const isInBatches = credential.provider.batches?.wires.includes(wire) === true;
    return isInBatches ? { ...target, wire } : undefined;
  } catch (error) {
    if (error instanceof Fault && target.wire !== wires[0]) return undefined;
    throw error;
  }
}

/** The most that the call costs in a batch; undefined if the price is not known. */
export function priceInBatch(routed: RoutedCall, candidate: Candidate): CostEstimate | undefined {
  const card = cardAt(candidate.model.prices, routed.pricedAt);
  if (card === undefined || !isPriced(card, { serviceTier: BATCH_TIER })) return undefined;
  return priceCandidates({ ...routed, candidates: [candidate], isBatch: true })[0].estimate;
}

export interface BatchTargetDeps {
  readonly parse: ParseDeps;
  readonly route: RoutingDeps & DataPolicyDeps;
  readonly plan: PlanDeps;
  readonly respond: RespondDeps;
}

interface TargetedItem {
  readonly target: BatchTarget;
  /** When the batch was created: its prices apply. */
  readonly pricedAt: number;
}

/** An item in the form of its provider. */
export interface BatchRequest {
  readonly wire: UpstreamWire;
  readonly body: string;
  readonly headers: ForwardedHeaders;
}

/** Throws the fault that the call would have now. */
export async function writeBatchRequest(
  deps: BatchTargetDeps,
  input: CallInput,
  { target, pricedAt, share }: TargetedItem & { readonly share: Nano },
): Promise<BatchRequest> {
  const parsed = await parsedItem(deps, input);
  const routed = await routeCall(deps.route, parsed);
  const candidate = routed.candidates.find(
    (one) => one.model.id === target.model && one.credential.label === target.credential,
  );
  // A guardrail or a data policy may be newer than the batch.
  if (candidate === undefined || batchTargetOf(deps.route, routed, candidate) === undefined)
    throw movedFault(target);
  const item = { candidate: onWire(candidate, target.wire), share };
  const { plan } = heldItem(deps, { ...routed, pricedAt }, item);
  if (plan.wire !== target.wire || plan.loop !== undefined) throw movedFault(target);
  return { wire: plan.wire, body: plan.body, headers: withBeta(input.forwardedHeaders, plan.beta) };
}

/** The gateway's key of a target; undefined if it has no such key any more. */
export function credentialOf(
  { accountAt }: Pick<RoutingDeps, "accountAt">,
  { provider, credential }: Pick<BatchTarget, "provider" | "credential">,
): Credential | undefined {
  return accountAt(provider)?.credentials.find(({ label }) => label === credential);
}

/**
 * Charges the result that the provider has billed and writes it. Neither the policy of the key nor routing is asked again: they
 * decided when the item was sent.
 */
export async function settleBatchReply(
  deps: BatchTargetDeps,
  input: CallInput,
  { target, pricedAt }: TargetedItem,
  reply: ReplyBody,
): Promise<void> {
  const parsed = await parsedItem(deps, input);
  const catalog = deps.route.catalog.current();
  const { batchItem } = input;
  const model = findModel(catalog, target.model)?.model;
  if (model === undefined || batchItem === undefined) throw movedFault(target);
  const resolved = { model, upstreamName: target.upstreamName };
  const found = deps.route
    .findRoute(resolved, input.api, catalog)
    .gatewayCandidates.find(({ credential }) => credential.label === target.credential);
  if (found === undefined) throw movedFault(target);
  const candidate = onWire(found, target.wire);
  const routed = { ...parsed, catalog, pricedAt, candidates: [candidate] as const };
  const held = heldItem(deps, routed, { candidate, share: batchItem.share });
  held.attempts.push({ provider: target.provider, model: model.id, status: 200, ms: 0 });
  await respond(deps.respond, held, { kind: "whole", ...reply, headers: {} });
}

/** The fault of a request that the provider refused within its batch. */
export function batchErrorFault(
  credential: Credential,
  { wire }: Pick<BatchTarget, "wire">,
  { status, text }: { readonly status: number; readonly text: string },
): Fault {
  const failure = { kind: "provider_error", status, text, headers: {} } as const;
  return toFailedAttempt(failure, { wire, isTranslated: true }, credential).fault;
}

async function parsedItem(deps: BatchTargetDeps, input: CallInput): Promise<ParsedCall> {
  const parsed = await parseCall(deps.parse, input);
  if (parsed instanceof Response) throw new Error("an item of a batch ran in the background");
  return parsed;
}

interface ItemAtProvider {
  readonly candidate: Candidate;
  readonly share: Nano;
}

/** The share of the item is its hold, and the most that it is charged. */
function heldItem(
  deps: Pick<BatchTargetDeps, "plan">,
  routed: RoutedCall,
  { candidate, share }: ItemAtProvider,
): HeldCall {
  const [priced] = priceCandidates({ ...routed, candidates: [candidate], isBatch: true });
  const amount = minNano(share, priced.estimate.amount);
  const hold: Hold = {
    amount,
    limit: share,
    isRolling: false,
    isPaid: true,
    isPaying: false,
    // Not used: the hold of the batch needs no lease of this process.
    leaseTerm: 0,
  };
  const call: OpenCall = {
    ...routed,
    candidates: [priced],
    ceiling: { max: share, canShorten: false },
    holdsAll: true,
    receipt: wantsReceipt(routed.request, routed.input) ? { quoteId: undefined } : undefined,
    attempts: [],
    // A shutdown waits for the batches of the process.
    untrack: () => {},
  };
  const planned = planCall(deps.plan, call, priced, hold);
  if (planned instanceof Fault) throw planned;
  return planned;
}

function movedFault({ model }: BatchTarget): Fault {
  return new Fault("upstream_error", "target of a batch item is gone", {
    message: `${model} was changed or removed after the batch was created. Send the request again.`,
  });
}
