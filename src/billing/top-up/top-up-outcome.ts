// Ends an automatic top-up: paid, when its payment is credited, or failed. Two failures in a row stop auto top-up until
// the owner enables it again.

import { DAY_MS, MINUTE_MS } from "../../base/time.ts";
import type { Tx } from "../../store/db.ts";
import { lockInvoice, setVoid } from "../invoices/invoices.ts";
import { stopAutoTopUp, type StopReason, type OnTopUpEvent } from "./auto-top-up.ts";
import {
  lockAutoTopUp,
  lockTopUp,
  setAutoTopUpDue,
  type TopUp,
  findTopUpByInvoice,
} from "./top-up-rows.ts";

const FAILURES_MAX = 2;
const RETRY_MS = 10 * MINUTE_MS;

const TOP_UP_FAILURE_REASONS = [
  "declined",
  "authentication_required",
  "method_gone",
  "processor_unreachable",
  "not_credited",
] as const;
export type TopUpFailureReason = (typeof TOP_UP_FAILURE_REASONS)[number];

/** Reasons after which a retry cannot succeed. */
const IMMEDIATE_STOP_REASONS: Readonly<Partial<Record<TopUpFailureReason, StopReason>>> = {
  method_gone: "no_payment_method",
  not_credited: "payment_not_credited",
};

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
  {
    reason,
    now,
    onTopUpEvent,
  }: { reason: TopUpFailureReason; now: number; onTopUpEvent: OnTopUpEvent | undefined },
): Promise<void> {
  const invoice = await lockInvoice(tx, invoiceId);
  const settings = await lockAutoTopUp(tx, accountId);
  const topUp = await lockTopUp(tx, id);
  if (settings === undefined || topUp?.isOpen !== true) return;
  if (invoice !== undefined) await setVoid(tx, invoice, { now });
  // The charge may still appear at the processor, so it is checked once more.
  const recheckAt = reason === "processor_unreachable" ? now + DAY_MS : null;
  await tx.run(
    "update top_up set state = 'failed', open_for = null, reason = ?, due_at = ?, ended_at = ? where id = ?",
    [reason, recheckAt, now, id],
  );
  const failures = settings.failures + 1;
  await tx.run("update auto_top_up set failures = ? where account_id = ?", [failures, accountId]);
  const isEnabled = settings.status === "on";
  const stopReason =
    IMMEDIATE_STOP_REASONS[reason] ?? (failures >= FAILURES_MAX ? "payment_failed" : undefined);
  const nextTryAt = isEnabled && stopReason === undefined ? now + RETRY_MS : null;
  await onTopUpEvent?.(tx, { kind: "failed", topUp, reason, failures, nextTryAt }, now);
  if (nextTryAt !== null) await setAutoTopUpDue(tx, accountId, nextTryAt);
  else if (stopReason !== undefined)
    await stopAutoTopUp(tx, accountId, { reason: stopReason, now, onTopUpEvent });
}
