// Credits for breaches of service levels. It owns the table service_credit. A credit is promotional: it is spent first, and no refund
// returns it. Each is written once, with its transfer: the table is unique by account, level, model and window.

import { recordAuditEntry } from "../activity/audit.ts";
import { emitEvent } from "../activity/events.ts";
import { newId } from "../base/id.ts";
import {
  creditsOf,
  MAX_NANO,
  minNano,
  type Nano,
  toNano,
  usdOf,
  usdText,
} from "../base/money/money.ts";
import { maxId, type Page, type PageRequest, toPage } from "../base/pagination.ts";
import { timestamp } from "../http/schemas.ts";
import { findFreeze } from "../ledger/freezes.ts";
import { SYSTEM_ACCOUNTS } from "../ledger/ledger-rows.ts";
import { deposit } from "../ledger/ledger.ts";
import { lockBalance } from "../ledger/payments/adjustments.ts";
import { integer, type Reader, type Row, text, type Tx } from "../store/db.ts";
import type { Breach } from "./breach.ts";
import { type ServiceLevel, type Window, windowAt } from "./service-levels.ts";

export interface ServiceCredit {
  readonly id: string;
  readonly levelId: string;
  readonly model: string;
  readonly window: Window;
  readonly amount: Nano;
  readonly reason: string;
  readonly createdAt: number;
}

export interface BreachOfAccount extends Breach {
  readonly accountId: string;
}

/** Returns the amount; 0 if it was posted before, or nothing is left below the bounds. */
export async function postServiceCredit(
  tx: Tx,
  { level, window, breach, now }: PostRequest,
): Promise<Nano> {
  const { accountId, model, reason } = breach;
  const balance = await lockBalance(tx, accountId);
  const freeze = await findFreeze(tx, accountId);
  // A debt is paid by the credit; an account that is closing or that an operator froze gets none.
  if (freeze !== undefined && freeze.by !== "debt") return 0n;
  const amount = minNano(
    await boundOf(tx, { level, window, breach }),
    MAX_NANO - balance.promo - balance.paid,
  );
  if (amount <= 0n) return 0n;
  const id = newId("scr", now);
  await tx.run(
    `insert into service_credit (account_id, id, level_id, model, window_start, window_end, amount, reason, created_at)
     values (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    [accountId, id, level.id, model, window.start, window.end, amount, reason, now],
  );
  await deposit(tx, {
    id,
    accountId,
    bucket: "promo",
    from: SYSTEM_ACCOUNTS.promoExpense,
    amount,
    kind: "service_credit",
    ref: level.id,
    now,
    memo: reason,
  });
  await recordAuditEntry(tx, {
    accountId,
    actor: { type: "system", id: "service levels" },
    action: "service_credit.posted",
    target: id,
    detail: { usd: usdText(amount), service_level: level.id, reason },
    network: null,
    now,
  });
  const credit = { id, levelId: level.id, model, window, amount, reason, createdAt: now };
  const { object: _, created_at: __, id: service_credit_id, ...data } = toCreditRecord(credit);
  await emitEvent(tx, {
    type: "service_credit.posted",
    accountId,
    data: { service_credit_id, ...data },
    now,
  });
  return amount;
}

interface PostRequest {
  readonly level: ServiceLevel;
  readonly window: Window;
  readonly breach: BreachOfAccount;
  readonly now: number;
}

/**
 * The most that may be posted: nothing twice, over all levels no more than was paid in any window, and below the cap of the level. Windows
 * of hours, days and months nest, so what overlaps with a window is all that was credited for its calls.
 */
async function boundOf(tx: Tx, { level, window, breach }: Omit<PostRequest, "now">): Promise<Nano> {
  const { accountId, model, paid, amount } = breach;
  const month = windowAt("month", window.start);
  const row = await tx.get(
    `select cast(coalesce(sum(case when level_id = ? and model = ? and window_start = ? then 1 else 0 end), 0) as text) as posted,
       cast(coalesce(sum(case when model = ? and window_start < ? and window_end > ? then amount else 0 end), 0) as text) as overlapping,
       cast(coalesce(sum(case when level_id = ? then amount else 0 end), 0) as text) as of_level
     from service_credit where account_id = ? and window_start >= ? and window_start < ?`,
    [
      level.id,
      model,
      window.start,
      model,
      window.end,
      window.start,
      level.id,
      accountId,
      month.start,
      month.end,
    ],
  );
  if (toNano(row?.["posted"] ?? "0") > 0n) return 0n;
  const unpaid = paid - toNano(row?.["overlapping"] ?? "0");
  const unused = level.cap - toNano(row?.["of_level"] ?? "0");
  return minNano(amount, minNano(unpaid, unused));
}

export async function listServiceCredits(
  reader: Reader,
  accountId: string,
  { limit, cursor = maxId("scr") }: PageRequest,
): Promise<Page<ServiceCredit>> {
  const rows = await reader.all(
    "select * from service_credit where account_id = ? and id < ? order by id desc limit ?",
    [accountId, cursor, limit + 1],
  );
  return toPage(rows.map(toServiceCredit), limit);
}

export interface GivenCredits {
  readonly credits: number;
  readonly accounts: number;
  readonly amount: Nano;
}

/** What each level has cost, by its id. */
export async function readGivenCredits(reader: Reader): Promise<ReadonlyMap<string, GivenCredits>> {
  const rows = await reader.all(
    `select level_id, count(*) as credits, count(distinct account_id) as accounts, cast(sum(amount) as text) as amount
     from service_credit group by level_id`,
  );
  return new Map(
    rows.map((row) => [
      text(row, "level_id"),
      {
        credits: Number(row["credits"]),
        accounts: Number(row["accounts"]),
        amount: toNano(row["amount"]),
      },
    ]),
  );
}

export function toCreditRecord({
  id,
  levelId,
  model,
  window,
  amount,
  reason,
  createdAt,
}: ServiceCredit) {
  return {
    id,
    object: "service_credit" as const,
    created_at: timestamp(createdAt),
    service_level_id: levelId,
    model,
    window_start: timestamp(window.start),
    window_end: timestamp(window.end),
    usd: usdOf(amount),
    credits: creditsOf(amount),
    reason,
  };
}

function toServiceCredit(row: Row): ServiceCredit {
  return {
    id: text(row, "id"),
    levelId: text(row, "level_id"),
    model: text(row, "model"),
    window: { start: integer(row, "window_start"), end: integer(row, "window_end") },
    amount: toNano(row["amount"]),
    reason: text(row, "reason"),
    createdAt: integer(row, "created_at"),
  };
}
