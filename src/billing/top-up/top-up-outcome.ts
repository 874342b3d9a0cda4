// Ends an automatic top-up: paid, when its payment is credited, or failed. Two failures in a row stop auto top-up until
// the owner enables it again.

import { emitEvent } from "../../activity/events.ts";
import { DAY_MS, MINUTE_MS } from "../../base/time.ts";
import { integer, type Reader, type Tx } from "../../store/db.ts";
import { usdOfCents } from "../invoices/cents.ts";
import { billingAct, lockInvoice, setVoid } from "../invoices/invoices.ts";
import { stopAutoTopUp, type StopReason } from "./auto-top-up.ts";
import {
  lockAutoTopUp,
  lockTopUp,
  setAutoTopUpDue,
  type TopUp,
  findTopUpByInvoice,
  listTopUps,
} from "./top-up-rows.ts";

const FAILURES_MAX = 2;
const RETRY_MS = 10 * MINUTE_MS;
const PROCESSOR_RETRY_MS = 30 * MINUTE_MS;

const TOP_UP_FAILURE_REASONS = [
  "declined",
  "authentication_required",
  "method_gone",
  "processor_refused",
  "processor_unreachable",
  "not_credited",
] as const;
export type TopUpFailureReason = (typeof TOP_UP_FAILURE_REASONS)[number];

/** Reasons after which a retry cannot succeed. */
const IMMEDIATE_STOP_REASONS: Readonly<Partial<Record<TopUpFailureReason, StopReason>>> = {
  method_gone: "no_payment_method",
  not_credited: "payment_not_credited",
};

/** Reasons that are not the customer's. They do not count as failures, so they never stop auto top-up. */
const PROCESSOR_REASONS = ["processor_refused", "processor_unreachable"] as const;

function isProcessorReason(
  reason: string | null | undefined,
): reason is (typeof PROCESSOR_REASONS)[number] {
  return PROCESSOR_REASONS.some((processorReason) => processorReason === reason);
}

/** Runs in the transaction that credits the invoice. Schedules a check, because one top-up may not be enough. */
export async function completeTopUp(tx: Tx, invoiceId: string, now: number): Promise<void> {
  const topUp = await findTopUpByInvoice(tx, invoiceId);
  if (topUp === undefined) return;
  await lockAutoTopUp(tx, topUp.accountId);
  await tx.run(
    "update top_up set state = 'paid', open_for = null, reason = null, due_at = null, ended_at = ? where id = ?",
    [now, topUp.id],
  );
  await tx.run(
    "update auto_top_up set failures = 0, due_at = ? where account_id = ? and status = 'on'",
    [now, topUp.accountId],
  );
}

/** Nothing was charged, or the payment was not credited. Voids the invoice. Does nothing if the top-up has ended. */
export async function failTopUp(
  tx: Tx,
  { id, invoiceId, accountId }: Pick<TopUp, "id" | "invoiceId" | "accountId">,
  { reason, now }: { readonly reason: TopUpFailureReason; readonly now: number },
): Promise<void> {
  const invoice = await lockInvoice(tx, invoiceId);
  const settings = await lockAutoTopUp(tx, accountId);
  const topUp = await lockTopUp(tx, id);
  if (settings === undefined || topUp?.isOpen !== true) return;
  if (invoice !== undefined) await setVoid(tx, billingAct(accountId, now), invoice);
  // The charge may still appear at the processor, so it is checked once more.
  const recheckAt = reason === "processor_unreachable" ? now + DAY_MS : null;
  await tx.run(
    "update top_up set state = 'failed', open_for = null, reason = ?, due_at = ?, ended_at = ? where id = ?",
    [reason, recheckAt, now, id],
  );
  const isProcessors = isProcessorReason(reason);
  const failures = settings.failures + (isProcessors ? 0 : 1);
  await tx.run("update auto_top_up set failures = ? where account_id = ?", [failures, accountId]);
  const stopReason = stopReasonAfter(reason, failures);
  const retryMs = isProcessors ? PROCESSOR_RETRY_MS : RETRY_MS;
  const nextTryAt = settings.status === "on" && stopReason === undefined ? now + retryMs : null;
  const [, previous] = await listTopUps(tx, accountId, 2);
  // A lasting problem of the processor is reported once.
  if (!isProcessors || !isProcessorReason(previous?.reason)) {
    const data = {
      invoice_id: invoiceId,
      amount_usd: usdOfCents(topUp.amountCents),
      reason,
      failures_in_a_row: failures,
      next_try_at: nextTryAt === null ? null : new Date(nextTryAt).toISOString(),
    };
    await emitEvent(tx, { type: "top_up.failed", accountId, data, now });
  }
  if (nextTryAt !== null) await setAutoTopUpDue(tx, accountId, nextTryAt);
  else if (stopReason !== undefined)
    await stopAutoTopUp(tx, accountId, { reason: stopReason, now });
}

function stopReasonAfter(reason: TopUpFailureReason, failures: number): StopReason | undefined {
  if (isProcessorReason(reason)) return undefined;
  const immediate = IMMEDIATE_STOP_REASONS[reason];
  return immediate ?? (failures >= FAILURES_MAX ? "payment_failed" : undefined);
}

/** For the operator: top-ups that the processor refused a short time ago, which is not the customers' fault. */
export async function findRefusedTopUps(reader: Reader, now: number): Promise<string | undefined> {
  const row = await reader.get(
    "select count(*) as count from top_up where state = 'failed' and reason = 'processor_refused' and ended_at >= ?",
    [now - 2 * PROCESSOR_RETRY_MS],
  );
  const count = row === undefined ? 0 : integer(row, "count");
  return count === 0
    ? undefined
    : `The payment processor refused ${count} automatic top-up${count === 1 ? "" : "s"} because of the gateway's settings or its permissions. The log says why: "payment processor refused a top-up". They are tried again every 30 minutes.`;
}
