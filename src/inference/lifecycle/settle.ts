// Settles a call: the charge, the usage record and what is kept for a repetition, in one step of the ledger.

import { usdText } from "../../base/money.ts";
import type { Outcome, UsageRecord } from "../../usage/usage.ts";
import type { CandidateResult } from "../upstream/attempt.ts";
import { type HeldCall, billedCost, holdIds, type InferDeps, type StoredReply } from "./call.ts";
import type { Candidate } from "../routing/candidates.ts";
import { type UsageCharge, NO_CHARGE, tokenTotals } from "../metering/charge.ts";
import { recordOutcome } from "../routing/provider-statistics.ts";

export async function settleFailed(
  deps: InferDeps,
  call: HeldCall,
  candidate: Candidate,
  result: CandidateResult & { ok: false },
): Promise<void> {
  const outcome: Outcome = result.aborted
    ? "client_aborted"
    : result.fault.code === "upstream_timeout"
      ? "upstream_timeout"
      : "upstream_error";
  await settle(deps, call, candidate, {
    charge: NO_CHARGE,
    outcome,
    status: result.aborted ? 499 : result.fault.status,
  });
}

export interface MeteredReply {
  readonly charge: UsageCharge;
  readonly outcome: Outcome;
  readonly status: number;
  /** The whole answer, also where its caller is gone: what is paid for can be asked for again. */
  readonly reply?: StoredReply | undefined;
  readonly firstTokenMs?: number;
}

export async function settle(
  deps: InferDeps,
  call: HeldCall,
  candidate: Candidate,
  metered: MeteredReply,
): Promise<void> {
  const { charge } = metered;
  const now = deps.now();
  const cost = billedCost(charge, candidate);
  const usage = usageRecordOf(call, candidate, metered, now);
  const idempotent =
    call.input.idempotent === undefined
      ? undefined
      : { call: call.input.idempotent, reply: metered.reply };
  if (charge.missingPrices.length > 0)
    deps.log.warn("billed by a rule for want of a price", {
      request_id: usage.id,
      model: usage.model,
      gaps: charge.missingPrices,
    });
  try {
    const settled = await deps.ledger.settle({
      ...holdIds(call),
      cost,
      now,
      record: { usage, idempotent, storeReply: call.statefulCall?.storeReply() },
    });
    if (settled.status === "settled" && settled.overrun > 0n)
      deps.log.warn("a call cost more than could be charged", {
        request_id: usage.id,
        model: usage.model,
        overrun_usd: usdText(settled.overrun),
      });
    deps.onSettled?.(usage, call);
  } catch (cause) {
    deps.log.error("a call could not be settled", { request_id: usage.id, cause });
    // The caller will not see it complete, so at least nothing stays held for it.
    await deps.ledger.settle({ ...holdIds(call), cost: 0n, now }).catch(() => {});
    throw cause;
  } finally {
    call.untrack();
    recordOutcome(deps.routing.statistics, usage, now);
  }
}

function usageRecordOf(
  call: HeldCall,
  candidate: Candidate,
  metered: MeteredReply,
  now: number,
): UsageRecord {
  const { input, request } = call;
  const { charge } = metered;
  return {
    id: input.requestId,
    accountId: input.caller.accountId,
    keyId: input.caller.keyId,
    createdAt: input.now,
    model: candidate.model.id,
    provider: candidate.credential.provider.id,
    api: request.api,
    stream: request.stream,
    outcome: metered.outcome,
    status: metered.status,
    ...tokenTotals(charge.usage),
    price: charge.lines,
    attempts: call.attempts,
    cost: billedCost(charge, candidate),
    byok: candidate.credential.byok,
    exact: charge.exact,
    latencyMs: Math.max(0, now - input.now),
    firstTokenMs: metered.firstTokenMs ?? null,
  };
}
