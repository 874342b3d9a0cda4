// Settles a call: the charge, the usage record and what is kept for a repetition, in one step of the ledger.

import { usdText } from "../base/money.ts";
import type { Outcome, UsageRecord } from "../usage/usage.ts";
import type { TrialResult } from "./attempt.ts";
import { type Call, costOf, idsOf, type InferParts, type StoredReply } from "./call.ts";
import type { Candidate } from "./candidates.ts";
import { type Charged, NOTHING, sumsOf } from "./charge.ts";
import { noteOutcome } from "./routing-statistics.ts";

export async function settleFailed(
  parts: InferParts,
  call: Call,
  candidate: Candidate,
  result: TrialResult & { ok: false },
): Promise<void> {
  const outcome: Outcome = result.aborted
    ? "client_aborted"
    : result.fault.code === "upstream_timeout"
      ? "upstream_timeout"
      : "upstream_error";
  await settle(parts, call, candidate, {
    charged: NOTHING,
    outcome,
    status: result.aborted ? 499 : result.fault.status,
  });
}

export interface Settlement {
  readonly charged: Charged;
  readonly outcome: Outcome;
  readonly status: number;
  /** The whole answer, also where its caller is gone: what is paid for can be asked for again. */
  readonly reply?: StoredReply | undefined;
  readonly firstTokenMs?: number;
}

export async function settle(
  parts: InferParts,
  call: Call,
  candidate: Candidate,
  settlement: Settlement,
): Promise<void> {
  const { charged } = settlement;
  const now = parts.now();
  const cost = costOf(charged, candidate);
  const usage = recordOf(call, candidate, settlement, now);
  const idempotent =
    call.input.idempotent === undefined
      ? undefined
      : { call: call.input.idempotent, answer: settlement.reply };
  if (charged.gaps.length > 0)
    parts.log.warn("billed by a rule for want of a price", {
      request_id: usage.id,
      model: usage.model,
      gaps: charged.gaps,
    });
  try {
    const settled = await parts.ledger.settle({
      ...idsOf(call),
      cost,
      now,
      record: { usage, idempotent, stored: call.state?.stored() },
    });
    if (settled.status === "settled" && settled.overrun > 0n)
      parts.log.warn("a call cost more than could be charged", {
        request_id: usage.id,
        model: usage.model,
        overrun_usd: usdText(settled.overrun),
      });
    parts.onSettled?.(usage, call);
  } catch (cause) {
    parts.log.error("a call could not be settled", { request_id: usage.id, cause });
    // The caller will not see it complete, so at least nothing stays held for it.
    await parts.ledger.settle({ ...idsOf(call), cost: 0n, now }).catch(() => {});
    throw cause;
  } finally {
    call.closed();
    noteOutcome(parts.routing.statistics, usage, now);
  }
}

function recordOf(
  call: Call,
  candidate: Candidate,
  settlement: Settlement,
  now: number,
): UsageRecord {
  const { input, ask } = call;
  const { charged } = settlement;
  return {
    id: input.requestId,
    accountId: input.caller.accountId,
    keyId: input.caller.keyId,
    createdAt: input.now,
    model: candidate.model.id,
    provider: candidate.credential.provider.id,
    api: ask.api,
    stream: ask.stream,
    outcome: settlement.outcome,
    status: settlement.status,
    ...sumsOf(charged.usage),
    price: charged.lines,
    attempts: call.attempts,
    cost: costOf(charged, candidate),
    byok: candidate.credential.byok,
    exact: charged.exact,
    latencyMs: Math.max(0, now - input.now),
    firstTokenMs: settlement.firstTokenMs ?? null,
  };
}
