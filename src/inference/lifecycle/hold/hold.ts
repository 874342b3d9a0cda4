// Holds credits for a call. One hold covers every candidate that may have to be paid for. A candidate on the caller's
// provider key needs no credits: a hold of zero checks the key and its limits, and counts the call.

import { API_TRAITS, WIRE_TRAITS } from "@postern/wires";
import { Fault, reopenStep } from "../../../base/fault.ts";
import { isSet } from "../../../base/json.ts";
import { maxNano, minNano, type Nano, nanoFromUsd } from "../../../base/money/money.ts";
import type { PaymentOptions } from "../../../base/purchase-steps.ts";
import { rateLimitHeaders } from "../../../http/rate-limit-headers.ts";
import type { HoldOutcome, HoldRequest, SessionRequest } from "../../../ledger/decide.ts";
import type { Freeze } from "../../../ledger/freezes.ts";
import type { Lease } from "../../../ledger/lease.ts";
import type { Ledger } from "../../../ledger/ledger.ts";
import {
  affordableEstimate,
  affordableTokens,
  type CostEstimate,
} from "../../metering/cost-estimate.ts";
import type { ParsedRequest } from "../../request/parse-request.ts";
import type { Candidate } from "../../routing/candidates.ts";
import { mostExpensive, type PricedCandidate } from "../../routing/priced-candidates.ts";
import { type RecentOutputs, TRANCHE_TOKENS } from "../../streaming/recent-outputs.ts";
import { firstHold } from "../../streaming/rolling-hold.ts";
import type { CallInput, Hold, OpenCall, SettledCall } from "../call.ts";
import { stopsByClosing } from "../reply/client-disconnect.ts";
import { cappedAt } from "./cost-ceiling.ts";
import type { HeldCredit } from "./held-credit.ts";
import {
  closingFault,
  heldBy,
  heldFault,
  holdFault,
  type LimitRaiser,
  operatorFreezeFault,
} from "./hold-faults.ts";
import type { KeyRates } from "./key-rates.ts";

export interface HoldDeps extends FreezeDeps {
  readonly ledger: Pick<Ledger<SettledCall>, "hold" | "tryHoldSync" | "raise" | "settle">;
  readonly lease: Pick<Lease, "term">;
  readonly now: () => number;
  readonly lifetimeMs: number;
  readonly rates: KeyRates;
  readonly openCallsMax: number | undefined;
  readonly findLimitRaiser: FindLimitRaiser;
  readonly heldCredit: HeldCredit;
  readonly recentOutputs: Pick<RecentOutputs, "firstTokens">;
  /** Counts the open calls of a key, or of all keys of the account. */
  readonly countOpenCalls: (accountId: string, keyId: string | undefined) => Promise<number>;
  readonly isSignInDisabled: boolean;
  readonly paymentOptions: PaymentOptions;
}

export type FindLimitRaiser = (
  key: { readonly accountId: string; readonly keyId: string },
  now: number,
) => Promise<LimitRaiser>;

export interface FreezeDeps {
  /** Undefined for an account that may make calls. */
  readonly freezeOf?: ((accountId: string) => Promise<Freeze | undefined>) | undefined;
  readonly isClaimed: (accountId: string) => Promise<boolean>;
}

interface HoldStep {
  readonly priced: PricedCandidate;
  /** The candidates after it. */
  readonly remaining: readonly PricedCandidate[];
  /** Whether another candidate has failed before it. */
  readonly isFallback: boolean;
}

/** Holds what a candidate needs, unless the call's hold covers it already. */
export function ensureHold(
  deps: HoldDeps,
  call: OpenCall,
  { priced, remaining, isFallback }: HoldStep,
): Hold | Promise<Hold> {
  const isPaid = !priced.candidate.credential.byok;
  if (call.hold !== undefined && (call.hold.isPaid || !isPaid))
    return isPaid && call.hold.isRolling ? raiseFor(deps, call, call.hold, priced) : call.hold;
  const estimate = isPaid ? paidEstimate(deps, call, { priced, remaining }) : zeroEstimate(priced);
  // Most holds are decided at once, and a promise costs CPU.
  const placed = tryHold(deps, call, estimate, isPaid) ?? placeHold(deps, call, estimate, isPaid);
  if (!isFallback || !(placed instanceof Promise)) return placed;
  return placed.catch((error: unknown) => {
    if (!(error instanceof Fault) || !isShortfall(error, call.input)) throw error;
    call.shortfall ??= error;
    // The error of the caller's own key is more useful than the shortfall. The call is recorded under a hold of zero.
    return placeHold(deps, call, zeroEstimate(priced), false);
  });
}

/** Refusals that leave the caller's own provider key usable. */
const SHORTFALL_CODES: ReadonlySet<string> = new Set([
  "insufficient_credits",
  "key_limit_reached",
  "session_limit_reached",
  "workspace_budget_reached",
  "workspace_frozen",
  "rate_limited",
]);

function isShortfall({ code }: Fault, { hasPayment }: CallInput): boolean {
  // The request contains a payment, so the call is paid now.
  if (hasPayment === true && code === "insufficient_credits") return false;
  return SHORTFALL_CODES.has(code);
}

function zeroEstimate({ estimate }: PricedCandidate): CostEstimate {
  return { ...estimate, amount: 0n, minimum: undefined, payingMinimum: 0n };
}

/** What to hold, and, for a hold that rolls, which part of it at first: of a whole reply only if all of it is too much. */
interface HoldEstimate extends CostEstimate {
  readonly upfront?: Nano;
  readonly onShortage?: HoldRequest["onShortage"];
}

/** Covers this candidate and all later ones on the gateway's accounts. A hold that rolls is raised for a later one. */
function paidEstimate(
  { recentOutputs }: Pick<HoldDeps, "recentOutputs">,
  call: Pick<OpenCall, "request" | "holdsAll">,
  { priced, remaining }: Pick<HoldStep, "priced" | "remaining">,
): HoldEstimate {
  const full = fullEstimate(priced, remaining);
  const { estimate } = priced;
  // Most whole replies are short: the other conditions read the request.
  const isShort = !call.request.stream && estimate.outputTokens <= TRANCHE_TOKENS;
  if (isShort || !canRoll(call, priced)) return full;
  const firstTokens = recentOutputs.firstTokens(priced.candidate.model.id);
  const upfront = firstHold(estimate, firstTokens);
  if (upfront >= full.amount) return full;
  // A model with long replies refuses no call for it.
  const least = firstHold(estimate, Math.min(firstTokens, TRANCHE_TOKENS));
  const minimum = minNano(estimate.minimum ?? least, least);
  return call.request.stream
    ? { ...full, upfront, minimum, payingMinimum: minimum }
    : { ...full, onShortage: { upfront, minimum } };
}

/** That of the most expensive candidate that may have to be paid for. */
export function fullEstimate(
  priced: PricedCandidate,
  remaining: readonly PricedCandidate[],
): CostEstimate {
  const paid = remaining.filter(({ candidate }) => !candidate.credential.byok);
  return paid.length === 0 ? priced.estimate : mostExpensive([priced, ...paid]);
}

/** Whether the hold of a call to this candidate may grow with its reply: closing the stream must end its bill. */
export function canRoll(
  { request, holdsAll }: Pick<OpenCall, "request" | "holdsAll">,
  { candidate, estimate }: PricedCandidate,
): boolean {
  return (
    !holdsAll &&
    estimate.unlimitedAmount === undefined &&
    stopsByClosing({
      candidate,
      request,
      estimate,
      isCollected: canCollect(request, candidate, estimate),
    })
  );
}

/** Whether a whole reply can be had from a stream, of which the gateway makes the same reply. */
function canCollect(
  { api, json, stream }: ParsedRequest,
  { wires }: Candidate,
  { hiddenTokens }: CostEstimate,
): boolean {
  if (stream || !API_TRAITS[api].generates || hiddenTokens > 0) return false;
  // Each provider has another form of them, which can have more than their sum.
  const hasLogprobs = LOGPROB_FIELDS.some((field) => isSet(json[field]) && json[field] !== false);
  return !hasLogprobs && wires.every((wire) => WIRE_TRAITS[wire].createCollector !== undefined);
}

const LOGPROB_FIELDS = ["logprobs", "top_logprobs", "prompt_logprobs"] as const;

/** A fallback may need more than the candidate before it. If that is not affordable, its output is shortened. */
async function raiseFor(
  { ledger, now, recentOutputs }: HoldDeps,
  call: OpenCall,
  hold: Hold,
  priced: PricedCandidate,
): Promise<Hold> {
  const { input, ceiling } = call;
  const { estimate } = priced;
  const firstTokens = recentOutputs.firstTokens(priced.candidate.model.id);
  const needed = canRoll(call, priced) ? firstHold(estimate, firstTokens) : estimate.amount;
  const amount = minNano(cappedAt(needed, ceiling), hold.limit);
  if (amount <= hold.amount) return hold;
  const { accountId, keyId } = input.caller;
  const sessionId = input.session?.id;
  const request = { id: input.requestId, accountId, keyId, amount, now: now(), sessionId };
  const outcome = await ledger.raise(request);
  if (outcome.status === "raised") hold.amount = outcome.amount;
  return hold;
}

/** Whether a hold that was raised for a fallback covers its input and some output. */
export function coversCandidate(
  { request }: Pick<OpenCall, "request">,
  hold: Hold,
  { candidate, estimate }: PricedCandidate,
): boolean {
  if (candidate.credential.byok || !hold.isRolling || hold.amount >= estimate.amount) return true;
  const affordable = affordableEstimate(estimate, hold.amount);
  return affordableTokens(affordable, hold.amount) >= request.choices;
}

/** Refusals that the workspace's owner can lift. */
const OWNER_FIXABLE_OUTCOMES: ReadonlySet<string> = new Set([
  "insufficient_credits",
  "budget",
  "frozen",
]);

/** A call's first hold, if it can be decided without waiting and is not refused. */
function tryHold(
  deps: HoldDeps,
  call: OpenCall,
  estimate: HoldEstimate,
  isPaid: boolean,
): Hold | undefined {
  const { statefulCall, input } = call;
  const mustWait =
    estimate.amount === 0n || input.batchItem !== undefined || statefulCall?.onHeld !== undefined;
  if (mustWait || call.hold !== undefined) return undefined;
  if (deps.heldCredit.isAwaited(call.input.caller.accountId)) return undefined;
  const leaseTerm = deps.lease.term();
  // Others may have released what this process reserved.
  if (leaseTerm === 0) return undefined;
  const holdRequest = holdRequestOf(deps, call, estimate);
  const outcome = deps.ledger.tryHoldSync(holdRequest);
  if (outcome?.status !== "held") return undefined;
  call.hold = heldOf(deps, outcome, holdRequest, { isPaid, leaseTerm, share: 0n });
  return call.hold;
}

async function placeHold(
  deps: HoldDeps,
  call: OpenCall,
  estimate: HoldEstimate,
  isPaid: boolean,
): Promise<Hold> {
  const { input, request } = call;
  const { caller } = input;
  const isFirst = call.hold === undefined;
  if (!isFirst) await releaseHold(deps, call);
  const share = isPaid ? shareOf(input) : 0n;
  const holdRequest = holdRequestOf(deps, call, estimate, share);
  // A hold of zero does not look at the wallet, where the ledger would see the freeze.
  if (holdRequest.amount === 0n) await rejectIfFrozen(deps, caller.accountId);
  const leaseTerm = deps.lease.term();
  const outcome = await holdInTurn(deps, holdRequest);
  if (outcome.status === "held") {
    call.hold = heldOf(deps, outcome, holdRequest, { isPaid, leaseTerm, share });
    if (isFirst) await call.statefulCall?.onHeld?.();
    return call.hold;
  }
  // Only before anything is sent can the call begin again.
  if (outcome.status === "key_changed" && isFirst) call.isKeyChanged = true;
  if (outcome.status === "frozen") await rejectIfFrozen(deps, caller.accountId);
  const holder = heldBy(outcome, holdRequest);
  if (holder !== undefined) {
    const keyId = holder === "held_by_key" ? caller.keyId : undefined;
    const openCalls = await deps.countOpenCalls(caller.accountId, keyId);
    throw heldFault(outcome, estimate, { request, openCalls });
  }
  const { isSignInDisabled, paymentOptions } = deps;
  const isClaimed =
    OWNER_FIXABLE_OUTCOMES.has(outcome.status) && (await deps.isClaimed(caller.accountId));
  const { now } = holdRequest;
  const raiser =
    outcome.status === "key_limit" ? await deps.findLimitRaiser(caller, now) : undefined;
  const payment = { isSignInDisabled, paymentOptions };
  const { rateLimit } = holdRequest;
  const context = { request, ...caller, raiser, isClaimed, ...payment, rateLimit, now };
  const { onShortage } = estimate;
  const required = onShortage === undefined ? estimate : { ...estimate, ...onShortage };
  throw holdFault(outcome, required, context);
}

/** What the hold of a batch has for the call. */
function shareOf({ batchItem }: CallInput): Nano {
  return batchItem?.share ?? 0n;
}

/** A hold that only open calls refuse waits a moment for them, behind the calls that wait already. */
async function holdInTurn(deps: HoldDeps, request: HoldRequest): Promise<HoldOutcome> {
  const { ledger, heldCredit, lease } = deps;
  const place = (): HoldOutcome | Promise<HoldOutcome> =>
    (lease.term() === 0 ? undefined : ledger.tryHoldSync(request)) ?? ledger.hold(request);
  let outcome: HoldOutcome | undefined;
  if (request.amount === 0n || !heldCredit.isAwaited(request.accountId)) {
    outcome = await place();
    if (heldBy(outcome, request) === undefined) return outcome;
  }
  await heldCredit.wait(request, async () => {
    outcome = await place();
    return heldBy(outcome, request) ?? "done";
  });
  return outcome ?? place();
}

function heldOf(
  { rates }: HoldDeps,
  outcome: Extract<HoldOutcome, { status: "held" }>,
  { keyId, rateLimit, now }: HoldRequest,
  { isPaid, leaseTerm, share }: Pick<Hold, "isPaid" | "leaseTerm"> & { readonly share: Nano },
): Hold {
  const { amount, limit, isPaying, burstFullAt: fullAt, leaseId: rowId } = outcome;
  const hold: Hold = {
    amount: amount + share,
    limit: limit ?? amount + share,
    isRolling: limit !== undefined,
    isPaid,
    isPaying: isPaying === true,
    leaseTerm,
    rowId,
  };
  if (fullAt === undefined || rateLimit === undefined) return hold;
  rates.record(keyId, fullAt);
  return { ...hold, rateLimitHeaders: rateLimitHeaders({ ...rateLimit, fullAt }, now) };
}

function holdRequestOf(
  deps: HoldDeps,
  { input, hold, ceiling, statefulCall }: OpenCall,
  { amount, upfront, onShortage, minimum, payingMinimum }: HoldEstimate,
  share = 0n,
): HoldRequest {
  const { accountId, keyId, policy, restrictions } = input.caller;
  // The request's arrival may be minutes ago: its body was read, and a payment settled, since.
  const now = deps.now();
  // A second hold is not a second call, and a queued response was counted when it was created.
  const isFirst = hold === undefined;
  const isNew = isFirst && input.batchItem?.response === undefined;
  const isCounted = isFirst && input.isCheck !== true;
  return {
    id: input.requestId,
    accountId,
    keyId,
    // What the hold of a batch has for the call is held already.
    amount: maxNano(cappedAt(amount, ceiling) - share, 0n),
    upfront: upfront === undefined ? undefined : cappedAt(upfront, ceiling),
    onShortage: onShortage && {
      upfront: cappedAt(onShortage.upfront, ceiling),
      minimum: cappedAt(onShortage.minimum, ceiling),
    },
    minimum: minimum === undefined ? undefined : maxNano(cappedAt(minimum, ceiling) - share, 0n),
    payingMinimum:
      payingMinimum === undefined
        ? undefined
        : maxNano(cappedAt(payingMinimum, ceiling) - share, 0n),
    now,
    expiresAt: now + deps.lifetimeMs,
    rateLimit: isNew ? deps.rates.limitOf(policy) : undefined,
    openCallsMax: isCounted ? lowerLimit(policy?.concurrentCalls, deps.openCallsMax) : undefined,
    restrictions,
    session: sessionRequestOf(input),
    needsRow:
      input.idempotent !== undefined ||
      statefulCall !== undefined ||
      share > 0n ||
      // The payment of a wallet is settled once its call has no hold.
      input.ceiling !== undefined,
  };
}

function sessionRequestOf({ session, caller }: CallInput): SessionRequest | undefined {
  if (session === undefined) return undefined;
  const { sessionLimitUsd } = caller.policy ?? {};
  const limitMax = sessionLimitUsd === undefined ? undefined : nanoFromUsd(sessionLimitUsd);
  return { ...session, limitMax };
}

function lowerLimit(left: number | undefined, right: number | undefined): number | undefined {
  return left === undefined || right === undefined ? (left ?? right) : Math.min(left, right);
}

/** Throws if the account is closing or the operator froze it. A freeze by debt blocks only calls that cost credits. */
export async function rejectIfFrozen(
  { freezeOf, isClaimed }: FreezeDeps,
  accountId: string,
): Promise<void> {
  const freeze = await freezeOf?.(accountId);
  if (freeze?.by === "closing")
    throw closingFault(freeze, reopenStep(accountId, await isClaimed(accountId)));
  if (freeze?.by === "operator") throw operatorFreezeFault(freeze);
}

export interface ReleaseDeps {
  readonly ledger: Pick<Ledger<SettledCall>, "settle">;
  readonly now: () => number;
  readonly heldCredit: Pick<HeldCredit, "release">;
}

/** Does nothing for a call without a hold. */
export async function releaseHold(
  { ledger, now, heldCredit }: ReleaseDeps,
  { input: { requestId: id, caller, session }, hold }: Pick<OpenCall, "input" | "hold">,
): Promise<void> {
  if (hold === undefined) return;
  const { accountId, keyId } = caller;
  await ledger.settle({ id, accountId, keyId, cost: 0n, now: now(), sessionId: session?.id });
  heldCredit.release(accountId);
}
