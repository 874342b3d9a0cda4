// Tries the legs of a call, one after another, until one begins to answer. One hold stands for all that may have to be
// paid for; a leg on the caller's own key costs nothing and holds nothing.

import { onceAborted } from "../base/deadline.ts";
import { Fault } from "../base/fault.ts";
import { createStop } from "../base/stop.ts";
import type { Ask } from "./ask.ts";
import { tryCandidate, type Trial, type TrialResult } from "./attempt.ts";
import { type Call, idsOf, type InferParts, stopsBilling } from "./call.ts";
import { faultOfHold, frozenByOperator, holdRequest } from "./hold.ts";
import { clampedOutput, type Quote } from "./quote.ts";
import { holdLifetimeMs, lastTryBeginsMs } from "./hold-lifetime.ts";
import { dearestOf, type Leg, mayFallOver } from "./legs.ts";
import { type Passage, passageFor } from "./passage.ts";

export type CallBase = Pick<Call, "input" | "ask" | "state" | "catalog" | "closed">;

export interface Tried {
  readonly call: Call;
  readonly leg: Leg;
  readonly result: TrialResult;
}

interface Standing {
  readonly amount: bigint;
  /** False for the hold of nothing under which a caller's own key is tried. */
  readonly pays: boolean;
  /** Why it does not pay for what would have to be paid for. */
  readonly shortfall?: Fault;
}

/** Refusals of a hold for which the caller's own key is as good as before. */
const MONEY: ReadonlySet<string> = new Set([
  "insufficient_credits",
  "key_limit_reached",
  "workspace_budget_reached",
  "workspace_frozen",
  "rate_limited",
]);

const NO_LEGS: readonly Leg[] = [];

/** Refusals that an owner can mend, where there is one. */
const ADVISES_OWNER: ReadonlySet<string> = new Set(["insufficient_credits", "budget", "key_limit"]);

export async function tryLegs(
  parts: InferParts,
  base: CallBase,
  legs: readonly [Leg, ...Leg[]],
): Promise<Tried> {
  const attempts: Call["attempts"] = [];
  let standing: Standing | undefined;
  let tried: Tried | undefined;
  let refusal: Fault | undefined;
  let shortfall: Fault | undefined;
  try {
    for (const [place, leg] of legs.entries()) {
      const later = legsAfter(place, legs);
      const isFirst = standing === undefined;
      const next = { leg, later, standing };
      standing = await (tried === undefined ? standingFor : standingOrNone)(parts, base, next);
      shortfall ??= standing.shortfall;
      // There is no money for this way; one on another key of the caller's own takes none.
      if (!standing.pays && !leg.candidate.credential.byok) continue;
      if (isFirst) await base.state?.held?.();
      const call = callOn(leg, base, { attempts, held: standing.amount });
      const result = await attempt(parts, call, leg, later[0]);
      // A request that cannot be said to this provider may be said to the next.
      if (result instanceof Fault) {
        refusal ??= result;
        continue;
      }
      tried = { call, leg, result };
      if (!goesOn(parts, tried)) break;
    }
    if (tried === undefined) throw refusal ?? new Error("a call without a leg");
    return withShortfall(tried, shortfall);
  } catch (error) {
    if (standing !== undefined)
      await parts.ledger.settle({ ...idsOf(base), cost: 0n, now: parts.now() }).catch(() => {});
    throw error;
  }
}

function legsAfter(place: number, legs: readonly Leg[]): readonly Leg[] {
  return place + 1 < legs.length ? legs.slice(place + 1) : NO_LEGS;
}

function goesOn(parts: InferParts, { call, result }: Tried): boolean {
  if (result.ok || result.aborted || call.input.signal.aborted) return false;
  // The hold does not live for ever, and neither does the caller's patience.
  const isLate = parts.now() - call.input.now > lastTryBeginsMs(parts.timeouts);
  return !isLate && mayFallOver(result.fault);
}

interface Next {
  readonly leg: Leg;
  readonly later: readonly Leg[];
  readonly standing: Standing | undefined;
}

function standingFor(
  parts: InferParts,
  base: CallBase,
  { leg, later, standing }: Next,
): Standing | Promise<Standing> {
  const pays = !leg.candidate.credential.byok;
  if (standing !== undefined && (standing.pays || !pays)) return standing;
  const quote = pays ? quoteFor(leg, later) : freeOf(leg);
  return hold(parts, base, { quote, pays, standing });
}

function freeOf({ quote }: Leg): Quote {
  return { ...quote, amount: 0n, minimum: undefined };
}

/** Pays nothing where there is no money for another way: what the caller's own key has met before says more. */
async function standingOrNone(parts: InferParts, base: CallBase, next: Next): Promise<Standing> {
  try {
    return await standingFor(parts, base, next);
  } catch (error) {
    if (!(error instanceof Fault && MONEY.has(error.code))) throw error;
    if (base.input.bringsPayment === true && error.code === "insufficient_credits") throw error;
    // A hold of nothing again, under which the call is recorded.
    const unpaid = await hold(parts, base, { ...next, quote: freeOf(next.leg), pays: false });
    return { ...unpaid, shortfall: error };
  }
}

/** Beside the failure of an own key it is told how the gateway's account could be paid for. */
function withShortfall(tried: Tried, shortfall: Fault | undefined): Tried {
  const { result } = tried;
  if (result.ok || shortfall?.code !== "insufficient_credits") return tried;
  const { code, message, status, publicMessage, options } = result.fault;
  const next = [...(options.next ?? []), ...(shortfall.options.next ?? [])];
  const fault = new Fault(code, message, {
    ...options,
    message: publicMessage,
    status,
    next,
    shortfall,
  });
  return { ...tried, result: { ...result, fault } };
}

/** What pays for this leg and for whichever of the later ones may have to be paid. */
function quoteFor(leg: Leg, later: readonly Leg[]): Quote {
  if (later.length === 0) return leg.quote;
  return dearestOf([leg, ...later.filter(({ candidate }) => !candidate.credential.byok)]);
}

interface Wanted extends Pick<Next, "standing"> {
  readonly quote: Quote;
  readonly pays: boolean;
}

async function hold(
  parts: InferParts,
  base: CallBase,
  { quote, pays, standing }: Wanted,
): Promise<Standing> {
  const { input, ask } = base;
  if (standing !== undefined)
    await parts.ledger.settle({ ...idsOf(base), cost: 0n, now: parts.now() });
  // Not when the request arrived: its body, and a payment, may have taken minutes since.
  const now = parts.now();
  const request = holdRequest(quote, {
    id: input.requestId,
    accountId: input.caller.accountId,
    keyId: input.caller.keyId,
    now,
    expiresAt: now + holdLifetimeMs(parts.timeouts),
    // A further hold of a call is no further call.
    pace: standing === undefined ? parts.pace : undefined,
    openCallsMax: standing === undefined ? parts.openCallsMax : undefined,
  });
  // A call that costs nothing takes nothing from the wallet, so the hold would not look at its state.
  if (request.amount === 0n) await refuseFrozen(parts, input.caller.accountId);
  const outcome = parts.ledger.holdNow(request) ?? (await parts.ledger.hold(request));
  if (outcome.status === "held") return { amount: outcome.amount, pays };
  if (outcome.status === "frozen") await refuseFrozen(parts, input.caller.accountId);
  const { caller } = input;
  const { nobodySignsIn } = parts;
  const claimed = ADVISES_OWNER.has(outcome.status) && (await parts.isClaimed(caller.accountId));
  throw faultOfHold(outcome, quote, { ask, ...caller, claimed, nobodySignsIn, now });
}

/** Throws where the operator froze the account; what it owes is another matter. */
export async function refuseFrozen(
  { freezeOf }: Pick<InferParts, "freezeOf">,
  accountId: string,
): Promise<void> {
  const freeze = await freezeOf?.(accountId);
  if (freeze?.by === "operator") throw frozenByOperator(freeze);
}

function callOn(
  { candidate, quote }: Leg,
  { input, ask, state, catalog, closed }: CallBase,
  { held, attempts }: Pick<Call, "attempts" | "held">,
): Call {
  return {
    input,
    ask,
    state,
    catalog,
    closed,
    attempts,
    held,
    quote,
    outputMax: candidate.credential.byok ? undefined : clampedOutput(quote, held, ask.choices),
    abort: createStop(),
    passage: undefined,
  };
}

async function attempt(
  parts: InferParts,
  call: Call,
  { candidate }: Leg,
  next: Leg | undefined,
): Promise<TrialResult | Fault> {
  const { input, ask } = call;
  const passage = passageOrRefusal(parts, call, candidate);
  if (passage instanceof Fault) return passage;
  call.passage = passage;
  const trial: Trial = {
    accountId: input.caller.accountId,
    wire: passage.wire,
    path: passage.path,
    stream: ask.stream,
    translated: passage.isTranslated,
    headers: input.headers,
    abort: call.abort,
    body: passage.body,
    triesMax: next === undefined || isSamePlace(candidate, next.candidate) ? undefined : 1,
  };
  const before = call.attempts.length;
  // Where leaving does not end the bill, the call goes on without the caller, to the provider's own count, or to the end of
  // the process. A stream that has begun learns by its own cancellation that its reader is gone.
  const signal = stopsBilling(candidate) ? input.signal : parts.hurried;
  const stopHeeding = onceAborted(signal, call.abort.abort);
  try {
    if (signal.aborted) call.abort.abort();
    return await tryCandidate(candidate, trial, call.attempts, parts);
  } finally {
    stopHeeding();
    if (!candidate.credential.byok) noteTries(parts, call, before);
  }
}

function noteTries({ routing, now }: InferParts, { attempts, ask }: Call, from: number): void {
  for (let place = from; place < attempts.length; place++) {
    const one = attempts[place];
    if (one === undefined) continue;
    const { provider, model, status, ms } = one;
    routing.statistics.tried({ provider, model, status, ms, stream: ask.stream, now: now() });
  }
}

function passageOrRefusal(
  parts: InferParts,
  call: Call,
  candidate: Leg["candidate"],
): Passage | Fault {
  const { input, ask, state } = call;
  const make = (sent: Ask): Passage =>
    passageFor(sent, candidate, {
      requestId: input.requestId,
      now: input.now,
      adjust: {
        pseudonym: () => parts.pseudonymOf(input.caller.accountId),
        outputMax: call.outputMax,
      },
    });
  try {
    return state === undefined ? make(ask) : state.pass(candidate, make);
  } catch (error) {
    if (error instanceof Fault) return error;
    throw error;
  }
}

function isSamePlace(one: Leg["candidate"], other: Leg["candidate"]): boolean {
  return one.model.id === other.model.id;
}
