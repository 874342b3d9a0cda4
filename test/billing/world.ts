// Billing without a gateway around it: a store, the till as the house builds it, and accounts with a key that can spend.

import { openCashier } from "../../src/cashier.ts";
import { readConfig } from "../../src/config.ts";
import { createLog } from "../../src/base/log.ts";
import { secret } from "../../src/base/secret.ts";
import { createInvoice, type Invoice } from "../../src/billing/billing.ts";
import type { Till } from "../../src/billing/till.ts";
import type { Clock } from "../../src/clocks.ts";
import { createLedger, type Ledger, startEpoch } from "../../src/ledger/ledger.ts";
import type { Db } from "../../src/store/db.ts";
import { type UsageRecord, writeUsage } from "../../src/usage/usage.ts";
import { openAccount, usageRecord } from "../ledger/record.ts";

export interface Shop {
  readonly db: Db;
  readonly till: Till;
  readonly poll: Clock[1];
  readonly ledger: Ledger<UsageRecord>;
  readonly clock: { now: number };
  readonly logged: string[];
  readonly newAccount: () => Promise<string>;
  readonly newInvoice: (accountId: string, amountCents: number) => Promise<Invoice>;
  /** Spends of a balance, or holds it and answers how to let go. */
  readonly spend: (accountId: string, amount: bigint) => Promise<void>;
  readonly hold: (accountId: string, amount: bigint) => Promise<() => Promise<unknown>>;
}

let names = 0;

export async function openShop(db: Db, env: Readonly<Record<string, string>> = {}): Promise<Shop> {
  const read = readConfig({ env, hostName: "test", providers: [] });
  if (!read.ok) throw new Error(read.mistakes.join("; "));
  const clock = { now: Date.now() };
  const logged: string[] = [];
  const log = createLog({
    level: "debug",
    readable: false,
    now: () => clock.now,
    write: (line) => logged.push(line),
  });
  const master = secret("a master secret that only these tests know");
  const { till, cashClocks } = await openCashier(read.config, {
    db,
    log,
    master,
    now: () => clock.now,
  });
  const name = `shop.${(names += 1)}`;
  const epoch = await startEpoch(db, name, clock.now);
  const ledger = createLedger<UsageRecord>({ db, process: name, epoch, writeRecords: writeUsage });
  const about = (accountId: string) => ({
    id: `req.${(names += 1)}`,
    accountId,
    keyId: `${accountId}.k`,
    now: clock.now,
  });
  const hold: Shop["hold"] = async (accountId, amount) => {
    const call = about(accountId);
    const held = await ledger.hold({ ...call, amount, expiresAt: clock.now + 1_000_000_000 });
    if (held.status !== "held") return async () => {};
    return () => ledger.settle({ ...call, cost: 0n });
  };
  const spend: Shop["spend"] = async (accountId, amount) => {
    const call = about(accountId);
    const held = await ledger.hold({ ...call, amount, expiresAt: clock.now + 1_000_000 });
    if (held.status !== "held") return;
    const record = usageRecord({ ...call, cost: amount, createdAt: clock.now });
    await ledger.settle({ ...call, cost: amount, record });
  };
  return {
    db,
    till,
    poll: cashClocks[0]?.[1] ?? (async () => {}),
    ledger,
    clock,
    logged,
    newAccount: async () => {
      const id = `acct.${(names += 1)}`;
      await db.write((tx) => openAccount(tx, id, [`${id}.k`], clock.now));
      return id;
    },
    newInvoice: (accountId, amountCents) =>
      db.write((tx) => createInvoice(tx, { accountId, amountCents, now: clock.now })),
    spend,
    hold,
  };
}
