// Minimal usage records, accounts and ledgers.

import { insertKeySpend } from "../../src/ledger/ledger-rows.ts";
import {
  createLedger,
  type Deposit,
  type Ledger,
  type LedgerDeps,
  openWallet,
  startEpoch,
} from "../../src/ledger/ledger.ts";
import { sweepHolds } from "../../src/ledger/sweep.ts";
import { type Db, integer, text, type Tx } from "../../src/store/db.ts";
import { insertUsage } from "../../src/usage/insert-usage.ts";
import type { UsageRecord } from "../../src/usage/usage.ts";

/** Written by the ledger, with the keys and records of its operations. */
export const LEDGER_TABLES = [
  "wallet",
  "spender",
  "api_key",
  "hold",
  "swept_hold",
  "agent_session",
  "transfer",
  "process",
  "usage_record",
] as const;

export function usageRecord(
  fields: Pick<UsageRecord, "id" | "accountId" | "keyId" | "cost" | "createdAt"> &
    Partial<UsageRecord>,
): UsageRecord {
  return {
    model: "sim/steady",
    provider: "sim",
    api: "chat",
    stream: false,
    outcome: "completed",
    status: 200,
    inputTokens: 10,
    cacheReadTokens: 0,
    cacheWriteTokens: 0,
    outputTokens: 5,
    reasoningTokens: 0,
    price: [],
    attempts: [],
    byok: false,
    exact: true,
    latencyMs: 12,
    firstTokenMs: null,
    labels: [],
    ...fields,
  };
}

export function promoDeposit(id: string, accountId: string, amount: bigint, now: number): Deposit {
  return {
    id,
    accountId,
    bucket: "promo",
    from: "system:promo_expense",
    amount,
    kind: "grant",
    ref: "test",
    now,
  };
}

/** All transfers as a table expression: rows, and those that are columns of usage records. */
export const ALL_TRANSFERS = `(
  select account_id, id, from_account, to_account, amount, kind, ref, at from transfer
  union all
  select account_id, id || '.promo', account_id || ':promo', 'system:usage_revenue', promo_nano, 'usage', id, charged_at
  from usage_record where promo_nano > 0
  union all
  select account_id, id || '.paid', account_id || ':paid', 'system:usage_revenue', paid_nano, 'usage', id, charged_at
  from usage_record where paid_nano > 0
  union all
  select account_id, id || '.overrun', 'system:receivable', 'system:usage_revenue', overrun_nano, 'usage', id, charged_at
  from usage_record where overrun_nano > 0) as transfer`;

/** Creates a wallet with keys that have no limit. */
export async function openAccount(
  tx: Tx,
  accountId: string,
  keyIds: readonly string[],
  now: number,
): Promise<void> {
  await openWallet(tx, accountId);
  for (const keyId of keyIds) {
    await tx.run(
      "insert into api_key (id, account_id, hash, prefix, last4, created_at) values (?, ?, ?, 'pst', '0000', ?)",
      [keyId, accountId, `hash of ${keyId}`, now],
    );
    await insertKeySpend(tx, keyId, accountId, now);
  }
}

/** Starts the ledger of a process; `deps` can replace its store, for example. */
export async function startLedger(
  db: Db,
  name: string,
  now: number,
  deps: Partial<LedgerDeps<UsageRecord>> = {},
): Promise<Ledger<UsageRecord>> {
  const epoch = await startEpoch(db, name, now);
  return createLedger({
    db,
    process: name,
    epoch,
    writeRecords: insertUsage,
    isWrittenAtOnce: () => deps.writeRecords === undefined,
    ...deps,
  });
}

/** What a process does that has seen no heartbeat of the others for 30 s. Sweeps nothing if a heartbeat arrives in between. */
export async function sweepAsDead(db: Db, now: number): Promise<number> {
  const rows = await db.all("select name, epoch, seen_at from process");
  const dead = rows.map((row) => ({
    name: text(row, "name"),
    epoch: integer(row, "epoch"),
    seenAt: integer(row, "seen_at"),
  }));
  return sweepHolds(db, now, dead);
}
