// What billing does in the transaction of a domain event: emits webhook events, writes audit entries, schedules top-ups.

import { recordMemberChange } from "../accounts/account-activity.ts";
import type { MemberChange } from "../accounts/members.ts";
import { personAct, recordAuditEntry } from "../activity/audit.ts";
import { emitEvent } from "../activity/events.ts";
import { creditsOf, usdOf } from "../base/money/money.ts";
import type { ThresholdCrossing } from "../ledger/balance-thresholds.ts";
import type { Tx } from "../store/db.ts";
import { usdOfCents, usdOfCredits } from "./invoices/cents.ts";
import type { PaidInvoice } from "./payments/payment-facts.ts";
import { revokeCharging, scheduleTopUps, type TopUpEvent } from "./top-up/auto-top-up.ts";

export async function handleInvoicePaid(tx: Tx, { invoice, now }: PaidInvoice): Promise<void> {
  const { id, accountId, credits } = invoice;
  const data = { invoice_id: id, amount_usd: usdOfCredits(credits), credits };
  await emitEvent(tx, { type: "invoice.paid", accountId, data, now });
}

/** Emits the membership event. A new owner must not spend from the previous owner's payment method, so charging is revoked. */
export async function handleMemberChange(tx: Tx, change: MemberChange): Promise<void> {
  await recordMemberChange(tx, change);
  if (change.kind !== "owner.changed") return;
  const { accountId, actor, clientIp, now } = change;
  const act = personAct(accountId, actor.personId, { clientIp, now });
  await revokeCharging(tx, { ...act, detail: { by: actor.email } });
}

export async function emitBalanceEvents(
  tx: Tx,
  crossings: readonly ThresholdCrossing[],
): Promise<void> {
  for (const { kind, accountId, balance, threshold, now } of crossings) {
    if (kind === "top_up") continue;
    const data = { credits: creditsOf(balance), usd: usdOf(balance), below_usd: usdOf(threshold) };
    await emitEvent(tx, { type: `balance.${kind}`, accountId, data, now });
  }
}

/** Emits low-balance events and schedules the auto top-ups that the crossings trigger. */
export async function handleBalanceThresholds(
  tx: Tx,
  crossings: readonly ThresholdCrossing[],
): Promise<void> {
  await emitBalanceEvents(tx, crossings);
  await scheduleTopUps(tx, crossings);
}

export async function handleTopUpEvent(tx: Tx, event: TopUpEvent, now: number): Promise<void> {
  switch (event.kind) {
    case "failed": {
      const { topUp, reason, failures, nextTryAt } = event;
      const data = {
        invoice_id: topUp.invoiceId,
        amount_usd: usdOfCents(topUp.amountCents),
        reason,
        failures_in_a_row: failures,
        next_try_at: nextTryAt === null ? null : new Date(nextTryAt).toISOString(),
      };
      await emitEvent(tx, { type: "top_up.failed", accountId: topUp.accountId, data, now });
      return;
    }
    case "stopped": {
      const { accountId, reason, failures } = event;
      const data = { reason, failures_in_a_row: failures };
      await emitEvent(tx, { type: "top_up.stopped", accountId, data, now });
      await recordAuditEntry(tx, {
        accountId,
        actor: { type: "system", id: "billing" },
        action: "auto_top_up.stopped",
        target: null,
        detail: { reason },
        network: null,
        now,
      });
      return;
    }
    case "ceiling_reached": {
      const { accountId, ceilingCents, boughtCents, resumesAt } = event;
      const data = {
        monthly_ceiling_usd: usdOfCents(ceilingCents),
        bought_this_month_usd: usdOfCents(boughtCents),
        resumes_at: new Date(resumesAt).toISOString(),
      };
      await emitEvent(tx, { type: "top_up.ceiling_reached", accountId, data, now });
    }
  }
}
