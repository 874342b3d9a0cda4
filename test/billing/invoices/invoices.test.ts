// Invoices over HTTP, on both stores: what is bought, what is refused, and who sees it.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { feeOf } from "../../../src/billing/invoices/cents.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";
import { expectStatus } from "../../support/source/tested-statuses.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import {
  api,
  buyCredits,
  expectLedgerValid,
  type InvoiceBody,
  pageText,
  readInvoice,
  submitForm,
  ledgerBalanceOf,
  NANO_PER_USD,
  readWallet,
} from "../fixtures.ts";

// The first of these tests starts a PostgreSQL, on a machine that may be busy.
setDefaultTimeout(60_000);

const CREATE = ["POST", "/v1/billing/invoice"] as const;
const HALF_DOLLAR = { POSTERN_INVOICE_MIN_USD: "0.50" };

/** amount, fee, total: 5 % of the cents, half a cent up. */
const FEES: readonly (readonly [amount: string, fee: number, total: number])[] = [
  ["0.50", 0.03, 0.53],
  ["0.51", 0.03, 0.54],
  ["0.69", 0.03, 0.72],
  ["0.70", 0.04, 0.74],
  ["0.89", 0.04, 0.93],
  ["0.90", 0.05, 0.95],
  ["0.99", 0.05, 1.04],
  ["1", 0.05, 1.05],
  ["1.09", 0.05, 1.14],
  ["1.10", 0.06, 1.16],
  ["9.99", 0.5, 10.49],
  ["10", 0.5, 10.5],
  ["10.00", 0.5, 10.5],
  ["10.09", 0.5, 10.59],
  ["10.10", 0.51, 10.61],
  ["12.5", 0.63, 13.13],
  ["19.99", 1, 20.99],
  ["33.33", 1.67, 35],
  ["100.10", 5.01, 105.11],
  ["999.99", 50, 1_049.99],
  ["1234.56", 61.73, 1_296.29],
  ["24999.99", 1_250, 26_249.99],
  ["25000", 1_250, 26_250],
];

const REFUSED: readonly (readonly [what: string, body: string, param: string])[] = [
  ["nothing", "{}", "amount_usd"],
  ["a negative amount", '{"amount_usd":-10}', "amount_usd"],
  ["zero", '{"amount_usd":0}', "amount_usd"],
  ["minus zero", '{"amount_usd":-0.0}', "amount_usd"],
  ["half a cent", '{"amount_usd":10.005}', "amount_usd"],
  ["half a cent as text", '{"amount_usd":"10.005"}', "amount_usd"],
  ["a hair above a cent", '{"amount_usd":10.0000000001}', "amount_usd"],
  ["below the least", '{"amount_usd":0.49}', "amount_usd"],
  ["above the most", '{"amount_usd":25000.01}', "amount_usd"],
  ["a huge amount", '{"amount_usd":1e300}', "amount_usd"],
  ["what is infinite", '{"amount_usd":1e400}', "amount_usd"],
  ["no number", '{"amount_usd":"NaN"}', "amount_usd"],
  ["an exponent as text", '{"amount_usd":"1e1"}', "amount_usd"],
  ["hexadecimal", '{"amount_usd":"0x10"}', "amount_usd"],
  ["a comma", '{"amount_usd":"10,00"}', "amount_usd"],
  ["blanks", '{"amount_usd":" 10"}', "amount_usd"],
  ["a sign", '{"amount_usd":"+10"}', "amount_usd"],
  ["empty text", '{"amount_usd":""}', "amount_usd"],
  ["null", '{"amount_usd":null}', "amount_usd"],
  ["a boolean", '{"amount_usd":true}', "amount_usd"],
  ["a list", '{"amount_usd":[10]}', "amount_usd"],
  ["another currency", '{"amount_usd":10,"currency":"eur"}', "currency"],
];

describe.each(STORE_KINDS)("invoices on %s", (store) => {
  let gateway: Gateway;
  let account: TestAccount;
  beforeAll(async () => {
    gateway = await startGateway({ store, env: HALF_DOLLAR });
    account = await registerAccount(gateway);
  });
  afterAll(async () => {
    await expectLedgerValid(gateway.server.db);
    await gateway.stop();
  });

  test("10 USD add 10,000,000 credits, with a fee of 0.50 and a total of 10.50 before tax", async () => {
    const answer = await api<InvoiceBody>(gateway, account, CREATE, { body: { amount_usd: 10 } });
    expectStatus("createInvoice", 201, answer);
    expect(answer.body).toEqual({
      id: expect.stringMatching(/^inv_[0-9a-z]{26}$/),
      object: "invoice",
      status: "open",
      amount_usd: 10,
      fee_usd: 0.5,
      tax_usd: 0,
      total_usd: 10.5,
      credits: 10_000_000,
      pay_url: expect.stringMatching(/\/pay\/[0-9a-z]{26}\.[\w-]{43}$/),
      created_at: expect.any(String),
      paid_at: null,
    });
    const read = await api(gateway, account, ["GET", `/v1/billing/invoice/${answer.body.id}`]);
    expectStatus("readInvoice", 200, read);
    expect(read.body).toEqual({ ...answer.body });
  });

  test("the fee is five per cent, half a cent up, from 0.50 to 25,000, as text and as a number", async () => {
    const payer = await registerAccount(gateway);
    for (const [amount, fee, total] of FEES) {
      for (const usd of [amount, Number(amount)]) {
        const invoice = await buyCredits(gateway, payer, usd);
        expect(invoice).toMatchObject({
          fee_usd: fee,
          total_usd: total,
          amount_usd: Number(amount),
        });
        expect(invoice.credits).toBe(Math.round(Number(amount) * 1_000_000));
      }
    }
  });

  test("the fee of every amount is the nearest cent to a twentieth", () => {
    for (let cents = 50; cents <= 2_500_000; cents += cents < 30_000 ? 1 : 997) {
      const [fee, twenty] = [BigInt(feeOf(cents)), BigInt(cents)];
      const error = fee * 20n - twenty;
      expect(error > -10n && error <= 10n).toBe(true);
    }
  });

  for (const [what, body, param] of REFUSED)
    test(`${what} is refused, and the field is named`, async () => {
      const answer = await api<{ error: { code: string; param: string } }>(
        gateway,
        account,
        CREATE,
        {
          body,
        },
      );
      expectStatus("createInvoice", 400, answer);
      expect(answer.body.error).toMatchObject({ code: "invalid_request", param });
    });

  test("unknown fields are refused", async () => {
    const answer = await api(gateway, account, CREATE, { body: { amount_usd: 10, credits: 1e9 } });
    expect(answer.status).toBe(400);
  });

  test("an Idempotency-Key makes one invoice, however many ask at once", async () => {
    const payer = await registerAccount(gateway);
    const headers = { "idempotency-key": crypto.randomUUID() };
    const made = await Promise.all(
      Array.from({ length: 8 }, () =>
        api<InvoiceBody>(gateway, payer, CREATE, { body: { amount_usd: 20 }, headers }),
      ),
    );
    expect(new Set(made.map(({ body }) => body.id)).size).toBe(1);
    const other = await api(gateway, payer, CREATE, { body: { amount_usd: 21 }, headers });
    expectStatus("createInvoice", 409, other);
    const { body } = await api<{ data: readonly unknown[] }>(gateway, payer, [
      "GET",
      "/v1/billing/invoices",
    ]);
    expect(body.data).toHaveLength(1);
  });

  test("a hundred may be open, and then one must be paid or voided", async () => {
    const payer = await registerAccount(gateway);
    for (let count = 0; count < 100; count++) await buyCredits(gateway, payer, 1);
    const answer = await api<{ error: { code: string } }>(gateway, payer, CREATE, {
      body: { amount_usd: 1 },
    });
    expectStatus("createInvoice", 409, answer);
    const open = await api<{ data: InvoiceBody[] }>(gateway, payer, [
      "GET",
      "/v1/billing/invoices?status=open&limit=1",
    ]);
    const id = open.body.data[0]?.id ?? "";
    await api(gateway, payer, ["POST", `/v1/billing/invoice/${id}/void`]);
    expect((await buyCredits(gateway, payer, 1)).status).toBe("open");
  });

  test("the list is paged, newest first, and can be narrowed to a status", async () => {
    const payer = await registerAccount(gateway);
    const ids: string[] = [];
    for (let count = 0; count < 5; count++)
      ids.unshift((await buyCredits(gateway, payer, 1 + count)).id);
    const seen: string[] = [];
    let query = "?limit=2";
    for (let page = 0; page < 3; page++) {
      const answer = await api<{ data: InvoiceBody[]; next_cursor: string | null }>(
        gateway,
        payer,
        ["GET", `/v1/billing/invoices${query}`],
      );
      expectStatus("listInvoices", 200, answer);
      seen.push(...answer.body.data.map(({ id }) => id));
      query = `?limit=2&cursor=${answer.body.next_cursor}`;
    }
    expect(seen).toEqual(ids.toSorted().toReversed());
    const wrong = await api(gateway, payer, ["GET", "/v1/billing/invoices?cursor=key_1"]);
    expectStatus("listInvoices", 400, wrong);
    const paid = await api<{ data: unknown[] }>(gateway, payer, [
      "GET",
      "/v1/billing/invoices?status=paid",
    ]);
    expect(paid.body.data).toEqual([]);
  });

  test("another account's invoice is not there: not to read, not to void", async () => {
    const [mine, stranger] = [await buyCredits(gateway, account), await registerAccount(gateway)];
    const read = await api(gateway, stranger, ["GET", `/v1/billing/invoice/${mine.id}`]);
    expectStatus("readInvoice", 404, read);
    const gone = await api(gateway, stranger, ["POST", `/v1/billing/invoice/${mine.id}/void`]);
    expectStatus("voidInvoice", 404, gone);
    const unknown = await api(gateway, account, ["POST", `/v1/billing/invoice/inv_none/void`]);
    expectStatus("voidInvoice", 404, unknown);
    expect((await readInvoice(gateway, account, mine.id)).status).toBe("open");
  });

  test("void is final for the page, the same when repeated, and refused once it is paid", async () => {
    const payer = await registerAccount(gateway);
    const invoice = await buyCredits(gateway, payer);
    for (let times = 0; times < 2; times++) {
      const answer = await api(gateway, payer, ["POST", `/v1/billing/invoice/${invoice.id}/void`]);
      expectStatus("voidInvoice", 200, answer);
      expect(answer.body).toEqual({ ...invoice, status: "void" });
    }
    const { body: log } = await api<{ data: unknown[] }>(gateway, payer, [
      "GET",
      `/v1/audit?target=${invoice.id}`,
    ]);
    const [actor, detail] = [{ type: "key" }, { amount_usd: 10 }];
    expect(log.data).toMatchObject([
      { action: "invoice.voided", actor, detail, network: "127.0.0.0/24" },
      { action: "invoice.created", actor, detail, network: "127.0.0.0/24" },
    ]);
    await submitForm(invoice.pay_url, { decision: "pay" });
    expect((await readInvoice(gateway, payer, invoice.id)).status).toBe("void");
    expect(await pageText(invoice.pay_url)).toContain("withdrawn");

    const other = await buyCredits(gateway, payer);
    await submitForm(other.pay_url, { decision: "pay" });
    const late = await api(gateway, payer, ["POST", `/v1/billing/invoice/${other.id}/void`]);
    expectStatus("voidInvoice", 409, late);
    expect((await readWallet(gateway.server.db, payer.id)).paid).toBe(10n * NANO_PER_USD);
  });

  test("double clicks and retries give one charge and one credit", async () => {
    const payer = await registerAccount(gateway);
    const invoice = await buyCredits(gateway, payer, 25);
    const before = await ledgerBalanceOf(gateway.server.db, "system:fee_revenue");
    const clicks = await Promise.all(
      Array.from({ length: 10 }, () => submitForm(invoice.pay_url, { decision: "pay" })),
    );
    expect(clicks.map(({ status }) => status)).toEqual(clicks.map(() => 303));
    expect(await readInvoice(gateway, payer, invoice.id)).toMatchObject({ status: "paid" });
    expect((await readWallet(gateway.server.db, payer.id)).paid).toBe(25n * NANO_PER_USD);
    const after = await ledgerBalanceOf(gateway.server.db, "system:fee_revenue");
    expect(after - before).toBe((125n * NANO_PER_USD) / 100n);
  });

  test("an event tells that it was paid, once", async () => {
    const payer = await registerAccount(gateway);
    const invoice = await buyCredits(gateway, payer);
    await submitForm(invoice.pay_url, { decision: "pay" });
    await submitForm(invoice.pay_url, { decision: "pay" });
    const events = await gateway.server.db.all(
      "select data from event where account_id = ? and type = 'invoice.paid'",
      [payer.id],
    );
    expect(events.map(({ data }) => JSON.parse(String(data)))).toEqual([
      { invoice_id: invoice.id, amount_usd: 10, credits: 10_000_000 },
    ]);
  });
});
