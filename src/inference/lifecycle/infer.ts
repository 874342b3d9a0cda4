// The stages of a model call, in order: parse, route, estimate, hold, plan, send, respond, settle. Whatever fails, the
// hold is resolved exactly once, and a charge is written in one transaction with its usage record.

import { Fault } from "../../base/fault.ts";
import { parseRequest, type ParsedRequest } from "../request/parse-request.ts";
import { isFallbackable, priceCandidates } from "../routing/priced-candidates.ts";
import type { RoutingDeps } from "../routing/routing.ts";
import type { StickyRouting } from "../routing/sticky-routing.ts";
import { type AttemptDeps, attemptCandidate, type CandidateResult } from "../upstream/attempt.ts";
import type { UpstreamReply } from "../upstream/read-reply.ts";
import { type AbandonedCalls, rejectIfOftenAbandoned } from "./abandoned-calls.ts";
import type {
  CallInput,
  HeldCall,
  MeteredReply,
  OpenCall,
  ParsedCall,
  StatefulCall,
} from "./call.ts";
import { ensureHold, type HoldDeps, releaseHold } from "./hold.ts";
import { withShortfall } from "./hold-faults.ts";
import { attemptRequestFor, planCall, type PlanDeps } from "./plan-call.ts";
import { NO_CHARGE } from "../metering/charge.ts";
import {
  confirmHold,
  type RespondDeps,
  respondStream,
  respondWhole,
  suspendedFault,
} from "./respond.ts";
import { routeCall } from "./route-call.ts";
import { settle, type SettleDeps, settleFailed } from "./settle.ts";

export interface InferDeps {
  readonly now: () => number;
  /** Resolves references to stored responses. A call that runs in the background gets its response here. */
  readonly resolveStatefulCall?: ResolveStatefulCall | undefined;
  /** Called for every call, so that a shutdown can wait for its end. */
  readonly trackCall: () => () => void;
  /** Counted from the arrival of the request; later, no further candidate is tried. */
  readonly lastAttemptStartMs: number;
  readonly abandonedCalls: AbandonedCalls;
  readonly recordProvider: StickyRouting["record"];
  readonly route: RoutingDeps;
  readonly hold: HoldDeps;
  readonly plan: PlanDeps;
  readonly send: AttemptDeps;
  readonly respond: RespondDeps;
  readonly settle: SettleDeps;
}

export type ResolveStatefulCall = (
  request: ParsedRequest,
  input: CallInput,
) => Promise<StatefulCall | Response | undefined> | StatefulCall | undefined;

export async function infer(deps: InferDeps, input: CallInput): Promise<Response> {
  rejectIfOftenAbandoned(deps.abandonedCalls, input);
  deps.settle.tokenCounts.rejectIfExceeded(input.caller, input.now);
  const parsed = await parseCall(deps, input);
  if (parsed instanceof Response) return parsed;
  const routed = await routeCall(deps.route, parsed);
  const candidates = priceCandidates(routed, input.now);

  const call: OpenCall = { ...routed, attempts: [], untrack: deps.trackCall() };
  let failed: FailedCall | undefined;
  let planFault: Fault | undefined;
  let fault: Fault;
  try {
    for (const [index, priced] of candidates.entries()) {
      const remaining = candidates.slice(index + 1);
      const isFallback = failed !== undefined;
      const hold = await ensureHold(deps.hold, call, { priced, remaining, isFallback });
      if (!hold.isPaid && !priced.candidate.credential.byok) continue;
      const held = planCall(deps.plan, call, priced, hold);
      if (held instanceof Fault) {
        // The request may be expressible on the wire of the next candidate.
        planFault ??= held;
        continue;
      }
      const attempt = attemptRequestFor(deps.plan, held, remaining[0]);
      const result = await attemptCandidate(priced.candidate, attempt, call.attempts, deps.send);
      if (result.ok) return await respond(deps, held, result.reply);
      failed = { held, result };
      if (!canFallBack(deps, input, result)) break;
    }
    if (failed === undefined) throw planFault ?? new Error("a call without a candidate");
    await settleFailed(deps.settle, failed.held, failed.result);
    fault = withShortfall(failed.result.fault, call.shortfall);
  } catch (error) {
    // Releasing a hold that is settled already changes nothing.
    if (call.hold !== undefined) await releaseHold(deps.hold, input).catch(() => {});
    call.untrack();
    throw error;
  }
  throw fault;
}

/** A call that continues a stored response is parsed again with all earlier turns. */
async function parseCall(
  { resolveStatefulCall }: InferDeps,
  input: CallInput,
): Promise<ParsedCall | Response> {
  if (input.statefulCall !== undefined)
    return { input, request: input.statefulCall.request, statefulCall: input.statefulCall };
  const request = parseRequest(input.api, input.text);
  const statefulCall = await resolveStatefulCall?.(request, input);
  if (statefulCall instanceof Response) return statefulCall;
  return { input, request: statefulCall?.request ?? request, statefulCall };
}

type FailedResult = CandidateResult & { readonly ok: false };

interface FailedCall {
  readonly held: HeldCall;
  readonly result: FailedResult;
}

// The caller does not wait forever, and neither does the hold.
function canFallBack(
  { now, lastAttemptStartMs }: InferDeps,
  input: CallInput,
  { fault, isClientGone, isShutDown }: FailedResult,
): boolean {
  if (isClientGone || isShutDown === true || input.signal.aborted) return false;
  return now() - input.now <= lastAttemptStartMs && isFallbackable(fault);
}

async function respond(deps: InferDeps, call: HeldCall, reply: UpstreamReply): Promise<Response> {
  const { stickyKey, credential } = call.candidate;
  if (stickyKey !== undefined) {
    const { conversation, requestedModel } = stickyKey;
    deps.recordProvider(conversation, requestedModel, credential.provider.id, deps.now());
  }
  const settleCall = (metered: MeteredReply) => settle(deps.settle, call, metered);
  if (reply.kind === "stream") return respondStream(deps.respond, call, reply, settleCall);
  const { response, metered } = respondWhole(deps.respond, call, reply);
  // Checked before and after: the settlement of a swept hold charges only what is left.
  if (!(await confirmHold(deps.respond, call))) {
    const unserved = { charge: NO_CHARGE, cost: 0n, outcome: "shut_down", status: 503 } as const;
    await settleCall(unserved);
    throw suspendedFault();
  }
  const { isUncovered } = await settleCall(metered);
  if (isUncovered) throw suspendedFault();
  return response;
}
