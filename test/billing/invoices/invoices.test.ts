// Invoice endpoints on both stores.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
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

const CREATE = ["POST", "/v1/billing/invoice"] as const;
const HALF_DOLLAR = { POSTERN_INVOICE_MIN_USD: "0.50" };

/** Amount, fee, total. The fee is 5%, rounded half up. */
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

const REJECTED: readonly (readonly [label: string, body: string, param: string])[] = [
  ["an empty body", "{}", "amount_usd"],
  ["a negative amount", '{"amount_usd":-10}', "amount_usd"],
  ["zero", '{"amount_usd":0}', "amount_usd"],
  ["minus zero", '{"amount_usd":-0.0}', "amount_usd"],
  ["half a cent", '{"amount_usd":10.005}', "amount_usd"],
  ["half a cent as a string", '{"amount_usd":"10.005"}', "amount_usd"],
  ["a tiny fraction of a cent", '{"amount_usd":10.0000000001}', "amount_usd"],
  ["less than the minimum", '{"amount_usd":0.49}', "amount_usd"],
  ["more than the maximum", '{"amount_usd":25000.01}', "amount_usd"],
  ["a huge amount", '{"amount_usd":1e300}', "amount_usd"],
  ["infinity", '{"amount_usd":1e400}', "amount_usd"],
  ["NaN", '{"amount_usd":"NaN"}', "amount_usd"],
  ["an exponent as a string", '{"amount_usd":"1e1"}', "amount_usd"],
  ["hexadecimal", '{"amount_usd":"0x10"}', "amount_usd"],
  ["a comma", '{"amount_usd":"10,00"}', "amount_usd"],
  ["a leading space", '{"amount_usd":" 10"}', "amount_usd"],
  ["a plus sign", '{"amount_usd":"+10"}', "amount_usd"],
  ["an empty string", '{"amount_usd":""}', "amount_usd"],
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

  test("creates an invoice of $10.00 for 10,000,000 credits with a fee of $0.50", async () => {
    const response = await api<InvoiceBody>(gateway, account, CREATE, { body: { amount_usd: 10 } });
    expectStatus("createInvoice", 201, response);
    expect(response.body).toEqual({
      id: expect.stringMatching(/^inv_[0-9a-z]{26}$/),
      object: "invoice",
      status: "open",
      amount_usd: 10,
      fee_usd: 0.5,
      tax_usd: 0,
      total_usd: 10.5,
      credits: 10_000_000,
      pay_url: expect.stringMatching(/\/pay\/[0-9a-z]{26}\.[\w-]{43}$/),
      payment_methods: [expect.objectContaining({ type: "page", url: response.body.pay_url })],
      created_at: expect.any(String),
      paid_at: null,
    });
    const read = await api(gateway, account, ["GET", `/v1/billing/invoice/${response.body.id}`]);
    expectStatus("getInvoice", 200, read);
    expect(read.body).toEqual({ ...response.body });
  });

  test("charges a fee of 5%, rounded half up, for amounts as numbers and as strings", async () => {
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

  for (const [label, body, param] of REJECTED)
    test(`rejects ${label} and names the field`, async () => {
      const response = await api<{ error: { code: string; param: string } }>(
        gateway,
        account,
        CREATE,
        {
          body,
        },
      );
      expectStatus("createInvoice", 400, response);
      expect(response.body.error).toMatchObject({ code: "invalid_request", param });
    });

  test("rejects unknown fields", async () => {
    const response = await api(gateway, account, CREATE, {
      body: { amount_usd: 10, credits: 1e9 },
    });
    expect(response.status).toBe(400);
  });

  test("concurrent requests with one Idempotency-Key create one invoice", async () => {
    const payer = await registerAccount(gateway);
    const headers = { "idempotency-key": crypto.randomUUID() };
    const created = await Promise.all(
      Array.from({ length: 8 }, () =>
        api<InvoiceBody>(gateway, payer, CREATE, { body: { amount_usd: 20 }, headers }),
      ),
    );
    expect(new Set(created.map(({ body }) => body.id)).size).toBe(1);
    const other = await api(gateway, payer, CREATE, { body: { amount_usd: 21 }, headers });
    expectStatus("createInvoice", 409, other);
    const { body } = await api<{ data: readonly unknown[] }>(gateway, payer, [
      "GET",
      "/v1/billing/invoices",
    ]);
    expect(body.data).toHaveLength(1);
  });

  test("returns 409 when 100 invoices are open, until one is voided", async () => {
    const payer = await registerAccount(gateway);
    for (let count = 0; count < 100; count++) await buyCredits(gateway, payer, 1);
    const response = await api<{ error: { code: string } }>(gateway, payer, CREATE, {
      body: { amount_usd: 1 },
    });
    expectStatus("createInvoice", 409, response);
    const open = await api<{ data: InvoiceBody[] }>(gateway, payer, [
      "GET",
      "/v1/billing/invoices?status=open&limit=1",
    ]);
    const id = open.body.data[0]?.id ?? "";
    await api(gateway, payer, ["POST", `/v1/billing/invoice/${id}/void`]);
    expect((await buyCredits(gateway, payer, 1)).status).toBe("open");
  });

  test("lists invoices in pages, newest first, and filters by status", async () => {
    const payer = await registerAccount(gateway);
    const ids: string[] = [];
    for (let count = 0; count < 5; count++)
      ids.unshift((await buyCredits(gateway, payer, 1 + count)).id);
    const listed: string[] = [];
    let query = "?limit=2";
    for (let page = 0; page < 3; page++) {
      const response = await api<{ data: InvoiceBody[]; next_cursor: string | null }>(
        gateway,
        payer,
        ["GET", `/v1/billing/invoices${query}`],
      );
      expectStatus("listInvoices", 200, response);
      listed.push(...response.body.data.map(({ id }) => id));
      query = `?limit=2&cursor=${response.body.next_cursor}`;
    }
    expect(listed).toEqual(ids.toSorted().toReversed());
    const badCursor = await api(gateway, payer, ["GET", "/v1/billing/invoices?cursor=key_1"]);
    expectStatus("listInvoices", 400, badCursor);
    const paid = await api<{ data: unknown[] }>(gateway, payer, [
      "GET",
      "/v1/billing/invoices?status=paid",
    ]);
    expect(paid.body.data).toEqual([]);
  });

  test("returns 404 when reading or voiding another account's invoice", async () => {
    const [invoice, other] = [await buyCredits(gateway, account), await registerAccount(gateway)];
    const read = await api(gateway, other, ["GET", `/v1/billing/invoice/${invoice.id}`]);
    expectStatus("getInvoice", 404, read);
    const voided = await api(gateway, other, ["POST", `/v1/billing/invoice/${invoice.id}/void`]);
    expectStatus("voidInvoice", 404, voided);
    const unknown = await api(gateway, account, ["POST", `/v1/billing/invoice/inv_none/void`]);
    expectStatus("voidInvoice", 404, unknown);
    expect((await readInvoice(gateway, account, invoice.id)).status).toBe("open");
  });

  test("void is idempotent, closes the page, and returns 409 for a paid invoice", async () => {
    const payer = await registerAccount(gateway);
    const invoice = await buyCredits(gateway, payer);
    for (let times = 0; times < 2; times++) {
      const response = await api(gateway, payer, [
        "POST",
        `/v1/billing/invoice/${invoice.id}/void`,
      ]);
      expectStatus("voidInvoice", 200, response);
      expect(response.body).toEqual({ ...invoice, status: "void", payment_methods: [] });
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
    expect(await pageText(invoice.pay_url)).toContain("Invoice voided");

    const other = await buyCredits(gateway, payer);
    await submitForm(other.pay_url, { decision: "pay" });
    const late = await api(gateway, payer, ["POST", `/v1/billing/invoice/${other.id}/void`]);
    expectStatus("voidInvoice", 409, late);
    expect((await readWallet(gateway.server.db, payer.id)).paid).toBe(10n * NANO_PER_USD);
  });

  test("concurrent payments of one invoice are credited once", async () => {
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

  test("emits invoice.paid once", async () => {
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
