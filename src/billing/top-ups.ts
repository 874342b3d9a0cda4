// Attempts to buy credits by themselves. An attempt and its invoice are written before anything is charged, and the
// processor is told the attempt's id: whatever crashes where, the same attempt is charged once, and an account has one
// attempt at a time, however many processes look after it.

import { newId } from "../base/id.ts";
import { monthStart, windowEnd } from "../base/window.ts";
import { findFreeze } from "../ledger/freezes.ts";
import { getWallet } from "../ledger/ledger.ts";
import { text, type Tx } from "../store/db.ts";
import { stop } from "./auto-top-up.ts";
import { insertInvoice } from "./billing.ts";
import { feeOf, nanoOfCents } from "./cents.ts";
import { enter, type TillParts, watchPayment } from "./checkouts.ts";
import { findMethod, getMethod } from "./method-rows.ts";
import { type Charge, type Charged, type Processor, type Vault, vaultOf } from "./processor.ts";
import { endFailed, type FailReason } from "./top-up-end.ts";
import {
  findOpenTopUp,
  findTopUp,
  givenUpTopUps,
  insertTopUp,
  lockAutoTopUp,
  setDue,
  sumTopUps,
  toTopUp,
  type TopUp,
} from "./top-up-rows.ts";

const AT_ONCE = 20;
/** So long an attempt belongs to the process that took it; then another may ask again. */
const LEASE_MS = 60_000;
const PROCESSING_LOOK_MS = 10 * 60_000;
/** After so long without an answer, a charge that the processor does not know is given up. */
const GIVE_UP_MS = 30 * 60_000;
/** A workspace that owes something, or that an operator froze, is not topped up; it is asked after again. */
const FROZEN_WAIT_MS = 60 * 60_000;
const SWEPT_AT_ONCE = 500;

export interface TopUpParts extends TillParts {
  readonly processor: Processor;
  /** What time it is by now, while a turn goes on. */
  readonly clock: () => number;
}

/** One turn of the clock: begins what is due, and goes on with what was begun and not heard of. */
export async function turnTopUps(parts: TopUpParts, now: number): Promise<void> {
  const { db } = parts;
  const due = await db.all(
    "select account_id from auto_top_up where due_at <= ? order by due_at limit ?",
    [now, AT_ONCE],
  );
  const begun: TopUp[] = [];
  for (const row of due) {
    const topUp = await beginOrWait(parts, text(row, "account_id"), now);
    if (topUp !== undefined) begun.push(topUp);
  }
  const known = await db.all("select * from top_up where due_at <= ? order by due_at limit ?", [
    now,
    AT_ONCE,
  ]);
  const taken: TopUp[] = [];
  for (const topUp of known.map(toTopUp)) if (await take(parts, topUp, now)) taken.push(topUp);
  await Promise.all([...begun, ...taken].map((topUp) => carryOut(parts, topUp, now)));
}

/** Finds balances that are below their threshold without a charge having said so: a new month, a crash, a refund. */
export async function sweepTopUps({ db }: Pick<TopUpParts, "db">, now: number): Promise<void> {
  const rows = await db.all(
    `select auto_top_up.account_id from auto_top_up join wallet on wallet.account_id = auto_top_up.account_id
     where auto_top_up.status = 'on' and auto_top_up.due_at is null and wallet.promo + wallet.paid < wallet.top_up_at
       and not exists (select 1 from top_up where top_up.open_for = auto_top_up.account_id)
     order by auto_top_up.account_id limit ?`,
    [SWEPT_AT_ONCE],
  );
  for (const row of rows)
    await db.write((tx) =>
      tx.run(
        "update auto_top_up set due_at = ? where account_id = ? and status = 'on' and due_at is null",
        [now, text(row, "account_id")],
      ),
    );
}

/** What fails for one account must not hold up the others. */
async function beginOrWait(
  parts: TopUpParts,
  accountId: string,
  now: number,
): Promise<TopUp | undefined> {
  try {
    return await parts.db.write((tx) => begin(tx, parts, accountId, now));
  } catch (cause) {
    parts.log.error("a top-up could not be begun", { account: accountId, cause });
    await parts.db.write((tx) => setDue(tx, accountId, now + LEASE_MS));
    return undefined;
  }
}

/** Decides under the lock of what the owner allowed, so that of many who look only one begins. */
async function begin(
  tx: Tx,
  { processor, onTopUp: tell }: TopUpParts,
  accountId: string,
  now: number,
): Promise<TopUp | undefined> {
  const known = await lockAutoTopUp(tx, accountId);
  if (known?.status !== "on" || known.dueAt === null || known.dueAt > now) return undefined;
  const wait = async (until: number | null): Promise<undefined> => {
    await setDue(tx, accountId, until);
  };
  // Its end looks at the balance again.
  if ((await findOpenTopUp(tx, accountId)) !== undefined) return wait(null);
  const { promo, paid } = await getWallet(tx, accountId);
  if (promo + paid >= nanoOfCents(known.thresholdCents)) return wait(null);
  if ((await findFreeze(tx, accountId)) !== undefined) return wait(now + FROZEN_WAIT_MS);
  const method = await findMethod(tx, accountId);
  if (method === undefined || method.processor !== processor.id) {
    await stop(tx, accountId, { reason: "no_payment_method", now, tell });
    return undefined;
  }
  const month = monthStart(now);
  const boughtCents = await sumTopUps(tx, accountId, month);
  const { amountCents, ceilingCents } = known;
  if (boughtCents + amountCents > ceilingCents) {
    // What was given up takes its room for as long as nobody knows what became of it, and not for the month.
    const { cents, nextLookAt } = await givenUpTopUps(tx, accountId, month);
    if (nextLookAt !== null && boughtCents - cents + amountCents <= ceilingCents)
      return wait(Math.max(now, nextLookAt) + LEASE_MS);
    const resumesAt = windowEnd("month", now);
    if (known.ceilingTold < month) {
      await tx.run("update auto_top_up set ceiling_told = ? where account_id = ?", [
        month,
        accountId,
      ]);
      const about = { accountId, ceilingCents, boughtCents, resumesAt };
      await tell?.(tx, { kind: "ceiling_reached", ...about }, now);
    }
    return wait(resumesAt);
  }
  const invoice = await insertInvoice(tx, { accountId, amountCents, now });
  const id = newId("tup", now);
  await insertTopUp(tx, {
    id,
    accountId,
    invoiceId: invoice.id,
    methodId: method.id,
    amountCents,
    feeCents: feeOf(amountCents),
    createdAt: now,
    dueAt: now + LEASE_MS,
  });
  await wait(null);
  return findTopUp(tx, id);
}

/** Another process may be at it: who moves the time on does the work. */
async function take({ db }: TopUpParts, { id, dueAt }: TopUp, now: number): Promise<boolean> {
  const moved = await db.write((tx) =>
    tx.run("update top_up set due_at = ? where id = ? and due_at = ?", [now + LEASE_MS, id, dueAt]),
  );
  return moved === 1;
}

async function carryOut(parts: TopUpParts, topUp: TopUp, now: number): Promise<void> {
  const vault = vaultOf(parts.processor);
  const about = { top_up: topUp.id, invoice: topUp.invoiceId };
  try {
    const method = await getMethod(parts.db, topUp.methodId);
    if (vault === undefined || method.processor !== parts.processor.id) {
      // With another processor than the one that was asked, nobody here can say what became of it.
      if (now - topUp.createdAt >= GIVE_UP_MS) await conclude(parts, topUp, "lost", now);
      return;
    }
    const charge: Charge = {
      id: topUp.id,
      invoiceId: topUp.invoiceId,
      amountCents: topUp.amountCents,
      feeCents: topUp.feeCents,
      customer: method.customer ?? "",
      method: method.ref ?? "",
      createdAt: topUp.createdAt,
      now,
    };
    const charged = await ask(vault, topUp, charge, () => parts.clock() - now > LEASE_MS);
    await conclude(parts, topUp, charged, now);
  } catch (cause) {
    parts.log.warn("a top-up could not be carried out, and is tried again", { ...about, cause });
  }
}

/** Throws while nobody knows; `lost` where it is certain enough that nothing was charged. */
async function ask(
  vault: Vault,
  topUp: TopUp,
  charge: Charge,
  isLate: () => boolean,
): Promise<Charged | "lost"> {
  const isFirst = charge.now === topUp.createdAt;
  const found = isFirst ? undefined : await vault.find(charge);
  if (found !== undefined) return found;
  if (!topUp.isOpen) return "lost";
  // A process that stood still has lost its lease: another may have charged, given up, and the key may be forgotten.
  if (isLate()) throw new Error("the process stood still before the charge");
  try {
    return await vault.charge(charge);
  } catch (error) {
    if (charge.now - topUp.createdAt < GIVE_UP_MS) throw error;
    return (await vault.find(charge)) ?? "lost";
  }
}

async function conclude(
  parts: TopUpParts,
  topUp: TopUp,
  charged: Charged | "lost",
  now: number,
): Promise<void> {
  const { db, processor } = parts;
  const fail = (reason: FailReason): Promise<void> =>
    db.write((tx) => endFailed(tx, topUp, { reason, now, tell: parts.onTopUp }));
  if (charged === "lost" || charged.state === "refused") {
    await db.write((tx) => forgetClosed(tx, topUp.id));
    await fail(charged === "lost" ? "processor_unreachable" : charged.reason);
    return;
  }
  await db.write((tx) => noteCharged(tx, topUp.id, { ref: charged.ref, now }));
  // From here on it is asked after like any payment: refunds and disputes are found even if no webhook comes.
  if (processor.kind === "hosted")
    await watchPayment(parts, processor, { invoiceId: topUp.invoiceId, ref: charged.ref, now });
  await enter(parts, charged.facts, now);
  if (charged.state === "done" && (await findTopUp(db, topUp.id))?.isOpen === true)
    await fail("not_credited");
}

/** Before the processor's answer is entered: the payment's name must not get lost. */
async function noteCharged(
  tx: Tx,
  id: string,
  { ref, now }: { readonly ref: string; readonly now: number },
): Promise<void> {
  await tx.run("update top_up set ref = ? where id = ?", [ref, id]);
  await tx.run(
    "update top_up set state = 'processing', due_at = ? where id = ? and open_for is not null",
    [now + PROCESSING_LOOK_MS, id],
  );
  await forgetClosed(tx, id);
}

/** An attempt that was given up is looked for once more, and then no more. */
async function forgetClosed(tx: Tx, id: string): Promise<void> {
  await tx.run("update top_up set due_at = null where id = ? and open_for is null", [id]);
}
