// The stages of a model call, in order: parse, route, estimate, hold, plan, send, respond and meter, settle. Each adds what it
// learns to one value, from which the next works. Whatever fails, the hold is resolved exactly once, and a charge is written
// in one transaction with its usage record.

import { Fault } from "../../base/fault.ts";
import {
  isFallbackable,
  priceCandidates,
  type PricedCandidate,
} from "../routing/priced-candidates.ts";
import type { RoutingDeps } from "../routing/routing.ts";
import { type AttemptDeps, attemptCandidate, type CandidateResult } from "../upstream/attempt.ts";
import { type AbandonedCalls, rejectIfOftenAbandoned } from "./abandoned-calls.ts";
import type { CallInput, HeldCall, OpenCall } from "./call.ts";
import { ensureHold, type HoldDeps, releaseHold } from "./hold.ts";
import { withShortfall } from "./hold-faults.ts";
import type { TokenCounts } from "./key-policy.ts";
import { parseCall, type ParseDeps } from "./parse-call.ts";
import { attemptRequestFor, planCall, type PlanDeps } from "./plan-call.ts";
import { respond, type RespondDeps } from "./respond.ts";
import { routeCall } from "./route-call.ts";
import { type SettleDeps, settleFailed } from "./settle.ts";

export interface InferDeps {
  readonly now: () => number;
  /** Called for every call, so that a shutdown can wait for its end. */
  readonly trackCall: () => () => void;
  /** Counted from the arrival of the request; later, no further candidate is tried. */
  readonly lastAttemptStartMs: number;
  readonly abandonedCalls: AbandonedCalls;
  readonly tokenCounts: Pick<TokenCounts, "rejectIfExceeded">;
  readonly parse: ParseDeps;
  readonly route: RoutingDeps;
  readonly hold: HoldDeps;
  readonly plan: PlanDeps;
  readonly send: AttemptDeps;
  readonly respond: RespondDeps;
  readonly settle: SettleDeps;
}

export async function infer(deps: InferDeps, input: CallInput): Promise<Response> {
  rejectIfOftenAbandoned(deps.abandonedCalls, input);
  deps.tokenCounts.rejectIfExceeded(input.caller, input.now);
  const parsed = await parseCall(deps.parse, input);
  if (parsed instanceof Response) return parsed;
  const routed = await routeCall(deps.route, parsed);
  const candidates = priceCandidates(routed);
  const call: OpenCall = { ...routed, candidates, attempts: [], untrack: deps.trackCall() };
  let fault: Fault;
  try {
    const result = await sendToCandidates(deps, call);
    if (result.ok) return await respond(deps.respond, result.call, result.reply);
    await settleFailed(deps.settle, result.call, result);
    fault = withShortfall(result.fault, call.shortfall);
  } catch (error) {
    // Releasing a hold that is settled already changes nothing.
    await releaseHold(deps.hold, call).catch(() => {});
    call.untrack();
    throw error;
  }
  throw fault;
}

type SentCall = CandidateResult & { readonly call: HeldCall };
type FailedCall = SentCall & { readonly ok: false };

/** Holds for, plans and sends to one candidate after the other, until one replies or none may help. */
async function sendToCandidates(deps: InferDeps, call: OpenCall): Promise<SentCall> {
  let failed: FailedCall | undefined;
  let planFault: Fault | undefined;
  for (const [index, priced] of call.candidates.entries()) {
    const remaining = call.candidates.slice(index + 1);
    const isFallback = failed !== undefined;
    const hold = await ensureHold(deps.hold, call, { priced, remaining, isFallback });
    if (!hold.isPaid && !priced.candidate.credential.byok) continue;
    const held = planCall(deps.plan, call, priced, hold);
    if (held instanceof Fault) {
      // The request may be expressible on the wire of the next candidate.
      planFault ??= held;
      continue;
    }
    const sent = await sendToCandidate(deps, call, held, remaining[0]);
    if (sent.ok) return sent;
    failed = sent;
    if (!canFallBack(deps, failed)) break;
  }
  if (failed === undefined) throw planFault ?? new Error("a call without a candidate");
  return failed;
}

async function sendToCandidate(
  deps: InferDeps,
  { attempts }: OpenCall,
  held: HeldCall,
  next: PricedCandidate | undefined,
): Promise<SentCall> {
  const send = async (call: HeldCall): Promise<SentCall> => {
    const request = attemptRequestFor(deps.plan, call, next);
    return { ...(await attemptCandidate(call.candidate, request, attempts, deps.send)), call };
  };
  const sent = await send(held);
  const { withoutEndpoint } = held.plan;
  if (sent.ok || withoutEndpoint === undefined || !NO_ENDPOINT_STATUSES.has(sent.fault.status))
    return sent;
  return await send({ ...held, plan: withoutEndpoint });
}

const NO_ENDPOINT_STATUSES: ReadonlySet<number> = new Set([404, 405]);

// The caller does not wait forever, and neither does the hold.
function canFallBack(
  { now, lastAttemptStartMs }: InferDeps,
  { call: { input }, fault, isClientGone, isShutDown }: FailedCall,
): boolean {
  if (isClientGone || isShutDown === true || input.signal.aborted) return false;
  return now() - input.now <= lastAttemptStartMs && isFallbackable(fault);
}
