// Tries the legs of a call, one after another, until one begins to answer. One hold stands for all that may have to be
// paid for; a leg on the caller's own key costs nothing and holds nothing.

import { onAborted } from "../../base/deadline.ts";
import { Fault } from "../../base/fault.ts";
import { createAbort } from "../../base/abort.ts";
import type { ParsedRequest } from "../request/parse-request.ts";
import {
  attemptCandidate,
  type AttemptRequest,
  type CandidateResult,
} from "../upstream/attempt.ts";
import { type HeldCall, holdIds, type InferDeps, abortStopsBilling } from "./call.ts";
import { holdFault, operatorFreezeFault, toHoldRequest } from "./hold-faults.ts";
import { clampedOutputLimit, type CostEstimate } from "../metering/cost-estimate.ts";
import { holdLifetimeMs, lastAttemptStartMs } from "./hold-lifetime.ts";
import {
  mostExpensive,
  type PricedCandidate,
  isFallbackable,
} from "../routing/priced-candidates.ts";
import { type TransportPlan, planFor } from "../translate/plan.ts";

export type RoutedRequest = Pick<
  HeldCall,
  "input" | "request" | "statefulCall" | "catalog" | "untrack"
>;

export interface FallbackResult {
  readonly call: HeldCall;
  readonly priced: PricedCandidate;
  readonly result: CandidateResult;
}

interface ActiveHold {
  readonly amount: bigint;
  /** False for the hold of nothing under which a caller's own key is tried. */
  readonly isPaid: boolean;
  /** Why it does not pay for what would have to be paid for. */
  readonly shortfall?: Fault;
}

/** Refusals of a hold for which the caller's own key is as good as before. */
const FUNDS_FAULT_CODES: ReadonlySet<string> = new Set([
  "insufficient_credits",
  "key_limit_reached",
  "workspace_budget_reached",
  "workspace_frozen",
  "rate_limited",
]);

const NO_CANDIDATES: readonly PricedCandidate[] = [];

/** Refusals that an owner can mend, where there is one. */
const OWNER_FIXABLE_OUTCOMES: ReadonlySet<string> = new Set([
  "insufficient_credits",
  "budget",
  "key_limit",
]);

export async function runFallbacks(
  deps: InferDeps,
  routed: RoutedRequest,
  candidates: readonly [PricedCandidate, ...PricedCandidate[]],
): Promise<FallbackResult> {
  const attempts: HeldCall["attempts"] = [];
  let activeHold: ActiveHold | undefined;
  let last: FallbackResult | undefined;
  let refusal: Fault | undefined;
  let shortfall: Fault | undefined;
  try {
    for (const [index, priced] of candidates.entries()) {
      const remaining = candidatesAfter(index, candidates);
      const isFirst = activeHold === undefined;
      const next = { priced, remaining, activeHold };
      activeHold = await (last === undefined ? ensureHold : ensureHoldOrFree)(deps, routed, next);
      shortfall ??= activeHold.shortfall;
      // There is no money for this way; one on another key of the caller's own takes none.
      if (!activeHold.isPaid && !priced.candidate.credential.byok) continue;
      if (isFirst) await routed.statefulCall?.onHeld?.();
      const call = createHeldCall(priced, routed, { attempts, held: activeHold.amount });
      const result = await attemptOn(deps, call, priced, remaining[0]);
      // A request that cannot be said to this provider may be said to the next.
      if (result instanceof Fault) {
        refusal ??= result;
        continue;
      }
      last = { call, priced, result };
      if (!shouldFallBack(deps, last)) break;
    }
    if (last === undefined) throw refusal ?? new Error("a call without a leg");
    return withShortfall(last, shortfall);
  } catch (error) {
    if (activeHold !== undefined)
      await deps.ledger.settle({ ...holdIds(routed), cost: 0n, now: deps.now() }).catch(() => {});
    throw error;
  }
}

function candidatesAfter(
  index: number,
  candidates: readonly PricedCandidate[],
): readonly PricedCandidate[] {
  return index + 1 < candidates.length ? candidates.slice(index + 1) : NO_CANDIDATES;
}

function shouldFallBack(deps: InferDeps, { call, result }: FallbackResult): boolean {
  if (result.ok || result.aborted || call.input.signal.aborted) return false;
  // The hold does not live for ever, and neither does the caller's patience.
  const isLate = deps.now() - call.input.now > lastAttemptStartMs(deps.timeouts);
  return !isLate && isFallbackable(result.fault);
}

interface FallbackStep {
  readonly priced: PricedCandidate;
  readonly remaining: readonly PricedCandidate[];
  readonly activeHold: ActiveHold | undefined;
}

function ensureHold(
  deps: InferDeps,
  routed: RoutedRequest,
  { priced, remaining, activeHold }: FallbackStep,
): ActiveHold | Promise<ActiveHold> {
  const isPaid = !priced.candidate.credential.byok;
  if (activeHold !== undefined && (activeHold.isPaid || !isPaid)) return activeHold;
  const estimate = isPaid ? holdEstimate(priced, remaining) : freeEstimate(priced);
  return placeHold(deps, routed, { estimate, isPaid, activeHold });
}

function freeEstimate({ estimate }: PricedCandidate): CostEstimate {
  return { ...estimate, amount: 0n, minimum: undefined };
}

/** Pays nothing where there is no money for another way: what the caller's own key has met before says more. */
async function ensureHoldOrFree(
  deps: InferDeps,
  routed: RoutedRequest,
  step: FallbackStep,
): Promise<ActiveHold> {
  try {
    return await ensureHold(deps, routed, step);
  } catch (error) {
    if (!(error instanceof Fault && FUNDS_FAULT_CODES.has(error.code))) throw error;
    if (routed.input.hasPayment === true && error.code === "insufficient_credits") throw error;
    // A hold of nothing again, under which the call is recorded.
    const unpaid = await placeHold(deps, routed, {
      ...step,
      estimate: freeEstimate(step.priced),
      isPaid: false,
    });
    return { ...unpaid, shortfall: error };
  }
}

/** Beside the failure of an own key it is told how the gateway's account could be paid for. */
function withShortfall(fallback: FallbackResult, balanceFault: Fault | undefined): FallbackResult {
  const { result } = fallback;
  if (result.ok || balanceFault?.code !== "insufficient_credits") return fallback;
  const { code, message, status, publicMessage, options } = result.fault;
  const next = [...(options.next ?? []), ...(balanceFault.options.next ?? [])];
  const fault = new Fault(code, message, {
    ...options,
    message: publicMessage,
    status,
    next,
    balanceFault,
  });
  return { ...fallback, result: { ...result, fault } };
}

/** What pays for this leg and for whichever of the later ones may have to be paid. */
function holdEstimate(
  priced: PricedCandidate,
  remaining: readonly PricedCandidate[],
): CostEstimate {
  if (remaining.length === 0) return priced.estimate;
  return mostExpensive([
    priced,
    ...remaining.filter(({ candidate }) => !candidate.credential.byok),
  ]);
}

interface HoldParams extends Pick<FallbackStep, "activeHold"> {
  readonly estimate: CostEstimate;
  readonly isPaid: boolean;
}

async function placeHold(
  deps: InferDeps,
  routed: RoutedRequest,
  { estimate, isPaid, activeHold }: HoldParams,
): Promise<ActiveHold> {
  const { input, request } = routed;
  if (activeHold !== undefined)
    await deps.ledger.settle({ ...holdIds(routed), cost: 0n, now: deps.now() });
  // Not when the request arrived: its body, and a payment, may have taken minutes since.
  const now = deps.now();
  const holdParams = toHoldRequest(estimate, {
    id: input.requestId,
    accountId: input.caller.accountId,
    keyId: input.caller.keyId,
    now,
    expiresAt: now + holdLifetimeMs(deps.timeouts),
    // A further hold of a call is no further call.
    rateLimit: activeHold === undefined ? deps.rateLimit : undefined,
    openCallsMax: activeHold === undefined ? deps.openCallsMax : undefined,
  });
  // A call that costs nothing takes nothing from the wallet, so the hold would not look at its state.
  if (holdParams.amount === 0n) await rejectIfFrozen(deps, input.caller.accountId);
  const outcome = deps.ledger.tryHoldSync(holdParams) ?? (await deps.ledger.hold(holdParams));
  if (outcome.status === "held") return { amount: outcome.amount, isPaid };
  if (outcome.status === "frozen") await rejectIfFrozen(deps, input.caller.accountId);
  const { caller } = input;
  const { isSignInDisabled } = deps;
  const isClaimed =
    OWNER_FIXABLE_OUTCOMES.has(outcome.status) && (await deps.isClaimed(caller.accountId));
  throw holdFault(outcome, estimate, { request, ...caller, isClaimed, isSignInDisabled, now });
}

/** Throws where the operator froze the account; what it owes is another matter. */
export async function rejectIfFrozen(
  { freezeOf }: Pick<InferDeps, "freezeOf">,
  accountId: string,
): Promise<void> {
  const freeze = await freezeOf?.(accountId);
  if (freeze?.by === "operator") throw operatorFreezeFault(freeze);
}

function createHeldCall(
  { candidate, estimate }: PricedCandidate,
  { input, request, statefulCall, catalog, untrack }: RoutedRequest,
  { held, attempts }: Pick<HeldCall, "attempts" | "held">,
): HeldCall {
  return {
    input,
    request,
    statefulCall,
    catalog,
    untrack,
    attempts,
    held,
    estimate,
    outputMax: candidate.credential.byok
      ? undefined
      : clampedOutputLimit(estimate, held, request.choices),
    abort: createAbort(),
    plan: undefined,
  };
}

async function attemptOn(
  deps: InferDeps,
  call: HeldCall,
  { candidate }: PricedCandidate,
  next: PricedCandidate | undefined,
): Promise<CandidateResult | Fault> {
  const { input, request } = call;
  const plan = planOrFault(deps, call, candidate);
  if (plan instanceof Fault) return plan;
  call.plan = plan;
  const attemptRequest: AttemptRequest = {
    accountId: input.caller.accountId,
    wire: plan.wire,
    path: plan.path,
    stream: request.stream,
    isTranslated: plan.isTranslated,
    headers: input.headers,
    abort: call.abort,
    body: plan.body,
    maxAttempts: next === undefined || isSameModel(candidate, next.candidate) ? undefined : 1,
  };
  const attemptsBefore = call.attempts.length;
  // Where leaving does not end the bill, the call goes on without the caller, to the provider's own count, or to the end of
  // the process. A stream that has begun learns by its own cancellation that its reader is gone.
  const signal = abortStopsBilling(candidate) ? input.signal : deps.shutdownSignal;
  const unsubscribe = onAborted(signal, call.abort.abort);
  try {
    if (signal.aborted) call.abort.abort();
    return await attemptCandidate(candidate, attemptRequest, call.attempts, deps);
  } finally {
    unsubscribe();
    if (!candidate.credential.byok) recordAttempts(deps, call, attemptsBefore);
  }
}

function recordAttempts(
  { routing, now }: InferDeps,
  { attempts, request }: HeldCall,
  from: number,
): void {
  for (let index = from; index < attempts.length; index++) {
    const one = attempts[index];
    if (one === undefined) continue;
    const { provider, model, status, ms } = one;
    routing.statistics.recordAttempt({
      provider,
      model,
      status,
      ms,
      stream: request.stream,
      now: now(),
    });
  }
}

function planOrFault(
  deps: InferDeps,
  call: HeldCall,
  candidate: PricedCandidate["candidate"],
): TransportPlan | Fault {
  const { input, request, statefulCall } = call;
  const createPlan = (sent: ParsedRequest): TransportPlan =>
    planFor(sent, candidate, {
      requestId: input.requestId,
      now: input.now,
      adjustments: {
        pseudonym: () => deps.pseudonymOf(input.caller.accountId),
        outputMax: call.outputMax,
      },
    });
  try {
    return statefulCall === undefined
      ? createPlan(request)
      : statefulCall.planFor(candidate, createPlan);
  } catch (error) {
    if (error instanceof Fault) return error;
    throw error;
  }
}

function isSameModel(
  one: PricedCandidate["candidate"],
  other: PricedCandidate["candidate"],
): boolean {
  return one.model.id === other.model.id;
}
