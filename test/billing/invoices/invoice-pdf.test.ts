// The invoice as PDF, and the numbers of paid invoices: a series without gaps.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { renameAccount } from "../../../src/accounts/accounts.ts";
import { setPaid } from "../../../src/billing/invoices/invoices.ts";
import { writePdf } from "../../../src/billing/invoices/pdf-document.ts";
import { actIn } from "../../support/act.ts";
import { type Gateway, registerAccount, startGateway } from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import { buyCredits, submitForm } from "../fixtures.ts";

const OPERATOR = {
  POSTERN_OPERATOR_NAME: "Example Gateways Ltd",
  POSTERN_OPERATOR_ADDRESS: "1 Example Street; 10115 Berlin; Germany",
  POSTERN_OPERATOR_TAX_ID: "DE123456789",
  POSTERN_OPERATOR_CONTACT: "billing@gateway.example",
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
    const pdf = Buffer.from(await response.arrayBuffer()).toString("latin1");
    expect(pdf).toStartWith("%PDF-1.4\n");
    expect(pdf).toEndWith("%%EOF\n");
    for (const text of [
      id,
      "Example Gateways Ltd",
      "10115 Berlin",
      "Tax ID DE123456789",
      'Ümlaut \\(Research\\) \\\\ "Ltd"',
      account.id,
      "10,000,000 credits",
      "$10.00",
      "$0.50",
      "$10.50",
      "billing@gateway.example",
    ])
      expect(pdf).toContain(text);
    const receipt = await (await fetch(`${payUrl}/receipt`)).text();
    expect(receipt).toContain("/invoice.pdf");
    const folder = process.env["POSTERN_TEST_PICTURES"];
    if (folder !== undefined) await Bun.write(`${folder}/invoice.pdf`, Buffer.from(pdf, "latin1"));
  });
});

test("every object of a PDF is where its table says, whatever the texts contain", () => {
  const texts = ["plain", "(\\)", "日本語", "“€ 5” – 3", "a\u0000b\nc"];
  const pdf = Buffer.from(
    writePdf({
      title: "Ünïcode (title)",
      texts: texts.map((text, index) => ({ text, x: 50, y: 50 + index * 20, isRight: index > 2 })),
      lines: [{ x1: 50, x2: 300, y: 60 }],
    }),
  ).toString("latin1");
  const start = Number(/startxref\n(\d+)/.exec(pdf)?.[1]);
  expect(pdf.slice(start, start + 4)).toBe("xref");
  const offsets = [...pdf.slice(start).matchAll(/^(\d{10}) 00000 n /gm)].map(([, at]) =>
    Number(at),
  );
  expect(offsets).toHaveLength(7);
  offsets.forEach((offset, index) =>
    expect(pdf.slice(offset, offset + 7)).toBe(`${index + 1} 0 obj`),
  );
  const [, length, stream = ""] =
    /<< \/Length (\d+) >>\nstream\n([\s\S]*?)\nendstream/.exec(pdf) ?? [];
  expect(stream).toHaveLength(Number(length));
  expect(stream).toContain("(???) Tj");
});
