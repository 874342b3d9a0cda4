// Runs automatic top-ups. A top-up and its invoice are stored before the charge, and its id is the processor's
// idempotency key, so it is charged at most once after any crash. An account has one open top-up at a time.

import { emitEvent } from "../../activity/events.ts";
import { newId } from "../../base/id.ts";
import { monthStart, windowEnd } from "../../base/money/spend-window.ts";
import { HOUR_MS, MINUTE_MS } from "../../base/time.ts";
import { findFreeze } from "../../ledger/freezes.ts";
import { getWallet } from "../../ledger/ledger.ts";
import { readAllAccounts } from "../../store/all-accounts.ts";
import { text, type Tx } from "../../store/db.ts";
import { creditsOfCents, nanoOfCents, priceOf, usdOfCents } from "../invoices/cents.ts";
import { billingAct, insertInvoice } from "../invoices/invoices.ts";
import { trackPayment } from "../payments/checkouts.ts";
import { ingestFacts, type PaymentDeps } from "../payments/payment-facts.ts";
import {
  type ChargeRequest,
  type ChargeResult,
  type PaymentProcessor,
  type PaymentMethods,
  paymentMethodsOf,
} from "../payments/payment-processor.ts";
import { stopAutoTopUp } from "./auto-top-up.ts";
import { findMethod, getMethod } from "./payment-method-rows.ts";
import { failTopUp, type TopUpFailureReason } from "./top-up-outcome.ts";
import {
  findOpenTopUp,
  findTopUp,
  sumAbandonedTopUps,
  insertTopUp,
  lockAutoTopUp,
  setAutoTopUpDue,
  sumTopUps,
  toTopUp,
  type TopUp,
} from "./top-up-rows.ts";

const BATCH_MAX = 20;
/** After this time another process may take over a top-up. */
const LEASE_MS = MINUTE_MS;
const PROCESSING_POLL_MS = 10 * MINUTE_MS;
/** A charge that the processor does not know after this time is abandoned. */
const ABANDON_AFTER_MS = 30 * MINUTE_MS;
/** An account that is frozen, by a debt or by the operator, is not topped up; it is checked again after this time. */
const FROZEN_RETRY_MS = HOUR_MS;
const SWEEP_BATCH_MAX = 500;

export interface TopUpDeps extends PaymentDeps {
  readonly processor: PaymentProcessor;
}

/** One run of the job: begins due top-ups and resumes open ones. `currentTime` shows whether the process stalled since `now`. */
export async function processTopUps(
  deps: TopUpDeps,
  now: number,
  currentTime: () => number,
): Promise<void> {
  const { db } = deps;
  const due = await db.all(
    "select account_id from auto_top_up where due_at <= ? order by due_at limit ?",
    [now, BATCH_MAX],
  );
  const started: TopUp[] = [];
  for (const row of due) {
    const topUp = await tryBeginTopUp(deps, text(row, "account_id"), now);
    if (topUp !== undefined) started.push(topUp);
  }
  const pending = await db.all("select * from top_up where due_at <= ? order by due_at limit ?", [
    now,
    BATCH_MAX,
  ]);
  const claimed: TopUp[] = [];
  for (const topUp of pending.map(toTopUp))
    if (await claimTopUp(deps, topUp, now)) claimed.push(topUp);
  await Promise.all(
    [...started, ...claimed].map((topUp) => runTopUp(deps, topUp, now, currentTime)),
  );
}

/** Finds balances below their threshold that no charge reported: after a new month, a crash or a refund. */
export async function scheduleMissedTopUps(
  { db }: Pick<TopUpDeps, "db">,
  now: number,
): Promise<void> {
  for (let after = ""; ;) {
    const waiting = await db.all(
      `select account_id from auto_top_up where status = 'on' and due_at is null and account_id > ?
         and not exists (select 1 from top_up where top_up.open_for = auto_top_up.account_id)
       order by account_id limit ?`,
      [after, SWEEP_BATCH_MAX],
    );
    const accountIds = waiting.map((row) => text(row, "account_id"));
    after = accountIds.at(-1) ?? "";
    if (after === "") return;
    const low = await readAllAccounts(
      db,
      "wallet",
      `select account_id from wallet where account_id in (${accountIds.map(() => "?").join(", ")}) and promo + paid < top_up_at`,
      accountIds,
    );
    for (const row of low)
      await db.write((tx) =>
        tx.run(
          "update auto_top_up set due_at = ? where account_id = ? and status = 'on' and due_at is null",
          [now, text(row, "account_id")],
        ),
      );
  }
}

/** Catches errors, so that one account cannot block the others. */
async function tryBeginTopUp(
  deps: TopUpDeps,
  accountId: string,
  now: number,
): Promise<TopUp | undefined> {
  try {
    return await deps.db.write((tx) => beginTopUp(tx, deps, accountId, now));
  } catch (cause) {
    deps.log.error("failed to begin a top-up", { account: accountId, cause });
    await deps.db.write((tx) => setAutoTopUpDue(tx, accountId, now + LEASE_MS));
    return undefined;
  }
}

/** Decides under the lock of the account's settings, so that only one process begins a top-up. */
async function beginTopUp(
  tx: Tx,
  { processor }: TopUpDeps,
  accountId: string,
  now: number,
): Promise<TopUp | undefined> {
  const settings = await lockAutoTopUp(tx, accountId);
  if (settings?.status !== "on" || settings.dueAt === null || settings.dueAt > now)
    return undefined;
  const postpone = async (until: number | null): Promise<undefined> => {
    await setAutoTopUpDue(tx, accountId, until);
  };
  // The balance is checked again when the open top-up ends.
  if ((await findOpenTopUp(tx, accountId)) !== undefined) return postpone(null);
  const { promo, paid } = await getWallet(tx, accountId);
  if (promo + paid >= nanoOfCents(settings.thresholdCents)) return postpone(null);
  if ((await findFreeze(tx, accountId)) !== undefined) return postpone(now + FROZEN_RETRY_MS);
  const method = await findMethod(tx, accountId);
  if (method === undefined || method.processor !== processor.id) {
    await stopAutoTopUp(tx, accountId, { reason: "no_payment_method", now });
    return undefined;
  }
  const month = monthStart(now);
  const boughtCents = await sumTopUps(tx, accountId, month);
  const { amountCents, ceilingCents } = settings;
  if (boughtCents + amountCents > ceilingCents) {
    // An abandoned top-up counts towards the ceiling only until its last check shows whether it was charged.
    const { cents, nextCheckAt } = await sumAbandonedTopUps(tx, accountId, month);
    if (nextCheckAt !== null && boughtCents - cents + amountCents <= ceilingCents)
      return postpone(Math.max(now, nextCheckAt) + LEASE_MS);
    const resumesAt = windowEnd("month", now);
    if (settings.ceilingNotifiedMonth < month) {
      await tx.run("update auto_top_up set ceiling_told = ? where account_id = ?", [
        month,
        accountId,
      ]);
      const data = {
        monthly_ceiling_usd: usdOfCents(ceilingCents),
        bought_this_month_usd: usdOfCents(boughtCents),
        resumes_at: new Date(resumesAt).toISOString(),
      };
      await emitEvent(tx, { type: "top_up.ceiling_reached", accountId, data, now });
    }
    return postpone(resumesAt);
  }
  const credits = creditsOfCents(amountCents);
  const invoice = await insertInvoice(tx, billingAct(accountId, now), credits);
  const id = newId("tup", now);
  await insertTopUp(tx, {
    id,
    accountId,
    invoiceId: invoice.id,
    methodId: method.id,
    amountCents,
    feeCents: priceOf(credits) - amountCents,
    createdAt: now,
    dueAt: now + LEASE_MS,
  });
  await postpone(null);
  return findTopUp(tx, id);
}

/** Leases the top-up: of several processes, the one that moves `due_at` runs it. */
async function claimTopUp({ db }: TopUpDeps, { id, dueAt }: TopUp, now: number): Promise<boolean> {
  const updated = await db.write((tx) =>
    tx.run("update top_up set due_at = ? where id = ? and due_at = ?", [now + LEASE_MS, id, dueAt]),
  );
  return updated === 1;
}

async function runTopUp(
  deps: TopUpDeps,
  topUp: TopUp,
  now: number,
  currentTime: () => number,
): Promise<void> {
  const paymentMethods = paymentMethodsOf(deps.processor);
  try {
    const method = await getMethod(deps.db, topUp.methodId);
    if (paymentMethods === undefined || method.processor !== deps.processor.id) {
      // The settings name another processor now, so the outcome of the charge cannot be found out.
      if (now - topUp.createdAt >= ABANDON_AFTER_MS)
        await recordChargeResult(deps, topUp, "lost", now);
      return;
    }
    const charge: ChargeRequest = {
      id: topUp.id,
      invoiceId: topUp.invoiceId,
      credits: creditsOfCents(topUp.amountCents),
      totalCents: topUp.amountCents + topUp.feeCents,
      customer: method.customer ?? "",
      method: method.ref ?? "",
      createdAt: topUp.createdAt,
      now,
    };
    const charged = await findOrCharge(
      paymentMethods,
      topUp,
      charge,
      () => currentTime() - now > LEASE_MS,
    );
    await recordChargeResult(deps, topUp, charged, now);
  } catch (cause) {
    const fields = { top_up: topUp.id, invoice: topUp.invoiceId, cause };
    deps.log.warn("top-up attempt failed and will be retried", fields);
  }
}

/** Throws while the outcome is unknown. `lost` if the processor does not know the charge after `ABANDON_AFTER_MS`. */
async function findOrCharge(
  paymentMethods: PaymentMethods,
  topUp: TopUp,
  charge: ChargeRequest,
  isLate: () => boolean,
): Promise<ChargeResult | "lost"> {
  const isFirst = charge.now === topUp.createdAt;
  const found = isFirst ? undefined : await paymentMethods.findCharge(charge);
  if (found !== undefined) return found;
  if (!topUp.isOpen) return "lost";
  // A stalled process has lost its lease. Another one may have charged and failed the top-up since, and the processor may
  // have forgotten the idempotency key.
  if (isLate()) throw new Error("the process stalled before the charge");
  try {
    return await paymentMethods.charge(charge);
  } catch (error) {
    if (charge.now - topUp.createdAt < ABANDON_AFTER_MS) throw error;
    return (await paymentMethods.findCharge(charge)) ?? "lost";
  }
}

async function recordChargeResult(
  deps: TopUpDeps,
  topUp: TopUp,
  result: ChargeResult | "lost",
  now: number,
): Promise<void> {
  const { db, processor } = deps;
  const fail = (reason: TopUpFailureReason): Promise<void> =>
    db.write((tx) => failTopUp(tx, topUp, { reason, now }));
  if (result === "lost" || result.state === "refused") {
    await db.write((tx) => stopPollingClosed(tx, topUp.id));
    if (result !== "lost" && result.reason === "processor_refused")
      deps.log.error("payment processor refused a top-up", {
        top_up: topUp.id,
        processor: processor.id,
        cause: result.cause,
      });
    await fail(result === "lost" ? "processor_unreachable" : result.reason);
    return;
  }
  await db.write((tx) => recordCharge(tx, topUp.id, { ref: result.ref, now }));
  // From now on it is polled like any payment, so refunds and disputes are found without webhooks.
  if (processor.kind === "hosted")
    await trackPayment(deps, processor, { invoiceId: topUp.invoiceId, ref: result.ref, now });
  await ingestFacts(deps, result.facts, now);
  if (result.state === "done" && (await findTopUp(db, topUp.id))?.isOpen === true)
    await fail("not_credited");
}

/** Runs before the facts are ingested, so that a crash cannot lose the payment's reference. */
async function recordCharge(
  tx: Tx,
  id: string,
  { ref, now }: { readonly ref: string; readonly now: number },
): Promise<void> {
  await tx.run("update top_up set ref = ? where id = ?", [ref, id]);
  await tx.run(
    "update top_up set state = 'processing', due_at = ? where id = ? and open_for is not null",
    [now + PROCESSING_POLL_MS, id],
  );
  await stopPollingClosed(tx, id);
}

/** An abandoned top-up is checked once more, and then no longer polled. */
async function stopPollingClosed(tx: Tx, id: string): Promise<void> {
  await tx.run("update top_up set due_at = null where id = ? and open_for is null", [id]);
}
