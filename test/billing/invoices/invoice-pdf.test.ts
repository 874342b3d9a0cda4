// The invoice as PDF, and the numbers of paid invoices: a series without gaps.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { extractText } from "unpdf";
import { renameAccount } from "../../../src/accounts/accounts.ts";
import { setPaid } from "../../../src/billing/invoices/invoices.ts";
import { actIn } from "../../support/act.ts";
import { eventually } from "../../support/eventually.ts";
import { type Gateway, registerAccount, startGateway } from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import { buyCredits, submitForm } from "../fixtures.ts";

const OPERATOR = {
  POSTERN_OPERATOR_NAME: "Example Gateways Ltd",
  POSTERN_OPERATOR_ADDRESS: "1 Example Street; 10115 Berlin; Germany",
  POSTERN_OPERATOR_TAX_ID: "DE123456789",
  POSTERN_OPERATOR_CONTACT: "billing@gateway.example",
  POSTERN_TERMS_URL: "https://gateway.example/terms",
};

describe.each(STORE_KINDS)("invoices on %s", (store) => {
  let gateway: Gateway;
  beforeAll(async () => {
    gateway = await startGateway({ store, env: OPERATOR });
  });
  afterAll(() => gateway.stop());

  const buy = async (): Promise<{ readonly id: string; readonly payUrl: string }> => {
    const account = await registerAccount(gateway);
    const { id, pay_url: payUrl } = await buyCredits(gateway, account, 10);
    return { id, payUrl };
  };
  const numbers = async (): Promise<readonly number[]> => {
    const rows = await gateway.server.db.all(
      "select number from invoice where number is not null order by number",
    );
    return rows.map(({ number }) => Number(number));
  };

  test("are numbered in the order of payment, without gaps, also at once and after a failure", async () => {
    const invoices = await Promise.all(Array.from({ length: 8 }, buy));
    await Promise.all(invoices.map(({ payUrl }) => submitForm(payUrl, { decision: "pay" })));
    expect(await numbers()).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    const last = await buy();
    const { db } = gateway.server;
    const failed = db.write(async (tx) => {
      await setPaid(tx, last.id, { taxCents: 0, at: 1 });
      throw new Error("fails after the number was taken");
    });
    expect(await failed.catch(() => "rolled back")).toBe("rolled back");
    await submitForm(last.payUrl, { decision: "pay" });
    await submitForm(last.payUrl, { decision: "pay" });
    await db.write((tx) => setPaid(tx, last.id, { taxCents: 0, at: 2 }));
    expect(await numbers()).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });

  test("are a PDF with number, seller, buyer, fee, tax and total, once they are paid", async () => {
    const account = await registerAccount(gateway);
    const name = 'Ümlaut (Research) \\ "Ltd"';
    const act = actIn(account.id, Date.now());
    await gateway.server.db.write((tx) => renameAccount(tx, act, name));
    const { id, pay_url: payUrl } = await buyCredits(gateway, account, 10);
    expect((await fetch(`${payUrl}/invoice.pdf`)).status).toBe(404);
    await submitForm(payUrl, { decision: "pay" });
    const response = await fetch(`${payUrl}/invoice.pdf`);
    expect(response.headers.get("content-type")).toBe("application/pdf");
    expect(response.headers.get("content-disposition")).toMatch(/"INV-\d{6}\.pdf"/);
    const { pages, text } = await readPdf(response);
    expect(pages).toBe(1);
    for (const part of [
      id,
      "Example Gateways Ltd",
      "10115 Berlin",
      "Tax ID DE123456789",
      name,
      account.id,
      "10,000,000 credits",
      "$10.00",
      "$0.50",
      "$10.50",
      "billing@gateway.example",
      "https://gateway.example/terms",
    ])
      expect(text).toContain(part);
    expect(await (await fetch(`${payUrl}/receipt`)).text()).toContain("/invoice.pdf");
  });

  test("name the buyer as of the payment, in any European script", async () => {
    const account = await registerAccount(gateway);
    const change = async (body: object): Promise<Response> =>
      fetch(`${gateway.url}/v1/billing/details`, {
        method: "PATCH",
        headers: account.headers,
        body: JSON.stringify(body),
      });
    const details = {
      name: "Zażółć gęślą jaźń Sp. z o.o.",
      address: "ul. Przykładowa 1\n00-001 Łódź\nΕλλάδα, Україна",
      tax_id: "PL1234567890",
      po_number: "PO-2026-0042",
      contacts: ["rechnung@example.com"],
    };
    expect(await (await change(details)).json()).toEqual({ object: "billing_details", ...details });
    const { pay_url: payUrl } = await buyCredits(gateway, account, 25);
    await submitForm(payUrl, { decision: "pay" });
    const later = await change({ name: "Another Ltd", address: null });
    expect(await later.json()).toMatchObject({
      name: "Another Ltd",
      address: null,
      tax_id: "PL1234567890",
    });
    const response = await fetch(`${payUrl}/invoice.pdf`);
    const { text, bytes } = await readPdf(response);
    for (const part of [
      ...details.address.split("\n"),
      details.name,
      "Tax ID PL1234567890",
      "PO-2026-0042",
    ])
      expect(text).toContain(part);
    expect(text).not.toContain("Another Ltd");
    const receipt = await (await fetch(`${payUrl}/receipt`)).text();
    expect(receipt).toContain(details.name);
    expect(receipt).toContain("PO-2026-0042");
    const folder = process.env["POSTERN_TEST_PICTURES"];
    if (folder !== undefined) await Bun.write(`${folder}/invoice.pdf`, bytes);
  });

  test.each([
    [{ name: "a\nb" }, "name"],
    [{ address: "1\n2\n3\n4\n5\n6\n7" }, "address"],
    [{ contacts: ["not an address"] }, "contacts"],
    [{ contacts: Array.from({ length: 6 }, (_, at) => `a${at}@example.com`) }, "contacts"],
    [{ vat: "1" }, "vat"],
  ])("refuse the billing details %j", async (body, param) => {
    const { headers } = await registerAccount(gateway);
    const response = await fetch(`${gateway.url}/v1/billing/details`, {
      method: "PATCH",
      headers,
      body: JSON.stringify(body),
    });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { param } });
  });

  test("send their receipts to the billing contacts", async () => {
    const account = await registerAccount(gateway);
    await fetch(`${gateway.url}/v1/billing/details`, {
      method: "PATCH",
      headers: account.headers,
      body: JSON.stringify({ contacts: ["Accounts@Example.com", "accounts@example.com"] }),
    });
    const { id, pay_url: payUrl } = await buyCredits(gateway, account, 10);
    await submitForm(payUrl, { decision: "pay" });
    const { db } = gateway.server;
    const emails = await eventually(async () => {
      const rows = await db.all(
        "select * from email where type = 'invoice.paid' and account_id = ?",
        [account.id],
      );
      return rows.length === 0 ? undefined : rows;
    });
    expect(emails.map(({ address }) => address)).toEqual(["accounts@example.com"]);
    expect(emails[0]?.["data"]).toContain(id);
  });
});

async function readPdf(response: Response) {
  const bytes = new Uint8Array(await response.arrayBuffer());
  const { totalPages: pages, text } = await extractText(bytes.slice(), { mergePages: true });
  return { pages, text, bytes };
}
