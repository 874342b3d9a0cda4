// The invoice page and the receipt, in every state and with every processor.

import { afterAll, describe, expect, test } from "bun:test";
import { registerAccount, startGateway } from "../../support/gateway.ts";
import {
  buyCredits,
  expectLedgerValid,
  pageText,
  readInvoice,
  submitForm,
  ledgerBalanceOf,
  readWallet,
} from "../fixtures.ts";

const OPERATOR = {
  POSTERN_OPERATOR_NAME: "Example Gateways Ltd",
  POSTERN_OPERATOR_ADDRESS: "1 Example Street; 10115 Berlin; Germany",
  POSTERN_OPERATOR_TAX_ID: "DE123456789",
  POSTERN_OPERATOR_CONTACT: "billing@gateway.example",
};

const gateway = await startGateway({ env: OPERATOR });
afterAll(async () => {
  await expectLedgerValid(gateway.server.db);
  await gateway.stop();
});

describe("an open invoice's page", () => {
  test("shows line items, workspace and seller to anyone with the link", async () => {
    const account = await registerAccount(gateway);
    const { pay_url: payUrl, id } = await buyCredits(gateway, account, "33.33");
    const text = await pageText(payUrl);
    for (const words of [
      "33,330,000 credits $33.33",
      "Platform fee (5%) $1.67",
      "Tax $0.00",
      "Total $35.00",
      "Example Gateways Ltd",
      "billing@gateway.example",
      id,
      `${account.id.slice(0, 9)}…${account.id.slice(-4)}`,
    ])
      expect(text).toContain(words);
    expect(text).not.toContain(account.id);
  });

  test("is not cached or framed, sends no referrer and has no scripts", async () => {
    const { pay_url: payUrl } = await buyCredits(gateway, await registerAccount(gateway));
    const { headers } = await fetch(payUrl);
    expect(headers.get("cache-control")).toBe("no-store");
    expect(headers.get("referrer-policy")).toBe("no-referrer");
    expect(headers.get("x-frame-options")).toBe("DENY");
    const policy = headers.get("content-security-policy") ?? "";
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("form-action 'self';");
    expect(policy).not.toContain("script-src");
    expect(await (await fetch(payUrl)).text()).not.toContain("<script");
  });

  test("returns 404 for any other link", async () => {
    const { pay_url: payUrl, id } = await buyCredits(gateway, await registerAccount(gateway));
    const other = await buyCredits(gateway, await registerAccount(gateway));
    const signature = payUrl.slice(payUrl.lastIndexOf(".") + 1);
    const wrongUrls = [
      `${gateway.url}/pay/${id}`,
      `${gateway.url}/pay/${id.slice(4)}`,
      `${gateway.url}/pay/${id.slice(4)}.`,
      `${gateway.url}/pay/${id.slice(4)}.${"A".repeat(43)}`,
      `${other.pay_url.slice(0, other.pay_url.lastIndexOf("."))}.${signature}`,
      `${payUrl}A`,
      payUrl.slice(0, -1),
    ];
    for (const url of wrongUrls) {
      expect((await fetch(url)).status).toBe(404);
      expect((await submitForm(url, { decision: "pay" })).status).toBe(404);
      expect((await fetch(`${url}/receipt`)).status).toBe(404);
    }
    expect(
      await readInvoice(gateway, await registerAccount(gateway), id).catch(() => "hidden"),
    ).toBe("hidden");
  });

  test("does not change the invoice when viewed, and has no receipt yet", async () => {
    const account = await registerAccount(gateway);
    const { pay_url: payUrl, id } = await buyCredits(gateway, account);
    await fetch(payUrl);
    await fetch(payUrl, { method: "HEAD" });
    await fetch(`${payUrl}?done=1`);
    expect((await fetch(`${payUrl}/receipt`)).status).toBe(404);
    expect((await readInvoice(gateway, account, id)).status).toBe("open");
  });

  test("rejects cross-site form submissions", async () => {
    const account = await registerAccount(gateway);
    const { pay_url: payUrl, id } = await buyCredits(gateway, account);
    for (const headers of [
      {},
      { origin: "https://elsewhere.example" },
      { "sec-fetch-site": "cross-site" },
      { "sec-fetch-site": "same-site", origin: gateway.url },
    ])
      expect((await submitForm(payUrl, { decision: "pay" }, headers)).status).toBe(403);
    expect((await readInvoice(gateway, account, id)).status).toBe("open");
  });

  test("shows a failed payment, which charges nothing and can be retried", async () => {
    const account = await registerAccount(gateway);
    const { pay_url: payUrl, id } = await buyCredits(gateway, account);
    const failed = await submitForm(payUrl, { decision: "fail" });
    expect(failed.status).toBe(303);
    const text = await pageText(`${gateway.url}${failed.headers.get("location")}`);
    expect(text).toContain("The payment failed. Nothing was charged");
    expect((await readInvoice(gateway, account, id)).status).toBe("open");
    await submitForm(payUrl, { decision: "pay" });
    expect((await readInvoice(gateway, account, id)).status).toBe("paid");
  });
});

test("simulated payments work only from the gateway's own machine", async () => {
  const proxied = await startGateway({ env: { POSTERN_TRUSTED_PROXIES: "127.0.0.1" } });
  const account = await registerAccount(proxied);
  const { pay_url: payUrl, id } = await buyCredits(proxied, account);
  const response = await submitForm(
    payUrl,
    { decision: "pay" },
    {
      "sec-fetch-site": "same-origin",
      "x-forwarded-for": "203.0.113.7",
    },
  );
  expect(response.status).toBe(403);
  expect((await readInvoice(proxied, account, id)).status).toBe("open");
  await proxied.stop();
});

describe("a receipt", () => {
  test("names the operator, and its amounts add up and match the ledger", async () => {
    for (const usd of [1, "9.99", 10.1, "12.34", 999.99, 25_000]) {
      const account = await registerAccount(gateway);
      const fees = await ledgerBalanceOf(gateway.server.db, "system:fee_revenue");
      const clearing = await ledgerBalanceOf(gateway.server.db, "system:clearing:development");
      const invoice = await buyCredits(gateway, account, usd);
      await submitForm(invoice.pay_url, { decision: "pay" });
      const text = await pageText(`${invoice.pay_url}/receipt`);
      const cents = (label: string): bigint => {
        const [, amount = ""] = new RegExp(`${label} \\$([\\d,]+\\.\\d\\d)`).exec(text) ?? [];
        return BigInt(amount.replaceAll(/[,.]/g, ""));
      };
      const [credits, fee, tax, total] = [
        cents("credits"),
        cents(String.raw`fee \(5%\)`),
        cents("Tax"),
        cents("Total"),
      ];
      expect(credits + fee + tax).toBe(total);
      const nano = (amount: bigint): bigint => amount * 10_000_000n;
      expect((await readWallet(gateway.server.db, account.id)).paid).toBe(nano(credits));
      expect((await ledgerBalanceOf(gateway.server.db, "system:fee_revenue")) - fees).toBe(
        nano(fee),
      );
      expect(
        clearing - (await ledgerBalanceOf(gateway.server.db, "system:clearing:development")),
      ).toBe(nano(total));
      for (const words of [
        "Example Gateways Ltd",
        "1 Example Street 10115 Berlin Germany",
        "Tax ID DE123456789",
        invoice.id,
      ])
        expect(text).toContain(words);
    }
  });
});

describe("with bank transfers", () => {
  const env = {
    ...OPERATOR,
    POSTERN_BASE_URL: "https://gateway.example",
    POSTERN_SECRET: "a secret of thirty-two characters or more",
    POSTERN_BANK_DETAILS: "Example Gateways Ltd; IBAN DE00 1234; BIC EXAMPLEX",
  };

  test("shows the amount, the bank details and the reference, and has no pay button", async () => {
    const manual = await startGateway({ env });
    const account = await registerAccount(manual);
    const invoice = await buyCredits(manual, account);
    expect(invoice.pay_url).toStartWith("https://gateway.example/pay/");
    const pageUrl = manual.url + new URL(invoice.pay_url).pathname;
    const text = await pageText(pageUrl);
    for (const words of ["Transfer exactly $10.50", invoice.id, "IBAN DE00 1234"])
      expect(text).toContain(words);
    const response = await submitForm(pageUrl, { decision: "pay" });
    expect(response.status).toBe(409);
    expect((await readInvoice(manual, account, invoice.id)).status).toBe("open");
    const webhook = await fetch(`${manual.url}/webhooks/stripe`, { method: "POST" });
    expect(webhook.status).toBe(404);
    await manual.stop();
  });
});
