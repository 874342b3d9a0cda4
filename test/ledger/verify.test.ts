// Corrupts the ledger in every way that a check covers; each corruption must be reported.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { deposit } from "../../src/ledger/ledger.ts";
import { setBudgets } from "../../src/ledger/wallet-budgets.ts";
import { verifyLedger } from "../../src/verification/verify.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";
import { LEDGER_TABLES, openAccount, startLedger, promoDeposit, usageRecord } from "./fixtures.ts";

const TABLES = ["account", ...LEDGER_TABLES, "usage_pending"];
const TRANSFER =
  "insert into transfer (id, account_id, from_account, to_account, amount, kind, ref, at) values";

const RECORD_COLUMNS =
  "key_id, created_at, day, model, provider, api, stream, outcome, status, input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens, cost_nano, byok, exact, latency_ms, detail, promo_nano, paid_nano, overrun_nano, charged_at";
// On Citus, a row of another account is another row: it may be on another node.
const TRANSFER_OF_B = `insert into transfer (id, account_id, from_account, to_account, amount, kind, ref, at)
  select id, 'b', from_account, to_account, amount, kind, ref, at from transfer where id = 'a.paid'`;
const USAGE_OF_B = `insert into usage_record (id, account_id, ${RECORD_COLUMNS})
  select id, 'b', ${RECORD_COLUMNS} from usage_record where id = 'done'`;

const CORRUPTIONS: readonly (readonly [corruption: string, sql: string, problem: RegExp])[] = [
  [
    "a changed bucket",
    "update wallet set promo = promo + 1",
    /balance does not match its transfers: account_id a, promo \d+, promo_transfers \d+/,
  ],
  [
    "a deleted transfer",
    "delete from transfer where id = 'a.paid'",
    /balance does not match its transfers/,
  ],
  [
    "money of an account without a wallet",
    `${TRANSFER} ('x', 'b', 'system:clearing', 'b:paid', 5, 'grant', 'x', 1)`,
    /belongs neither to a wallet nor to the system: account b:paid, total 5/,
  ],
  [
    "a transfer with the same account on both sides",
    `${TRANSFER} ('x', 'a', 'system:a', 'system:a', 5, 'grant', 'x', 1)`,
    /no positive amount, or the same account on both sides/,
  ],
  [
    "a transfer under another account's id",
    `${TRANSFER_OF_B}; delete from transfer where id = 'a.paid' and account_id = 'a'`,
    /changes the wallet of another account/,
  ],
  [
    "one transfer id in two accounts",
    `${TRANSFER} ('a.paid', 'b', 'system:clearing', 'system:suspense', 5, 'grant', 'x', 1)`,
    /transfer id is used by several accounts: id a.paid, accounts 2/,
  ],
  [
    "a wallet that holds far more than its balance",
    "update wallet set held = 99999999",
    /negative or holds more than its balance/,
  ],
  [
    "a wallet that holds one nano-USD more than its balance",
    "update wallet set held = promo + paid + 1",
    /negative or holds more than its balance: account_id a, promo 0, paid 10, held 11/,
  ],
  [
    "a held amount without a hold",
    "update wallet set held = held + 1",
    /wallet's held amount does not match its holds/,
  ],
  [
    "a key's held amount without a hold",
    "update spender set held = held + 1 where key_id = 'k1'",
    /key's held amount or open calls do not match its holds/,
  ],
  [
    "an open call without a hold",
    "update spender set open_calls = open_calls + 1 where key_id = 'k1'",
    /held amount or open calls/,
  ],
  [
    "a hold of an unknown key",
    "update hold set key_id = 'k9'",
    /has no wallet, no key, or the key of another account/,
  ],
  [
    "a hold that is both open and swept",
    "insert into swept_hold (id, account_id, key_id, amount, swept_at, reason) values ('open', 'a', 'k1', 10, 1, 'x')",
    /both open and swept/,
  ],
  [
    "spend of a key without a charge",
    "update spender set total_spent = total_spent + 1 where key_id = 'k1'",
    /key's spend does not match its charged usage/,
  ],
  [
    "a day with more spend than its week",
    "update spender set day_spent = total_spent + 1 where key_id = 'k1'",
    /exceeds its spend in a longer one/,
  ],
  [
    "a key's window that misses a charge",
    "update spender set day_spent = day_spent - 1 where key_id = 'k1'",
    /spend in a window does not match the usage charged since its start: key_id k1, day 1499, day_charged 1500, week 1500,/,
  ],
  [
    "a budget's day that misses a charge",
    "update wallet set day_spent = day_spent - 1",
    /budget's spend does not match the usage charged since its window started: account_id a, day 1499, day_charged 1500/,
  ],
  [
    "a budget's month with spend that was not charged",
    "update wallet set month_spent = month_spent + 1",
    /budget's spend does not match.* month 1501, month_charged 1500/,
  ],
  [
    "a negative budget",
    "update wallet set month_budget = -1",
    /budget is negative or has no window/,
  ],
  [
    "a budget without a window",
    "update wallet set month_start = null",
    /budget is negative or has no window/,
  ],
  [
    "a usage record with a cost above its transfers",
    "update usage_record set cost_nano = cost_nano + 1 where id = 'done'",
    /cost does not match its transfers/,
  ],
  [
    "a charged usage record of a caller's provider key",
    "update usage_record set byok = 1 where id = 'done'",
    /cost does not match its transfers/,
  ],
  [
    "a usage record under another account",
    `${USAGE_OF_B}; delete from usage_record where id = 'done' and account_id = 'a'`,
    /belongs neither to a wallet nor to the system: account b:promo/,
  ],
  [
    "a deleted usage record",
    "delete from usage_record where id = 'done'",
    /balance does not match its transfers/,
  ],
  [
    "a usage record that was charged from another bucket",
    "update usage_record set promo_nano = promo_nano - 1, paid_nano = paid_nano + 1 where id = 'done'",
    /balance does not match its transfers: account_id a, promo 0, promo_transfers 1/,
  ],
  [
    "a wallet that does not owe what a call cost beyond its credits",
    "update wallet set owed = 0",
    /account's debt does not match its transfers: account_id a, owed 0, transfers 510/,
  ],
  [
    "a usage record with a lower charge than its cost",
    "update usage_record set overrun_nano = overrun_nano - 1 where id = 'over'",
    /cost does not match its transfers: id over, account_id a, cost 900, byok 0, transfers 899/,
  ],
  [
    "a usage record with a negative charge",
    "update usage_record set promo_nano = -1 where id = 'done'",
    /transfer has no positive amount/,
  ],
  [
    "a usage record without its charge",
    "update usage_record set promo_nano = null, paid_nano = null, overrun_nano = null, charged_at = null where id = 'done'",
    /cost does not match its transfers: id done, account_id a, cost 600, byok 0, transfers 0/,
  ],
  [
    "a usage record that was charged a second time by a transfer",
    `${TRANSFER} ('done.promo', 'a', 'a:promo', 'system:usage_revenue', 5, 'usage', 'done', 1)`,
    /cost does not match its transfers: id done, account_id a, cost 600, byok 0, transfers 605/,
  ],
  [
    "usage without a usage record",
    `${TRANSFER} ('gone.promo', 'a', 'a:promo', 'system:usage_revenue', 5, 'usage', 'gone', 1)`,
    /usage transfer has no usage record/,
  ],
  [
    "one usage record id in two accounts",
    USAGE_OF_B,
    /transfer id is used by several accounts: id done, accounts 2/,
  ],
  [
    "a second starting grant",
    `${TRANSFER} ('start.a2', 'a', 'system:promo_expense', 'a:promo', 5, 'grant', 'starting credit', 1), ('start.a3', 'a', 'system:promo_expense', 'a:promo', 5, 'grant', 'starting credit', 1)`,
    /more than one starting grant/,
  ],
  [
    "an account without a wallet",
    "insert into account (id, created_at, created_from) values ('c', 1, 'x')",
    /account has no wallet/,
  ],
];

describeEachStore((kind, open) => {
  describe(`verifyLedger on ${kind}`, () => {
    let store: TestStore;
    beforeAll(async () => {
      store = await open();
    });
    afterAll(() => store.close());
    beforeEach(async () => {
      const { db } = store;
      await db.write(async (tx) => {
        for (const table of TABLES) await tx.run(`delete from ${table}`);
        await openAccount(tx, "a", ["k1", "k2"], 1);
        await deposit(tx, promoDeposit("a.promo", "a", 500n, 1));
        await deposit(tx, { ...promoDeposit("a.paid", "a", 500n, 1), bucket: "paid" });
        await setBudgets(tx, "a", { day: 2_000n }, 1);
      });
      const ledger = await startLedger(db, "p", 1);
      const owner = { accountId: "a", keyId: "k1", now: 1 };
      for (const [id, amount] of [
        ["open", 10n],
        ["done", 600n],
        ["over", 5n],
      ] as const)
        await ledger.hold({ ...owner, id, amount, expiresAt: 100 });
      for (const [id, cost] of [
        ["done", 600n],
        ["over", 900n],
      ] as const)
        await ledger.settle({
          ...owner,
          id,
          cost,
          record: usageRecord({ id, accountId: "a", keyId: "k1", cost, createdAt: 1 }),
        });
    });

    test("reports no problems for an intact ledger", async () => {
      const { problems, checked, problemCount } = await verifyLedger(store.db);
      expect(problems).toEqual([]);
      expect(problemCount).toBe(0);
      expect(checked).toEqual({ wallets: 1, keys: 2, holds: 1, transfers: 6, usageRecords: 2 });
    });

    for (const [corruption, sql, problem] of CORRUPTIONS) {
      test(`reports ${corruption}`, async () => {
        await store.db.write(async (tx) => {
          for (const statement of sql.split(";")) await tx.run(statement);
        });
        expect((await verifyLedger(store.db)).problems.join("\n")).toMatch(problem);
      });
    }

    test("lists 100 problems and counts all of them", async () => {
      await store.db.write((tx) =>
        tx.insertMany(
          "wallet",
          ["account_id:text", "promo:bigint", "paid:bigint", "held:bigint"],
          Array.from({ length: 350 }, (_, index) => [`w${index}`, 2n ** 53n + 1n, 0, 0]),
        ),
      );
      const { problems, problemCount } = await verifyLedger(store.db);
      expect(problems).toHaveLength(100);
      expect(problems[0]).toContain("promo 9007199254740993");
      expect(problemCount).toBe(350);
    });
  });
});
