// The life of a model call: read, hold, send, relay, meter, settle. Whatever happens on the way, the hold is resolved
// once and a record is written in the same step as the charge.

import type { Fault } from "../base/fault.ts";
import { answerStream, answerWhole } from "./answer-call.ts";
import { type Ask, readAsk } from "./ask.ts";
import { tryCandidate, type Trial, type TrialResult } from "./attempt.ts";
import { type Call, type CallInput, idsOf, type InferParts, stopsBilling } from "./call.ts";
import { type Candidate, candidatesOf } from "./candidates.ts";
import { clampedOutput, faultOfHold, holdRequest, quoteOf } from "./hold.ts";
import { passageFor } from "./passage.ts";
import { settleFailed } from "./settle-call.ts";
import { foreignReference, refuseReference } from "./tenant-guard.ts";

export async function infer(parts: InferParts, input: CallInput): Promise<Response> {
  const ask = readAsk(input.api, input.text);
  const candidates = await candidatesOf(ask, input.api, input.caller.accountId, {
    ...parts,
    catalog: parts.catalog.current(),
  });
  const reference = foreignReference(ask);
  const usable =
    reference === undefined
      ? candidates
      : candidates.filter((candidate) => candidate.credential.byok);
  const [first, ...others] = usable;
  if (first === undefined) throw refuseReference(reference ?? { path: "model", instead: "" });

  const closed = parts.onOpen();
  let call: Call | undefined;
  let result: TrialResult;
  try {
    call = await hold(parts, input, { ask, candidate: first, closed });
    result = await attempt(parts, call, first);
    for (const next of others) {
      if (result.ok || result.aborted || !mayFallOver(result.fault)) break;
      // The caller's own key cost nothing so far; the gateway's account must be paid for.
      await parts.ledger.settle({ ...idsOf(call), cost: 0n, now: parts.now() });
      call = {
        ...(await hold(parts, input, { ask, candidate: next, closed })),
        attempts: call.attempts,
      };
      result = await attempt(parts, call, next);
    }
    if (result.ok)
      return result.answered.kind === "whole"
        ? await answerWhole(parts, call, result.candidate, result.answered)
        : answerStream(parts, call, result.candidate, result.answered);
    await settleFailed(parts, call, first, result);
  } catch (error) {
    // Nothing stays held, whatever went wrong in here; what is settled already stays as it is.
    if (call !== undefined)
      await parts.ledger.settle({ ...idsOf(call), cost: 0n, now: parts.now() }).catch(() => {});
    closed();
    throw error;
  }
  throw result.fault;
}

/** A failure of one account that another account might not have. */
function mayFallOver(fault: Fault): boolean {
  return fault.status === 429 || fault.status >= 500;
}

async function hold(
  parts: InferParts,
  input: CallInput,
  chosen: { readonly ask: Ask; readonly candidate: Candidate; readonly closed: () => void },
): Promise<Call> {
  const { ask, candidate, closed } = chosen;
  const catalog = parts.catalog.current();
  const quote = quoteOf(ask, candidate.model, candidate.credential.provider, {
    catalog,
    now: input.now,
  });
  const free = candidate.credential.byok ? { ...quote, amount: 0n, minimum: undefined } : quote;
  const request = holdRequest(free, {
    id: input.requestId,
    accountId: input.caller.accountId,
    keyId: input.caller.keyId,
    now: input.now,
    expiresAt: input.now + parts.timeouts.totalMs + HOLD_SLACK_MS,
    ...(parts.pace === undefined ? {} : { pace: parts.pace }),
    ...(parts.openCallsMax === undefined ? {} : { openCallsMax: parts.openCallsMax }),
  });
  const outcome = await parts.ledger.hold(request);
  if (outcome.status !== "held") {
    const claimed =
      outcome.status === "insufficient_credits" && (await parts.isClaimed(input.caller.accountId));
    throw faultOfHold(outcome, quote, { ask, claimed });
  }
  const outputMax = candidate.credential.byok
    ? undefined
    : clampedOutput(quote, outcome.amount, ask.choices);
  return {
    input,
    ask,
    catalog,
    quote,
    held: outcome.amount,
    outputMax,
    attempts: [],
    abort: new AbortController(),
    closed,
    passage: undefined,
  };
}

const HOLD_SLACK_MS = 60_000;

async function attempt(parts: InferParts, call: Call, candidate: Candidate): Promise<TrialResult> {
  const { input, ask } = call;
  const passage = passageFor(ask, candidate, {
    requestId: input.requestId,
    now: input.now,
    adjust: {
      pseudonym: () => parts.pseudonymOf(input.caller.accountId),
      outputMax: call.outputMax,
    },
  });
  call.passage = passage;
  const trial: Trial = {
    wire: passage.wire,
    path: passage.path,
    stream: ask.stream,
    headers: input.headers,
    abort: call.abort,
    body: passage.body,
  };
  // Where leaving does not end the bill, the call goes on without the caller, to the provider's own count.
  const leave = (): void => {
    if (stopsBilling(candidate)) call.abort.abort();
  };
  input.signal.addEventListener("abort", leave);
  try {
    if (input.signal.aborted) leave();
    return await tryCandidate(candidate, trial, call.attempts, parts);
  } finally {
    // A stream that has begun learns by its own cancellation that its reader is gone.
    input.signal.removeEventListener("abort", leave);
  }
}
