// Writes a call's request for one candidate: passed through or translated, with the output limit that its hold pays for.

import type { McpToolLists } from "@postern/wires";
import { Fault } from "../../base/fault.ts";
import { answeredModelId } from "../../models/catalog.ts";
import {
  affordableEstimate,
  clampedOutputLimit,
  rollingOutputLimit,
} from "../metering/cost-estimate.ts";
import { readLossy } from "../request/call-options.ts";
import { withBeta } from "../request/forwarded-headers.ts";
import { gatewayToolsOf } from "../request/tool-bounds.ts";
import type { Candidate } from "../routing/candidates.ts";
import type { PricedCandidate } from "../routing/priced-candidates.ts";
import type { ShutdownSignals } from "../streaming/relay-options.ts";
import { isStrict } from "../translate/losses.ts";
import { planFor } from "../translate/plan.ts";
import type { AttemptRequest } from "../upstream/attempt.ts";
import {
  type CandidateRequest,
  type HeldCall,
  type Hold,
  type OpenCall,
  publicErrorFor,
} from "./call.ts";
import { canRoll } from "./hold/hold.ts";
import { cancelCheckOf } from "./reply/client-disconnect.ts";

export interface PlanDeps {
  /** A stable name for the account that reveals nothing about it. */
  readonly pseudonymOf: (accountId: string) => string;
  /** Whether a Messages request that passes through gets the pseudonym. */
  readonly sendsAnthropicUserId: boolean;
  readonly shutdownSignals: ShutdownSignals;
}

/** The fault says what the candidate's wire cannot express. */
export function planCall(
  { pseudonymOf, sendsAnthropicUserId }: PlanDeps,
  call: OpenCall,
  { candidate, estimate: fullEstimate }: PricedCandidate,
  hold: Hold,
): HeldCall | Fault {
  const { input, request, statefulCall, catalog, pricedAt, ceiling, receipt } = call;
  const { attempts, untrack, files, mcp } = call;
  const rolls = rollsFor(call, { candidate, estimate: fullEstimate }, hold);
  const isCollected = rolls && !request.stream;
  const spendable = rolls ? hold.limit : hold.amount;
  const estimate = affordableEstimate(fullEstimate, spendable);
  const { toolCallsMax } = estimate;
  const outputMax = candidate.credential.byok
    ? undefined
    : (rolls ? rollingOutputLimit : clampedOutputLimit)(estimate, spendable, request.choices);
  let sent: CandidateRequest = { request };
  try {
    if (statefulCall !== undefined) sent = statefulCall.requestFor(candidate);
    const plan = planFor({
      request: isCollected ? { ...sent.request, stream: true } : sent.request,
      candidate,
      requestId: input.requestId,
      now: input.now,
      modelIdOf: (name) => answeredModelId(catalog, candidate, name),
      toPublicError: (fault) => publicErrorFor(input, fault),
      files: files?.files,
      formFiles: input.files,
      mcp: mcpListsFor(call, candidate),
      isStrict: isStrict(sent.request.json, input.headers),
      isLossy: readLossy(sent.request.json, input.headers),
      adjustments: {
        pseudonym: () => pseudonymOf(input.caller.accountId),
        sendsAnthropicUserId,
        outputMax,
        toolCallsMax,
        members: isCollected ? { ...sent.members, stream: "true" } : sent.members,
      },
    });
    return {
      input,
      request,
      statefulCall,
      catalog,
      pricedAt,
      ceiling,
      receipt,
      attempts,
      untrack,
      candidate,
      estimate,
      hold,
      outputMax,
      isCollected,
      mcp,
      plan: sent.adaptPlan?.(plan) ?? plan,
    };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return sent.toCallerFault?.(error) ?? error;
  }
}

function rollsFor(call: OpenCall, priced: PricedCandidate, { isRolling }: Hold): boolean {
  return isRolling && !priced.candidate.credential.byok && canRoll(call, priced);
}

/** Undefined if the candidate's provider calls the MCP servers. */
function mcpListsFor({ request, mcp }: OpenCall, { model }: Candidate): McpToolLists | undefined {
  return mcp?.isRequired === true || gatewayToolsOf(request, model).mcp ? mcp?.lists : undefined;
}

export function attemptRequestFor(
  { shutdownSignals }: PlanDeps,
  call: HeldCall,
  next: PricedCandidate | undefined,
): AttemptRequest {
  const { input, request, candidate, plan } = call;
  const isCanceled = cancelCheckOf(input.signal, shutdownSignals, call);
  const isOtherModelNext = next !== undefined && next.candidate.model.id !== candidate.model.id;
  const isOtherKeyNext = next !== undefined && !isOtherModelNext && !candidate.credential.byok;
  return {
    accountId: input.caller.accountId,
    isPaying: call.hold.isPaying,
    wire: plan.wire,
    path: plan.path,
    body: plan.body,
    files: plan.isForm === false ? undefined : input.files,
    stream: request.stream || call.isCollected === true,
    sendsBytes: plan.relayedStream?.sent === "bytes",
    isStreamOptional: plan.relayedStream !== undefined || call.isCollected === true,
    // Another key would wait as long for the same provider.
    hasFallback: next !== undefined && !isOtherKeyNext,
    isTranslated: plan.isTranslated,
    forwardedHeaders: withBeta(input.forwardedHeaders, plan.beta),
    callerSignal: input.signal,
    // A stream that has begun learns from its own cancellation that the caller has left.
    isCanceled: () => call.roll?.ended !== undefined || isCanceled(),
    maxAttempts: isOtherModelNext || isOtherKeyNext ? 1 : undefined,
  };
}
