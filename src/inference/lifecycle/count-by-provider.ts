// The provider's own count of a request that its API counts in another form than the caller's: the request is written as for a
// call, and then as a count. Without an answer the gateway counts itself.

import { API_TRAITS, readCount, writeCountRequest } from "@postern/wires";
import { publicError } from "../../base/error-body.ts";
import { Fault } from "../../base/fault.ts";
import { parseObject } from "../../base/json.ts";
import type { ParsedRequest } from "../request/parse-request.ts";
import type { Candidate } from "../routing/candidates.ts";
import { planFor } from "../translate/plan.ts";
import type { TransportPlan } from "../translate/transport-plan.ts";
import { type AttemptDeps, attemptCandidate } from "../upstream/attempt.ts";
import type { CallInput } from "./call.ts";

/** Undefined if the provider does not count, or not this request. */
export async function countByProvider(
  send: AttemptDeps,
  input: CallInput,
  request: ParsedRequest,
  candidate: Candidate,
): Promise<number | undefined> {
  const { provider } = candidate.credential;
  if (provider.countsInput !== true) return undefined;
  const plan = planOf(input, request, candidate);
  const body = plan && parseObject(plan.body);
  if (plan === undefined || body === undefined) return undefined;
  const isVertex = provider.cloudAuth === "google";
  const count = writeCountRequest(plan.wire, { body, path: plan.path ?? "", isVertex });
  if (count === undefined || provider.paths[plan.wire] === undefined) return undefined;
  const attempt = {
    accountId: input.caller.accountId,
    // Counting is free, so nothing is held that would tell.
    isPaying: false,
    wire: count.wire,
    path: count.path,
    body: JSON.stringify(count.body),
    stream: false,
    isTranslated: plan.isTranslated,
    isCount: true,
    forwardedHeaders: input.forwardedHeaders,
    callerSignal: input.signal,
    isCanceled: () => input.signal.aborted,
    maxAttempts: 1,
  } as const;
  const result = await attemptCandidate(candidate, attempt, [], send);
  if (result.ok) return result.reply.kind === "whole" ? readCount(result.reply.json) : undefined;
  if (result.isClientGone) throw result.fault;
  return undefined;
}

/** A count has no output, and its losses change nothing of the input. */
function planOf(
  { requestId, now }: CallInput,
  request: ParsedRequest,
  candidate: Candidate,
): TransportPlan | undefined {
  const { requiresOutputLimit, outputLimitFields } = API_TRAITS[request.api];
  const limits = requiresOutputLimit
    ? outputLimitFields.map((name) => [name, candidate.model.maxOutputTokens ?? OUTPUT_TOKENS])
    : [];
  const json = { ...Object.fromEntries(limits), ...request.json };
  const adjustments = {
    pseudonym: () => "",
    sendsAnthropicUserId: false,
    outputMax: undefined,
  };
  try {
    return planFor({
      request: { ...request, json, stream: false },
      candidate,
      requestId,
      now,
      modelIdOf: (name) => name,
      toPublicError: publicError,
      isStrict: false,
      isLossy: true,
      adjustments,
    });
  } catch (error) {
    if (error instanceof Fault) return undefined;
    throw error;
  }
}

/** For an API that requires a limit; it is not counted. */
const OUTPUT_TOKENS = 32_000;
