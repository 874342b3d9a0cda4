// Compares the report with plain sums over all transfers and usage records after random histories.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { newId } from "../../src/base/id.ts";
import { usdText } from "../../src/base/money/money.ts";
import { DAY_MS, utcDay } from "../../src/base/time.ts";
import type { Invoice } from "../../src/billing/invoices/invoices.ts";
import { markPaid, markRefunded } from "../../src/billing/payments/manual-payments.ts";
import { applyFact } from "../../src/billing/payments/payment-facts.ts";
import type { PaymentFact } from "../../src/billing/payments/payment-processor.ts";
import { grant } from "../../src/ledger/ledger.ts";
import {
  writeOffAccountDebt,
  COMMAND_LINE_ACTOR,
  adjustBalance,
  grantCredit,
  parseUsd,
} from "../../src/operator/accounts/account-actions.ts";
import { reportJson, reportText } from "../../src/operator/report/report-output.ts";
import type { Db, Reader, Value } from "../../src/store/db.ts";
import { insertUsage } from "../../src/usage/insert-usage.ts";
import { FIRST_CALL_ID, LAST_CALL_ID } from "../../src/verification/checkpoint.ts";
import type { Period } from "../../src/verification/provider-costs.ts";
import { parsePeriod, wholeHours } from "../../src/verification/report-period.ts";
import { profitByDay, profitOf, readReport, type Report } from "../../src/verification/report.ts";
import { readTransferSums, type TransferSum } from "../../src/verification/transfer-sums.ts";
import { expectLedgerValid, readWallet } from "../billing/fixtures.ts";
import { createBillingHarness, type BillingHarness } from "../billing/harness.ts";
import { ALL_TRANSFERS, usageRecord } from "../ledger/fixtures.ts";
import { TEST_ACTOR } from "../support/act.ts";
import { type RandomInt, TEST_SEED, createRandom } from "../support/random.ts";
import { openStore, type StoreKind, type TestStore } from "../support/stores/stores.ts";

const KINDS: readonly StoreKind[] = ["sqlite", "postgres"];
const ACCOUNTS = 30;
const STEPS = 12;

interface TransferRow {
  readonly accountId: string;
  readonly id: string;
  readonly from: string;
  readonly to: string;
  readonly kind: string;
  readonly amount: bigint;
  readonly at: number;
}

describe.each(KINDS)("report on %s", (kind) => {
  let store: TestStore;
  let harness: BillingHarness;
  let startedAt: number;
  let reports: readonly Report[];
  let transfers: readonly TransferRow[];
  let sums: readonly TransferSum[];

  beforeAll(async () => {
    ownCalls = 0;
    store = await openStore(kind);
    harness = await createBillingHarness(store.db);
    startedAt = harness.clock.now;
    const random = createRandom(TEST_SEED);
    const accounts = [];
    for (let count = 0; count < ACCOUNTS; count++) accounts.push(await harness.newAccount());
    for (let step = 0; step < STEPS; step++) {
      harness.clock.now += DAY_MS / 2;
      for (const account of accounts) await randomStep(harness, account, random);
    }
    // Random histories may lack an overrun or a debt, so two new accounts have them.
    const writtenOff = await harness.newAccount();
    const owing = await harness.newAccount();
    await purchase(harness, writtenOff, { cents: 100, back: 0, kind: "refunded" });
    await call(harness, writtenOff, () => 0, 10n ** 12n);
    for (const account of [writtenOff, owing])
      await purchase(harness, account, { cents: 500, back: 525, kind: "disputed" });
    const { now } = harness.clock;
    // A grant pays what a call cost beyond the credits.
    const paying = await harness.newAccount();
    const give = (id: string, amount: bigint) =>
      store.db.write((tx) => grant(tx, { id, accountId: paying, amount, now, reason: "test" }));
    await give("grant.hold", 1n);
    await call(harness, paying, () => 0, 10n ** 12n);
    await give("grant.debt", 1_000n);
    await store.db.write((tx) =>
      writeOffAccountDebt(tx, {
        accountId: writtenOff,
        by: COMMAND_LINE_ACTOR,
        reason: "lost",
        network: null,
        now,
        id: "x",
      }),
    );
    transfers = await readTransfers(store.db);
    sums = await store.db.snapshot(readTransferSums);
    reports = await Promise.all(
      periods().map((period) =>
        store.db.snapshot(async (reader) =>
          readReport(reader, period, await readTransferSums(reader)),
        ),
      ),
    );
  });
  afterAll(() => store.close());

  const periods = (): readonly Period[] => [
    { from: 0, to: harness.clock.now + 1 },
    wholeHours({ from: startedAt + 2 * DAY_MS, to: startedAt + 4 * DAY_MS }),
    wholeHours({ from: harness.clock.now + DAY_MS, to: harness.clock.now + 2 * DAY_MS }),
  ];

  const transfersIn = ({ from, to }: Period) => transfers.filter(({ at }) => at >= from && at < to);
  const sum = (list: readonly TransferRow[], matches: (transfer: TransferRow) => boolean): bigint =>
    list.filter(matches).reduce((total, { amount }) => total + amount, 0n);

  test("random histories cover all kinds of transfers", async () => {
    await expectLedgerValid(store.db);
    const [whole] = reports;
    expect(new Set(transfers.map((one) => one.kind))).toEqual(
      new Set([
        "grant",
        "usage",
        "purchase",
        "refund",
        "dispute",
        "debt",
        "adjustment",
        "write_off",
      ]),
    );
    expect(whole?.usage.owed).toBeGreaterThan(0n);
    expect(whole?.balances.owed).toBeGreaterThan(0n);
    expect(whole?.providers.length).toBeGreaterThan(2);
  });

  test("grants, adjustments, usage, fees and losses equal the transfers of the period", () => {
    for (const report of reports) {
      const list = transfersIn(report.period);
      const grants = (id: RegExp): bigint =>
        sum(list, (transfer) => transfer.kind === "grant" && id.test(transfer.id));
      expect(report.grants).toEqual({
        starting: grants(/^start\./),
        operator: grants(/^grant\./),
        claim: grants(/^tr_/),
        serviceCredits: sum(list, ({ kind }) => kind === "service_credit"),
      });
      expect(report.adjustments).toEqual({
        up: sum(list, (one) => one.from === "system:adjustment"),
        down: sum(list, (one) => one.to === "system:adjustment"),
      });
      expect(report.usage).toEqual({
        promo: sum(list, (one) => one.kind === "usage" && one.from.endsWith(":promo")),
        paid: sum(list, (one) => one.kind === "usage" && one.from.endsWith(":paid")),
        owed: sum(list, (one) => one.kind === "usage" && one.from === "system:receivable"),
      });
      expect(report.feeIncome).toBe(
        sum(list, (one) => one.to === "system:fee_revenue") -
          sum(list, (one) => one.from === "system:fee_revenue"),
      );
      expect(report.writtenOff).toBe(sum(list, (one) => one.kind === "write_off"));
      expect(report.refundLoss + report.writtenOff).toBe(
        sum(list, (one) => one.from === "system:refund_expense") -
          sum(list, (one) => one.to === "system:refund_expense"),
      );
    }
  });

  test("profit is fees less promotional usage, losses and given credit, and that of the days adds up to it", () => {
    for (const report of reports) {
      const list = transfersIn(report.period);
      const given =
        sum(list, (one) => one.from === "system:adjustment") -
        sum(list, (one) => one.to === "system:adjustment");
      const { total } = profitOf(report);
      expect(total).toBe(
        report.feeIncome - report.usage.promo - report.refundLoss - report.writtenOff - given,
      );
    }
    const days: string[] = [];
    for (let at = startedAt; at <= harness.clock.now + DAY_MS; at += DAY_MS) days.push(utcDay(at));
    const byDay = profitByDay(sums, days);
    expect(byDay.filter(({ total }) => total !== 0n).length).toBeGreaterThan(3);
    expect(byDay.reduce((total, day) => total + day.total, 0n)).toBe(
      reports[0] === undefined ? -1n : profitOf(reports[0]).total,
    );
  });

  test("processor totals equal their clearing accounts", () => {
    for (const report of reports) {
      const list = transfersIn(report.period);
      for (const one of report.processors) {
        const { credit, debt, fee, tax, suspense, loss, total } = one;
        expect(credit + debt + fee + tax + suspense + loss).toBe(total);
        const clearing = `system:clearing:${one.processor}`;
        expect(total).toBe(
          sum(
            list,
            (transfer) =>
              transfer.kind === one.kind && [transfer.from, transfer.to].includes(clearing),
          ),
        );
      }
      const seen = report.processors.reduce((total, one) => total + one.total, 0n);
      expect(seen).toBe(sum(list, ({ from, to }) => `${from}${to}`.includes("system:clearing:")));
    }
  });

  test("liabilities equal the customers' balances at the end of the period", async () => {
    for (const { period, balances } of reports) {
      const list = transfers.filter(({ at }) => at < period.to);
      const bucket = (name: string): bigint =>
        sum(list, ({ to }) => to.endsWith(`:${name}`)) -
        sum(list, ({ from }) => from.endsWith(`:${name}`));
      expect([balances.promo, balances.paid]).toEqual([bucket("promo"), bucket("paid")]);
    }
    const row = await store.db.get(
      "select cast(sum(promo) as text) as promo, cast(sum(paid) as text) as paid, cast(sum(owed) as text) as owed from wallet",
    );
    expect(reports[0]?.balances).toMatchObject({
      promo: BigInt(String(row?.["promo"])),
      paid: BigInt(String(row?.["paid"])),
      owed: BigInt(String(row?.["owed"])),
    });
  });

  test("provider cost equals the usage records, and in total the usage transfers", async () => {
    for (const report of reports) {
      const rows = await store.db.all(
        "select provider, model, created_at, input_tokens, output_tokens, cast(cost_nano as text) as cost from usage_record where byok = 0",
      );
      const costs = new Map<string, { calls: number; tokens: number; cost: bigint }>();
      for (const row of rows) {
        const at = Number(row["created_at"]);
        if (at < report.period.from || at >= report.period.to) continue;
        const key = `${String(row["provider"])} ${String(row["model"])}`;
        const known = costs.get(key) ?? { calls: 0, tokens: 0, cost: 0n };
        costs.set(key, {
          calls: known.calls + 1,
          tokens: known.tokens + Number(row["input_tokens"]) + Number(row["output_tokens"]),
          cost: known.cost + BigInt(String(row["cost"])),
        });
      }
      expect(
        report.providers.map((one) => [
          `${one.provider} ${one.model}`,
          { calls: one.calls, tokens: one.inputTokens + one.outputTokens, cost: one.cost },
        ]),
      ).toEqual([...costs].sort(([one], [other]) => (one < other ? -1 : 1)));
    }
    const [whole] = reports;
    const { promo = 0n, paid = 0n, owed = 0n } = whole?.usage ?? {};
    const cost = whole?.providers.reduce((total, one) => total + one.cost, 0n);
    expect(cost).toBe(promo + paid + owed);
  });

  test("calls with customers' own keys are listed separately at list prices", () => {
    const [whole] = reports;
    expect(whole?.ownKeys).toEqual([
      {
        provider: "acme",
        model: "acme/own",
        calls: ownCalls,
        estimated: 0,
        inputTokens: 10 * ownCalls,
        outputTokens: 5 * ownCalls,
        // 7 × 0.0000000015 + 1 × 0.25, rounded up to 9 decimals.
        cost: BigInt(ownCalls) * 250_000_011n,
      },
    ]);
  });

  test("does not grow with calls: reads no usage record, and only the other transfers", async () => {
    const statements: { readonly sql: string; readonly values: readonly Value[] }[] = [];
    await store.db.snapshot(async (reader) => {
      const recorded: Reader = {
        kind: reader.kind,
        all: (sql, values = []) => {
          statements.push({ sql, values });
          return reader.all(sql, values);
        },
        get: (sql, values = []) => {
          statements.push({ sql, values });
          return reader.get(sql, values);
        },
      };
      const period = { from: 0, to: harness.clock.now + 1 };
      await readReport(recorded, period, await readTransferSums(recorded));
    });
    const tables = new Set(statements.flatMap(({ sql }) => tablesOf(sql)));
    expect([...tables].sort()).toEqual([
      "charge_hour",
      "transfer",
      "usage_pending",
      "usage_rollup",
      "wallet",
    ]);
    const transferReads = statements.filter(({ sql }) => tablesOf(sql).includes("transfer"));
    for (const { sql, values } of transferReads) {
      expect(sql).toMatch(/\bid [<>] \?/);
      const limit = sql.includes("id < ?") ? FIRST_CALL_ID : LAST_CALL_ID;
      expect(values).toContain(limit);
      if (kind === "postgres") continue;
      const plan = await store.db.all(`explain query plan ${sql}`, values);
      const steps = plan.map(({ detail }) => String(detail));
      expect(steps.filter((step) => /SCAN transfer/.test(step))).toEqual([]);
    }
  });

  test("has the same amounts as JSON and as text", () => {
    const [whole] = reports;
    if (whole === undefined) throw new Error("no report");
    const json = JSON.stringify(reportJson(whole));
    const text = reportText(whole);
    for (const { cost, model } of whole.providers)
      for (const output of [json, text]) {
        expect(output).toContain(model);
        expect(output).toContain(usdText(cost));
      }
    expect(JSON.parse(json)).toMatchObject({ object: "report", grants: { starting_usd: "0" } });
  });

  test("a period has UTC days or full hours, and `from` before `to`", () => {
    const now = Date.parse("2026-11-21T09:30:00Z");
    expect(parsePeriod({}, now)).toEqual({ from: Date.parse("2026-11-01"), to: now + 1 });
    expect(parsePeriod({ from: "2026-10-01", to: "2026-11-01" }, now)).toEqual({
      from: Date.parse("2026-10-01"),
      to: Date.parse("2026-11-01"),
    });
    expect(parsePeriod({ from: "2026-10-01T12:00:00+02:00", to: "" }, now).from).toBe(
      Date.parse("2026-10-01T10:00:00Z"),
    );
    for (const from of [
      "yesterday",
      "2026-02-30",
      "2026-02-30T00:00:00Z",
      "2026-06-31T12:00+02:00",
      "2026-13-01",
      "20261001",
      "0x10",
      "2026-12-01",
      "2026-11-01T12:30:00Z",
      "2026-11-01T12:00:00+05:30",
    ])
      expect(() => parsePeriod({ from }, now)).toThrow();
  });
});

let ownCalls = 0;

function tablesOf(sql: string): readonly string[] {
  return [...sql.matchAll(/\b(?:from|join) (?!lateral)([a-z_]+)/g)].map(([, table = ""]) => table);
}

/** One random change of an account. */
async function randomStep(
  harness: BillingHarness,
  accountId: string,
  random: RandomInt,
): Promise<void> {
  const { db, clock } = harness;
  clock.now += 1 + random(1_000);
  const act = {
    accountId,
    by: COMMAND_LINE_ACTOR,
    reason: "test",
    network: null,
    now: clock.now,
    id: newId("req", clock.now),
  };
  const adjust = (usd: string): Promise<unknown> =>
    db.write((tx) => adjustBalance(tx, { ...act, amount: parseUsd(usd) }));
  switch (random(8)) {
    case 0:
      await db.write((tx) =>
        grantCredit(tx, { ...act, amount: BigInt(1 + random(3_000)) * 1_000_000n }),
      );
      return;
    case 1:
      await adjust(`${1 + random(5)}.${random(10)}`);
      return;
    case 2:
      await adjust(`-0.${1 + random(9)}`).catch(() => {});
      return;
    case 3:
      await buy(harness, accountId, random);
      return;
    case 4:
      if (random(3) === 0) await db.write((tx) => writeOffAccountDebt(tx, act));
      return;
    case 5: {
      const record = usageRecord({
        ...act,
        keyId: `${accountId}.k`,
        cost: 0n,
        createdAt: clock.now,
        byok: true,
        provider: "acme",
        model: "acme/own",
        price: [
          { meter: "input", count: 7, usd: "0.0000000015" },
          { meter: "request", count: 1, usd: "0.25" },
        ],
      });
      await db.write((tx) => insertUsage(tx, [record]));
      ownCalls += 1;
      return;
    }
    default:
      await call(harness, accountId, random);
  }
}

/** A call that costs its hold, or a multiple of it. */
async function call(
  { ledger, clock }: BillingHarness,
  accountId: string,
  random: RandomInt,
  times = random(5) === 0 ? 20n : 1n,
): Promise<void> {
  const about = {
    id: newId("req", clock.now),
    accountId,
    keyId: `${accountId}.k`,
    now: clock.now,
  };
  const amount = BigInt(1 + random(400_000_000));
  const held = await ledger.hold({ ...about, amount, expiresAt: clock.now + DAY_MS });
  if (held.status !== "held") return;
  const cost = amount * times;
  const model = ["acme/large", "acme/small", "other/one"][random(3)] ?? "";
  const provider = model.split("/")[0] ?? "";
  const record = usageRecord({ ...about, cost, createdAt: clock.now, model, provider });
  await ledger.settle({ ...about, cost, record });
}

/** A purchase with an optional partial refund or dispute. */
async function buy(harness: BillingHarness, accountId: string, random: RandomInt): Promise<void> {
  const cents = 100 + random(2_000);
  const back = random(2) === 0 ? 0 : 1 + random(cents);
  const kind = random(3) === 0 ? "refunded" : "disputed";
  if (random(3) > 0) return await purchase(harness, accountId, { cents, back, kind });
  const { billing, clock } = harness;
  const { id: invoiceId } = await purchaseOf(harness, accountId, cents);
  const payment = { invoiceId, reference: `out ${invoiceId}`, by: TEST_ACTOR, now: clock.now };
  // Rejected if the purchase paid a debt, because less is refundable then.
  await markRefunded(billing, { ...payment, amountCents: 1 + random(cents) }).catch(() => {});
}

async function purchaseOf(
  harness: BillingHarness,
  accountId: string,
  cents: number,
): Promise<Invoice> {
  const invoice = await harness.newInvoice(accountId, cents);
  const payment = {
    invoiceId: invoice.id,
    reference: `in ${invoice.id}`,
    by: TEST_ACTOR,
    now: harness.clock.now,
  };
  await markPaid(harness.billing, payment);
  return invoice;
}

async function purchase(
  harness: BillingHarness,
  accountId: string,
  { cents, back, kind }: { cents: number; back: number; kind: "refunded" | "disputed" },
): Promise<void> {
  const { db, clock } = harness;
  const invoice = await purchaseOf(harness, accountId, cents);
  if (back === 0) return;
  const { paid, promo } = await readWallet(db, accountId);
  await harness.spend(accountId, ((paid + promo) * 9n) / 10n);
  const fact: PaymentFact = {
    processor: "manual",
    ref: `back ${invoice.id}`,
    kind,
    payment: `in ${invoice.id}`,
    invoiceId: invoice.id,
    amountCents: back,
    taxCents: 0,
    currency: "usd",
    at: clock.now,
  };
  await db.write((tx) => applyFact(tx, fact, clock.now));
}

async function readTransfers(db: Db): Promise<readonly TransferRow[]> {
  const rows = await db.all(
    `select account_id, id, from_account, to_account, kind, cast(amount as text) as amount, at from ${ALL_TRANSFERS}`,
  );
  return rows.map((row) => ({
    accountId: String(row["account_id"]),
    id: String(row["id"]),
    from: String(row["from_account"]),
    to: String(row["to_account"]),
    kind: String(row["kind"]),
    amount: BigInt(String(row["amount"])),
    at: Number(row["at"]),
  }));
}
