// Each thing that can be wrong is made wrong by hand, and must be found.

import {
  afterAll,
  beforeAll,
  beforeEach,
  describe,
  expect,
  test,
  setDefaultTimeout,
} from "bun:test";
import { setBudgets } from "../../src/ledger/budgets.ts";
import { deposit } from "../../src/ledger/ledger.ts";
import { verifyLedger } from "../../src/ledger/verify.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";
import { openAccount, startLedger, promoDeposit, usageRecord } from "./fixtures.ts";

// The first of these tests starts a PostgreSQL, on a machine that may be busy.
setDefaultTimeout(60_000);

const TABLES = [
  "account",
  "wallet",
  "spender",
  "api_key",
  "hold",
  "swept_hold",
  "transfer",
  "process",
  "usage_record",
];
const TRANSFER =
  "insert into transfer (id, account_id, from_account, to_account, amount, kind, ref, at) values";

const WRONG: readonly (readonly [what: string, sql: string, found: RegExp])[] = [
  [
    "a bucket that was changed by hand",
    "update wallet set promo = promo + 1",
    /buckets are not the sum of its transfers: account_id a, promo \d+, promo_transfers \d+/,
  ],
  [
    "a transfer that is gone",
    "delete from transfer where id = 'a.paid'",
    /buckets are not the sum/,
  ],
  [
    "money in an account that nobody has",
    `${TRANSFER} ('x', 'b', 'system:clearing', 'b:paid', 5, 'grant', 'x', 1)`,
    /no wallet's and not the house's: account b:paid, total 5/,
  ],
  [
    "a transfer to where it came from",
    `${TRANSFER} ('x', 'a', 'system:a', 'system:a', 5, 'grant', 'x', 1)`,
    /moves nothing, or less, or nowhere/,
  ],
  [
    "a transfer in the name of another account",
    "update transfer set account_id = 'b' where id = 'a.paid'",
    /touches the wallet of an account that it does not name/,
  ],
  [
    "the same transfer to two accounts",
    `${TRANSFER} ('a.paid', 'b', 'system:clearing', 'system:suspense', 5, 'grant', 'x', 1)`,
    /one transfer stands on the statements of several accounts: id a.paid, accounts 2/,
  ],
  [
    "more held than there is",
    "update wallet set held = 99999999",
    /below zero, or holds more than it has/,
  ],
  [
    "a held amount without a hold",
    "update wallet set held = held + 1",
    /held amount is not the sum of its holds/,
  ],
  [
    "a key that holds what nobody asked for",
    "update spender set held = held + 1 where key_id = 'k1'",
    /held amount or open calls are not those of its holds/,
  ],
  [
    "a call that is counted and not open",
    "update spender set open_calls = open_calls + 1 where key_id = 'k1'",
    /held amount or open calls/,
  ],
  [
    "a hold of a key that is not there",
    "update hold set key_id = 'k9'",
    /has no wallet, no key, or the key of another account/,
  ],
  [
    "a hold that was swept and is open",
    "insert into swept_hold (id, account_id, key_id, amount, swept_at, reason) values ('open', 'a', 'k1', 10, 1, 'x')",
    /open and swept at once/,
  ],
  [
    "a key that spent what was not charged",
    "update spender set total_spent = total_spent + 1 where key_id = 'k1'",
    /what a key has spent is not what its usage has charged/,
  ],
  [
    "a window that is larger than the time around it",
    "update spender set day_spent = total_spent + 1 where key_id = 'k1'",
    /more in a window/,
  ],
  [
    "a window of a key that has lost a charge",
    "update spender set day_spent = day_spent - 1 where key_id = 'k1'",
    /has spent in a window is not what its usage has charged since.*: key_id k1, day 989, day_charged 990, week 990,/,
  ],
  [
    "a budget's day that has lost a charge",
    "update wallet set day_spent = day_spent - 1",
    /counts against a budget is not what was charged since its window began: account_id a, day 989, day_charged 990/,
  ],
  [
    "a budget's month that counts what was not charged",
    "update wallet set month_spent = month_spent + 1",
    /counts against a budget is not what.* month 991, month_charged 990/,
  ],
  [
    "a budget below zero",
    "update wallet set month_budget = -1",
    /budget is below zero, or counts in no window/,
  ],
  [
    "a budget without a window",
    "update wallet set month_start = null",
    /budget is below zero, or counts in no window/,
  ],
  [
    "a record that costs more than was moved",
    "update usage_record set cost_nano = cost_nano + 1 where id = 'done'",
    /cost is not what was moved for it/,
  ],
  [
    "a record of own keys that was charged",
    "update usage_record set byok = 1 where id = 'done'",
    /cost is not what was moved/,
  ],
  [
    "a record of another account",
    "update usage_record set account_id = 'b' where id = 'done'",
    /cost is not what was moved/,
  ],
  [
    "usage without a record",
    "delete from usage_record where id = 'done'",
    /usage was moved without a usage record/,
  ],
  [
    "a second start",
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
  describe(`verify-ledger on ${kind}`, () => {
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

    test("a ledger that was only used as it should be has no problems", async () => {
      const { problems, checked, problemCount } = await verifyLedger(store.db);
      expect(problems).toEqual([]);
      expect(problemCount).toBe(0);
      expect(checked).toEqual({ wallets: 1, keys: 2, holds: 1, transfers: 6, usageRecords: 2 });
    });

    for (const [what, sql, found] of WRONG) {
      test(`finds ${what}`, async () => {
        await store.db.write((tx) => tx.run(sql));
        expect((await verifyLedger(store.db)).problems.join("\n")).toMatch(found);
      });
    }

    test("shows a hundred problems and counts them all", async () => {
      await store.db.write((tx) =>
        tx.insertMany(
          "wallet",
          ["account_id:text", "promo:bigint", "paid:bigint", "held:bigint"],
          Array.from({ length: 350 }, (_, place) => [`w${place}`, 2n ** 53n + 1n, 0, 0]),
        ),
      );
      const { problems, problemCount } = await verifyLedger(store.db);
      expect(problems).toHaveLength(100);
      expect(problems[0]).toContain("promo 9007199254740993");
      expect(problemCount).toBe(350);
    });
  });
});
