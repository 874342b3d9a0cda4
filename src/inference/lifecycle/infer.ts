// The stages of a model call, in order: expand the preset, check guardrails, parse, route, estimate, hold, fetch files, plan, send,
// respond and meter, settle. Each stage takes the value of the stage before it and adds what it learns. Whatever fails, the hold is
// resolved exactly once, and a charge is written in one transaction with its usage record.

import { API_TRAITS } from "@postern/wires";
import { endedKeyFault, Fault } from "../../base/fault.ts";
import type { OpenGuards } from "../../base/guard.ts";
import type { AuthenticatedKey, Caller } from "../../http/route.ts";
import { requireScope } from "../../http/steps/authenticate.ts";
import { SESSION_HEADERS } from "../../usage/session-labels.ts";
import {
  type CostCeiling,
  readCostCeiling,
  readHoldsAll,
  rejectUnknownOptions,
} from "../request/call-options.ts";
import type { ParsedRequest } from "../request/parse-request.ts";
import { isFallbackable, type PricedCandidate } from "../routing/priced-candidates.ts";
import type { RoutingDeps } from "../routing/routing.ts";
import {
  type RollDeps,
  type RollingHold,
  startRollingHold,
  stopRollingHold,
} from "../streaming/rolling-hold.ts";
import {
  type AttemptDeps,
  attemptCandidate,
  type AttemptRequest,
  type CandidateResult,
  type FailedCandidate,
} from "../upstream/attempt.ts";
import type { UpstreamReply } from "../upstream/read-upstream-reply.ts";
import { type AbandonedCalls, rejectIfOftenAbandoned } from "./abandoned-calls.ts";
import type { CallInput, HeldCall, Hold, OpenCall, ParsedCall } from "./call.ts";
import { checkInput } from "./check-guardrails.ts";
import type { DataPolicyDeps } from "./enforce-data-policy.ts";
import { priceAllowed, type TokenRateLimit } from "./enforce-key-policy.ts";
import { expandPreset, type FindPreset } from "./expand-preset.ts";
import { fetchFiles, type FetchFilesDeps } from "./fetch-files.ts";
import { lostHoldFault } from "./hold/confirm-hold.ts";
import { withinCeiling } from "./hold/cost-ceiling.ts";
import { spentFault, unaffordableFault, withShortfall } from "./hold/hold-faults.ts";
import { coversCandidate, ensureHold, type HoldDeps, releaseHold } from "./hold/hold.ts";
import { acceptOffer, type OfferDeps, withOffer, withOfferCeiling } from "./offer.ts";
import { closeMcpServers, type McpDeps, openMcpServers } from "./open-mcp-servers.ts";
import { parseCall, type ParseDeps } from "./parse-call.ts";
import { attemptRequestFor, planCall, type PlanDeps } from "./plan-call.ts";
import { wantsReceipt } from "./receipt-request.ts";
import { endsBill } from "./reply/client-disconnect.ts";
import { collectReply } from "./reply/collect-whole-reply.ts";
import { respond, type RespondDeps } from "./reply/respond-to-caller.ts";
import { routeCall } from "./route-call.ts";
import { runToolLoop } from "./run-tool-loop.ts";
import { type SettleDeps, settleFailed } from "./settle.ts";
import type { ToolLoopDeps } from "./tool-loop.ts";

export interface InferDeps {
  readonly now: () => number;
  /** Reads a live key from the store. */
  readonly findKey: (keyId: string, now: number) => Promise<AuthenticatedKey | undefined>;
  /** Called for every call, so that a shutdown can wait for its end. */
  readonly trackCall: () => () => void;
  /** Counted from the arrival of the request; later, no further candidate is tried. */
  readonly lastAttemptStartMs: number;
  readonly abandonedCalls: AbandonedCalls;
  readonly tokenCounts: Pick<TokenRateLimit, "rejectIfExceeded">;
  readonly findPreset: FindPreset;
  readonly openGuards: OpenGuards;
  readonly parse: ParseDeps;
  readonly route: RoutingDeps & DataPolicyDeps;
  readonly hold: HoldDeps;
  readonly roll: RollDeps;
  /** Undefined where the gateway fetches no files. */
  readonly files: FetchFilesDeps | undefined;
  readonly mcp: McpDeps;
  readonly plan: PlanDeps;
  readonly offers: OfferDeps;
  readonly send: AttemptDeps;
  readonly tools: ToolLoopDeps;
  readonly respond: RespondDeps;
  readonly settle: SettleDeps;
}

/** How often the key of a call is read again because it changed until the hold. */
const KEY_READS_MAX = 3;

export async function infer(deps: InferDeps, received: CallInput): Promise<Response> {
  const sent = withKeySession(received);
  rejectIfOftenAbandoned(deps.abandonedCalls, sent);
  deps.tokenCounts.rejectIfExceeded(sent.caller, sent.now);
  const expanding = expandPreset(deps.findPreset, sent);
  const input = expanding instanceof Promise ? await expanding : expanding;
  const checking = checkInput(deps.openGuards, input, (call) =>
    infer(deps, { ...call, now: deps.now() }),
  );
  const checked = checking instanceof Promise ? await checking : checking;
  const parsing = parseCall(deps.parse, checked);
  const parsed = parsing instanceof Promise ? await parsing : parsing;
  if (parsed instanceof Response) return parsed;
  let response = await runParsed(deps, parsed);
  for (let reads = 0; response === "key_changed"; reads++) {
    if (reads === KEY_READS_MAX)
      throw new Fault("conflict", "key changed during its call", {
        message: "The policy or the scopes of this key changed during the call. Send it again.",
      });
    const caller = await currentCaller(deps, checked);
    response = await runParsed(deps, { ...parsed, input: withKeySession({ ...checked, caller }) });
  }
  return response;
}

/** The caller with the policy and scopes that its key has now. Those of `input` may be some seconds old. */
async function currentCaller(deps: InferDeps, { caller }: CallInput): Promise<Caller> {
  const key = await deps.findKey(caller.keyId, deps.now());
  if (key === undefined) throw endedKeyFault("key revoked or expired since it was read");
  requireScope({ scope: "models:write" }, key);
  deps.tokenCounts.rejectIfExceeded(key, deps.now());
  return key;
}

/** Returns `key_changed` if the hold found another policy or other scopes than the caller's. Nothing was sent then. */
async function runParsed(deps: InferDeps, parsed: ParsedCall): Promise<Response | "key_changed"> {
  const { input } = parsed;
  const routing = routeCall(deps.route, parsed);
  const routed = routing instanceof Promise ? await routing : routing;
  const { request, statefulCall, catalog } = routed;
  rejectUnknownOptions(request.json);
  const ceiling = ceilingOf(request, input);
  const accepting = acceptOffer(deps.offers, input, request);
  const offer = accepting && (await accepting);
  const pricedAt = offer?.at ?? routed.pricedAt;
  const pricing = offer === undefined ? routed : { ...routed, pricedAt };
  const priced = withinCeiling(priceAllowed(pricing), ceiling, request.choices);
  const call: OpenCall = {
    input,
    request,
    statefulCall,
    catalog,
    pricedAt,
    candidates: offer === undefined ? priced : withOffer(priced, offer, parsed),
    ceiling: offer === undefined ? ceiling : withOfferCeiling(ceiling, offer),
    holdsAll: holdsAll(request, input),
    receipt: wantsReceipt(request, input) ? { quoteId: offer?.id } : undefined,
    attempts: [],
    untrack: deps.trackCall(),
  };
  let fault: Fault;
  try {
    const { held, result } = await sendToCandidates(deps, call);
    call.files?.release();
    if (result.ok) return await respond(deps.respond, held, result.reply);
    void closeMcpServers(call);
    await settleFailed(deps.settle, held, result);
    fault = withShortfall(result.fault, call.shortfall);
  } catch (error) {
    // Releasing a hold that is settled already changes nothing.
    await releaseHold(deps.hold, call).catch(() => {});
    void closeMcpServers(call);
    call.files?.release();
    call.untrack();
    if (call.isKeyChanged === true) return "key_changed";
    throw error;
  }
  throw fault;
}

/** The hold of a batch has all that an item can cost, and a wallet has signed for it. */
function holdsAll({ json }: ParsedRequest, { batchItem, ceiling, headers }: CallInput): boolean {
  return batchItem !== undefined || ceiling !== undefined || readHoldsAll(json, headers);
}

/** Only a conversation has an output limit that can be lowered. */
function ceilingOf(
  { api, json }: ParsedRequest,
  { headers, ceiling: signed }: CallInput,
): CostCeiling | undefined {
  const stated = readCostCeiling(json, headers);
  const isSignedLower = signed !== undefined && (stated === undefined || signed < stated.max);
  const ceiling = isSignedLower ? { max: signed, canShorten: false } : stated;
  if (ceiling === undefined || API_TRAITS[api].generates) return ceiling;
  return { ...ceiling, canShorten: false };
}

interface SentCall {
  readonly held: HeldCall;
  readonly result: CandidateResult;
}

interface FailedCall extends SentCall {
  readonly result: FailedCandidate;
}

/** Tries the candidates in order (hold, plan, send), until one replies or the rest cannot help. */
async function sendToCandidates(deps: InferDeps, call: OpenCall): Promise<SentCall> {
  let failed: FailedCall | undefined;
  let planFault: Fault | undefined;
  for (const [index, priced] of call.candidates.entries()) {
    const remaining = call.candidates.slice(index + 1);
    const isFallback = failed !== undefined;
    const holding = ensureHold(deps.hold, call, { priced, remaining, isFallback });
    const hold = holding instanceof Promise ? await holding : holding;
    if (!paysFor(call, hold, priced, isFallback)) continue;
    const planning = planCandidate(deps, call, priced, hold);
    const planned = planning instanceof Promise ? await planning : planning;
    if (planned instanceof Fault) {
      // The request may be expressible on the wire of the next candidate.
      planFault ??= planned;
      continue;
    }
    const roll = startRoll(deps, planned);
    let held: HeldCall | undefined = planned;
    while (held !== undefined) {
      const [next] = remaining;
      const request = attemptRequestFor(deps.plan, held, next);
      const first = await attemptCandidate(held.candidate, request, call.attempts, deps.send);
      const result = first.ok
        ? await completeReply(deps, { held, next, request }, first.reply)
        : first;
      if (result.ok) return { held, result };
      failed = { held, result: withHoldEnd(result, roll) };
      held = withOtherPlan(failed);
    }
    if (roll !== undefined) stopRollingHold(roll);
    if (failed !== undefined && !canFallBack(deps, failed)) break;
  }
  if (failed === undefined) throw planFault ?? new Error("a call without a candidate");
  return failed;
}

interface SentAttempt {
  readonly held: HeldCall;
  readonly next: PricedCandidate | undefined;
  readonly request: AttemptRequest;
}

/** With the further turns of a call whose tools the gateway runs, or all of a stream that is collected. */
function completeReply(
  { tools, respond: { count, now }, send: { timeouts } }: InferDeps,
  { held, next, request }: SentAttempt,
  reply: UpstreamReply,
): CandidateResult | Promise<CandidateResult> {
  return held.isCollected === true && reply.kind === "stream"
    ? collectReply({ count, now, timeouts }, held, request, reply)
    : runToolLoop(tools, held, next, reply);
}

/** Fetches what the plan needs first. Most calls need nothing, and wait for nothing. */
function planCandidate(
  deps: InferDeps,
  call: OpenCall,
  priced: PricedCandidate,
  hold: Hold,
): HeldCall | Fault | Promise<HeldCall | Fault> {
  const { candidate } = priced;
  const plan = (): HeldCall | Fault => planCall(deps.plan, call, priced, hold);
  const open = (): HeldCall | Fault | Promise<HeldCall | Fault> =>
    openMcpServers(deps.mcp, call, candidate)?.then((fault) => fault ?? plan()) ?? plan();
  return fetchFiles(deps.files, call, candidate, hold)?.then((fault) => fault ?? open()) ?? open();
}

/** A hold of zero pays only for the caller's own keys; one that could not be raised does not pay for a more expensive fallback. */
function paysFor(
  call: OpenCall,
  hold: Hold,
  priced: PricedCandidate,
  isFallback: boolean,
): boolean {
  const { credential, model } = priced.candidate;
  if (credential.byok) return true;
  if (!hold.isPaid) return false;
  if (!isFallback || coversCandidate(call, hold, priced)) return true;
  call.shortfall ??= unaffordableFault(model.id);
  return false;
}

/** From here on the provider may generate output, also before its first event. */
function startRoll({ roll: deps }: InferDeps, call: HeldCall): RollingHold | undefined {
  const { input, hold, candidate, estimate } = call;
  if (!hold.isRolling || candidate.credential.byok || hold.amount >= estimate.amount)
    return undefined;
  const { accountId, keyId } = input.caller;
  const request = { id: input.requestId, accountId, keyId, sessionId: input.session?.id };
  call.roll = startRollingHold(deps, { request, hold, estimate, hidesOutput: !endsBill(call) });
  return call.roll;
}

/** For an attempt that was canceled because its hold could not be raised. */
function withHoldEnd(result: FailedCandidate, roll: RollingHold | undefined): FailedCandidate {
  const end = result.isShutDown === true ? roll?.ended : undefined;
  if (end === undefined) return result;
  const failed = { ok: false, isClientGone: false } as const;
  return end === "budget"
    ? { ...failed, fault: spentFault(), isCut: true }
    : { ...failed, fault: lostHoldFault(end), isShutDown: true };
}

const NO_ENDPOINT_STATUSES: ReadonlySet<number> = new Set([404, 405]);

/** Without the endpoint that the provider turned out not to have, or with settings adapted to its rejection. */
function withOtherPlan({ held, result: { fault, usage } }: FailedCall): HeldCall | undefined {
  if (usage !== undefined) return undefined;
  const { withoutEndpoint, afterRejection } = held.plan;
  const isRejection = fault.status === 400 && afterRejection?.reason.test(fault.publicMessage);
  const plan = NO_ENDPOINT_STATUSES.has(fault.status)
    ? withoutEndpoint
    : isRejection === true
      ? afterRejection?.plan()
      : undefined;
  return plan && { ...held, plan };
}

// A fallback that starts too late would exceed the caller's patience and the lifetime of the hold.
function canFallBack(
  { now, lastAttemptStartMs }: InferDeps,
  { held: { input }, result: { fault, isClientGone, isShutDown, tail, isCut, usage } }: FailedCall,
): boolean {
  // The provider bills this reply, and another one would be as long.
  if (tail !== undefined || isCut === true || usage !== undefined) return false;
  if (isClientGone || isShutDown === true || input.signal.aborted) return false;
  return now() - input.now <= lastAttemptStartMs && isFallbackable(fault);
}

const LABEL = "session=";

/**
 * The session of a call by a key that is bound to one, or that limits what each of its sessions spends. A bound key has one session, whatever its clients name. Under a limit of each session, calls without one share the session
 * that has the id of the key: else leaving out a header would lift the limit.
 */
function withKeySession(input: CallInput): CallInput {
  const { caller, headers, labels, session } = input;
  const { session: bound, sessionLimitUsd } = caller.policy ?? {};
  if (bound === undefined && (sessionLimitUsd === undefined || session !== undefined)) return input;
  const id = bound ?? caller.keyId;
  const named = headers.get(SESSION_HEADERS.session)?.trim() || undefined;
  if (bound !== undefined && named !== undefined && named !== bound)
    throw new Fault("forbidden", "key policy: session", {
      message: `This key may only make calls of the session \`${bound}\`. Leave the header \`${SESSION_HEADERS.session}\` out.`,
      param: SESSION_HEADERS.session,
      fields: { policy: "session" },
    });
  const others = labels.filter((label) => !label.startsWith(LABEL));
  return {
    ...input,
    session: { id, limit: session?.limit },
    labels: [...others, `${LABEL}${id}`].sort(),
  };
}
