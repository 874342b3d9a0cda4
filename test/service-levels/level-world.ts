// A store with a ledger, accounts that paid, and calls at chosen times: what service levels are evaluated on.

import { newId } from "../../src/base/id.ts";
import { HOUR_MS, MINUTE_MS } from "../../src/base/time.ts";
import { deposit, type Ledger } from "../../src/ledger/ledger.ts";
import { evaluateServiceLevels } from "../../src/service-levels/evaluate-levels.ts";
import {
  listServiceCredits,
  type ServiceCredit,
} from "../../src/service-levels/service-credits.ts";
import { addServiceLevel, type LevelTerms } from "../../src/service-levels/service-levels.ts";
import type { Db } from "../../src/store/db.ts";
import type { UsageRecord } from "../../src/usage/usage.ts";
import { openAccount, promoDeposit, startLedger, usageRecord } from "../ledger/fixtures.ts";
import { openStore, type StoreKind } from "../support/stores/stores.ts";

/** Levels are added then; the first windows of hours begin an hour later. */
export const START = Date.UTC(2026, 10, 20, 12);
export const FIRST_HOUR = START + HOUR_MS;
export const MODEL = "openai/gpt-5-mini";
export const USD = 1_000_000_000n;
export const OPERATOR_ACT = { operator: "ada@operator.example", network: null, now: START };

export const AVAILABILITY: LevelTerms = {
  model: MODEL,
  metric: "availability",
  target: 999_000,
  period: "hour",
  creditPercent: 10,
  cap: 100n * USD,
};

export interface LevelWorld {
  readonly db: Db;
  readonly ledger: Ledger<UsageRecord>;
  /** Without `promo`, all credit is paid. */
  readonly open: (account: string, promo?: bigint) => Promise<void>;
  /** Minutes after the first hour began. */
  readonly call: (account: string, minute: number, fields?: Partial<UsageRecord>) => Promise<void>;
  readonly calls: (
    count: number,
    account: string,
    fields?: Partial<UsageRecord>,
    minute?: number,
  ) => Promise<void>;
  readonly add: (terms: Partial<LevelTerms>, now?: number) => Promise<string>;
  /** Hours after the first window began; by then the windows of the first hour are due. */
  readonly evaluate: (hours?: number, db?: Db) => Promise<void>;
  readonly credits: (account: string) => Promise<readonly ServiceCredit[]>;
  readonly close: () => Promise<void>;
}

export const FAILED: Partial<UsageRecord> = {
  outcome: "upstream_error",
  status: 502,
  cost: 0n,
  attempts: [{ provider: "openai", model: MODEL, status: 502, ms: 5 }],
};

const QUIET = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

export async function openLevelWorld(kind: StoreKind): Promise<LevelWorld> {
  const store = await openStore(kind);
  const { db } = store;
  const ledger = await startLedger(db, "p", START);
  const call: LevelWorld["call"] = async (account, minute, fields = {}) => {
    const at = FIRST_HOUR + minute * MINUTE_MS;
    const [id, keyId, cost] = [newId("req", at), `${account} key`, fields.cost ?? USD / 100n];
    await ledger.hold({ id, accountId: account, keyId, amount: cost, now: at, expiresAt: at + 1 });
    const attempts = [{ provider: "openai", model: MODEL, status: 200, ms: 12 }];
    const about = { provider: "openai", model: MODEL, attempts, ...fields };
    const record = usageRecord({ id, accountId: account, keyId, createdAt: at, ...about, cost });
    const charged = record.byok ? 0n : cost;
    await ledger.settle({ id, accountId: account, keyId, cost: charged, now: at, record });
  };
  return {
    db,
    ledger,
    call,
    calls: async (count, account, fields, minute = 10) => {
      await Promise.all(Array.from({ length: count }, () => call(account, minute, fields)));
    },
    open: (account, promo = 0n) =>
      db.write(async (tx) => {
        await openAccount(tx, account, [`${account} key`], START);
        if (promo > 0n) await deposit(tx, promoDeposit(`start.${account}`, account, promo, START));
        const paid = promoDeposit(`buy.${account}`, account, 1_000n * USD, START);
        const from = "system:adjustment";
        await deposit(tx, { ...paid, bucket: "paid", from, kind: "adjustment" });
      }),
    add: (terms, now = START) =>
      db.write((tx) =>
        addServiceLevel(tx, { ...OPERATOR_ACT, now }, { ...AVAILABILITY, ...terms }),
      ),
    evaluate: (hours = 3, on = db) =>
      evaluateServiceLevels({ db: on, log: QUIET }, FIRST_HOUR + hours * HOUR_MS),
    credits: async (account) => (await listServiceCredits(db, account, { limit: 100 })).data,
    close: store.close,
  };
}
