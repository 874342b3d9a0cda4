// The console's billing page for owners and developers.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { transferOwnership } from "../../../src/accounts/members.ts";
import { findMethod, listMethods } from "../../../src/billing/top-up/payment-method-rows.ts";
import { findAutoTopUp } from "../../../src/billing/top-up/top-up-rows.ts";
import { personActIn } from "../../support/act.ts";
import { eventuallyPasses } from "../../support/eventually.ts";
import { type FakeStripe, startFakeStripe } from "../../support/fakes/stripe.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";
import {
  type TestUser,
  createUser,
  makeDeveloper,
  makeOwner,
  visitPage,
  textOf,
} from "../console-user.ts";
import {
  api,
  buyCredits,
  expectLedgerValid,
  type InvoiceBody,
  pageText,
  readInvoice,
  invoiceAuditEntries,
} from "../fixtures.ts";

for (const store of ["sqlite", "postgres"] as const)
  describe(`the billing page on ${store}`, () => {
    let gateway: Gateway;
    let account: TestAccount;
    let page: string;
    let owner: TestUser;
    let developer: TestUser;
    beforeAll(async () => {
      gateway = await startGateway({ store });
      account = await registerAccount(gateway);
      page = `/console/${account.id}/billing`;
      owner = await createUser(gateway, "olga");
      developer = await createUser(gateway, "dev");
      await makeOwner(gateway, account.id, owner);
      await makeDeveloper(gateway, account.id, developer);
    });
    afterAll(async () => {
      await expectLedgerValid(gateway.server.db);
      await gateway.stop();
    });

    const invoices = async (status?: string) => {
      const query = status === undefined ? "" : `?status=${status}`;
      const { body } = await api<{ data: readonly InvoiceBody[] }>(gateway, account, [
        "GET",
        `/v1/billing/invoices${query}`,
      ]);
      return body.data;
    };
    const showPrice = async (usd: string) => {
      const response = await visitPage(gateway, `${page}/buy?amount_usd=${usd}`, owner);
      return { ...response, once: /name="once" value="([^"]+)"/.exec(response.text)?.[1] ?? "" };
    };

    test("shows the granted and purchased balance, and that auto top-up is off", async () => {
      for (const user of [owner, developer]) {
        const words = textOf(await visitPage(gateway, page, user));
        expect(words).toContain("Balance $0.05 50,000 credits");
        expect(words).toContain(
          "Purchased $0.00 spent after promotional Promotional $0.05 spent first",
        );
        expect(words).toContain("Auto top-up off");
        expect(words).toContain("No invoices yet");
      }
    });

    test("shows credits, fee and total without creating an invoice", async () => {
      const response = await showPrice("33.33");
      expect(response.status).toBe(200);
      const text = textOf(response);
      for (const part of ["33,330,000 credits $33.33", "fee (5%) $1.67", "Total $35.00"])
        expect(text).toContain(part);
      expect(await invoices()).toEqual([]);
    });

    for (const [usd, message] of [
      ["0.99", "must be from"],
      ["25000.01", "must be from"],
      ["1.005", "whole cents"],
      ["ten", "whole cents"],
      ["", "whole cents"],
    ] as const)
      test(`rejects the amount "${usd}" and shows the allowed range`, async () => {
        const response = await showPrice(usd);
        expect(response.status).toBe(400);
        expect(textOf(response)).toContain(message);
        expect(textOf(response)).toContain("from $1.00 to $25,000.00");
        expect(response.text).toMatch(new RegExp(`id="buy-amount"[^>]* value="${usd}"`));
      });

    test("repeated submissions of a form create one invoice and redirect to its page", async () => {
      const { once } = await showPrice("10");
      const form = { do: "buy", amount_usd: "10", once };
      const clicks = await Promise.all(
        Array.from({ length: 5 }, () => visitPage(gateway, page, owner, form)),
      );
      clicks.push(await visitPage(gateway, page, owner, form));
      expect(new Set(clicks.map(({ status }) => status))).toEqual(new Set([303]));
      const [invoice, ...others] = await invoices();
      expect(others).toEqual([]);
      expect(new Set(clicks.map(({ location }) => location))).toEqual(
        new Set([invoice?.pay_url ?? ""]),
      );
      expect(invoice).toMatchObject({ amount_usd: 10, fee_usd: 0.5, status: "open" });
      expect(await pageText(invoice?.pay_url ?? "")).toContain("$10.50");
    });

    test("a form token cannot be reused for another amount", async () => {
      const { once } = await showPrice("20");
      await visitPage(gateway, page, owner, { do: "buy", amount_usd: "20", once });
      const before = (await invoices()).length;
      const response = await visitPage(gateway, page, owner, {
        do: "buy",
        amount_usd: "2000",
        once,
      });
      expect(response.status).toBe(400);
      expect(await invoices()).toHaveLength(before);
    });

    test("lists invoices with links to pay and to the receipt", async () => {
      const [open, paid] = [
        await buyCredits(gateway, account, 5),
        await buyCredits(gateway, account, 6),
      ];
      await fetch(paid.pay_url, {
        method: "POST",
        headers: {
          "content-type": "application/x-www-form-urlencoded",
          "sec-fetch-site": "same-origin",
        },
        body: "decision=pay",
      });
      const response = await visitPage(gateway, page, developer);
      expect(response.text).toContain(`href="${open.pay_url}"`);
      expect(response.text).toContain(`href="${paid.pay_url}/receipt"`);
      expect(response.text).not.toContain('value="void"');
      expect((await visitPage(gateway, page, owner)).text).toContain('value="void"');
    });

    test("the owner can void an open invoice, but not a paid one or another workspace's", async () => {
      const [open] = await invoices("open");
      const [paid] = await invoices("paid");
      const otherAccount = await registerAccount(gateway);
      const otherInvoice = await buyCredits(gateway, otherAccount);
      const voidInvoice = (invoice: string) =>
        visitPage(gateway, page, owner, { do: "void", invoice });
      expect((await voidInvoice(open?.id ?? "")).status).toBe(303);
      expect((await readInvoice(gateway, account, open?.id ?? "")).status).toBe("void");
      expect((await voidInvoice(paid?.id ?? "")).status).toBe(400);
      expect((await voidInvoice(otherInvoice.id)).status).toBe(404);
      expect((await readInvoice(gateway, otherAccount, otherInvoice.id)).status).toBe("open");
      const entries = await invoiceAuditEntries(gateway.server.db, account.id);
      expect(entries[0]).toMatch(new RegExp(`^invoice.created inv_\\w+ person ${owner.personId}$`));
      expect(entries.at(-1)).toBe(`invoice.voided ${open?.id} person ${owner.personId}`);
    });

    test("a developer sees no forms and cannot submit them", async () => {
      const response = await visitPage(gateway, page, developer);
      expect(response.text).not.toContain('action="' + page);
      expect(textOf(response)).toContain("Only owners, admins and billing members can buy credits");
      expect((await visitPage(gateway, `${page}/buy`, developer)).status).toBe(403);
      const before = (await invoices()).length;
      const form = { do: "buy", amount_usd: "10", once: "x" };
      expect((await visitPage(gateway, page, developer, form)).status).toBe(403);
      expect(await invoices()).toHaveLength(before);
    });

    test("auto top-up requires a saved method and three consistent amounts", async () => {
      const enable = (rules: Readonly<Record<string, string>> = {}) =>
        visitPage(gateway, page, owner, {
          do: "allow",
          threshold_usd: "0.01",
          amount_usd: "10",
          monthly_ceiling_usd: "100",
          ...rules,
        });
      expect(textOf(await enable())).toContain("Save a payment method first");
      const redirect = await visitPage(gateway, page, owner, { do: "save_method" });
      expect([redirect.status, redirect.location]).toEqual([303, `${gateway.url}${page}/card`]);
      const saved = await visitPage(gateway, `${page}/card`, owner, { card: "works" });
      expect(saved.location).toBe(`${page}?saved=1`);
      const afterSaving = textOf(await visitPage(gateway, `${page}?saved=1`, owner));
      expect(afterSaving).toContain("The payment method is saved");
      expect(afterSaving).toContain("Payment method: Test card that succeeds");
      for (const [rules, message] of [
        [{ amount_usd: "0.10" }, "The amount must be from $1.00"],
        [{ threshold_usd: "0" }, "The balance threshold must be a US dollar amount"],
        [{ monthly_ceiling_usd: "9.99" }, "The monthly limit must be a US dollar amount"],
      ] as const) {
        const rejected = await enable(rules);
        expect(textOf(rejected)).toContain(message);
        for (const [name, value] of Object.entries(rules))
          expect(rejected.text).toMatch(new RegExp(`name="${name}"[^>]* value="${value}"`));
      }
      expect(await findAutoTopUp(gateway.server.db, account.id)).toBeUndefined();
      expect((await enable()).status).toBe(303);
      const words = textOf(await visitPage(gateway, page, owner));
      expect(words).toContain("Auto top-up on");
      expect(words).toContain(
        "When the balance falls below $0.01, auto top-up buys $10.00 of credits and charges $10.50",
      );
      expect(textOf(await visitPage(gateway, page, developer))).toContain("Auto top-up on");
    });

    test("billing page and overview show why auto top-up stopped, until the owner enables it", async () => {
      await gateway.server.db.write((tx) =>
        tx.run(
          "update auto_top_up set status = 'stopped', stopped_reason = 'payment_failed', stopped_at = 1, failures = 2 where account_id = ?",
          [account.id],
        ),
      );
      for (const path of [page, `/console/${account.id}`])
        for (const user of [owner, developer]) {
          const response = await visitPage(gateway, path, user);
          expect(response.text).toContain('role="alert"');
          expect(textOf(response)).toContain("Auto top-up stopped: two payments in a row failed");
        }
      await visitPage(gateway, page, owner, {
        do: "allow",
        threshold_usd: "0.01",
        amount_usd: "10",
        monthly_ceiling_usd: "100",
      });
      expect(textOf(await visitPage(gateway, page, owner))).not.toContain("has stopped");
      expect(await findAutoTopUp(gateway.server.db, account.id)).toMatchObject({
        status: "on",
        failures: 0,
      });
    });

    test("the owner can disable auto top-up; removing the method disables it too", async () => {
      await visitPage(gateway, page, owner, { do: "turn_off" });
      expect(textOf(await visitPage(gateway, page, owner))).toContain("Auto top-up off");
      expect(await findMethod(gateway.server.db, account.id)).toBeDefined();
      await visitPage(gateway, page, owner, { do: "remove_method" });
      expect(await findMethod(gateway.server.db, account.id)).toBeUndefined();
      expect(textOf(await visitPage(gateway, page, owner))).toContain("Add payment method");
    });

    test("the owner sets the low-balance alert, and an invalid amount is reported beside its field", async () => {
      const alert = (low_usd: string, user = owner) =>
        visitPage(gateway, page, user, { do: "alert", low_usd });
      const rejected = await alert("many");
      expect(rejected.status).toBe(400);
      expect(rejected.text).toMatch(/id="low-usd"[^>]* value="many"[^>]* aria-invalid="true"/);
      expect(textOf(rejected)).toContain("The amount must be a US dollar amount from 0");
      expect((await alert("2.50")).location).toBe(`${page}?done=alert_saved`);
      expect((await visitPage(gateway, page, owner)).text).toMatch(/id="low-usd"[^>]* value="2.5"/);
      expect((await alert("1", developer)).status).toBe(403);
      const audit = await fetch(`${gateway.url}/v1/audit?action=balance_alert.changed`, {
        headers: account.headers,
      });
      const { data } = (await audit.json()) as { data: { detail: object }[] };
      expect(data).toMatchObject([{ detail: { low_usd: "2.5", by: owner.email } }]);
    });

    test("a transfer of ownership removes the method and disables auto top-up", async () => {
      await visitPage(gateway, `${page}/card`, owner, { card: "works" });
      await visitPage(gateway, page, owner, {
        do: "allow",
        threshold_usd: "0.01",
        amount_usd: "10",
        monthly_ceiling_usd: "100",
      });
      const members = `/console/${account.id}/members`;
      const form = { do: "hand_over", person: developer.personId };
      const startedAt = Date.now();
      expect((await visitPage(gateway, members, owner, form)).status).toBe(303);
      expect(await findMethod(gateway.server.db, account.id)).toBeUndefined();
      expect(await findAutoTopUp(gateway.server.db, account.id)).toMatchObject({ status: "off" });
      expect((await visitPage(gateway, page, owner, { do: "turn_off" })).status).toBe(403);
      for (const action of ["auto_top_up.turned_off", "payment_method.removed"]) {
        const path = `/v1/audit?limit=1&action=${action}`;
        const audit = await fetch(gateway.url + path, { headers: account.headers });
        const { data } = (await audit.json()) as { data: { created_at: string }[] };
        const entry = {
          actor: { type: "person", id: owner.personId },
          detail: { by: owner.email },
        };
        expect(data).toMatchObject([entry]);
        expect(Date.parse(data[0]?.created_at ?? "")).toBeGreaterThanOrEqual(startedAt);
      }
    });

    test("test cards can be saved only from the gateway's own machine; unknown cards are rejected", async () => {
      const form = { card: "gold" };
      expect((await visitPage(gateway, `${page}/card`, developer, form)).status).toBe(400);
      const other = await startGateway({ store, env: { POSTERN_TRUSTED_PROXIES: "127.0.0.1" } });
      const otherAccount = await registerAccount(other);
      const otherOwner = await createUser(other, "olga");
      await makeOwner(other, otherAccount.id, otherOwner);
      const response = await fetch(`${other.url}/console/${otherAccount.id}/billing/card`, {
        method: "POST",
        headers: {
          cookie: otherOwner.cookie,
          "sec-fetch-site": "same-origin",
          "content-type": "application/x-www-form-urlencoded",
          "x-forwarded-for": "203.0.113.9",
        },
        body: new URLSearchParams({ csrf: otherOwner.csrf, card: "works" }).toString(),
      });
      expect(response.status).toBe(403);
      expect(await findMethod(other.server.db, otherAccount.id)).toBeUndefined();
      await other.stop();
    });
  });

describe("the billing page with Stripe", () => {
  let gateway: Gateway;
  let stripe: FakeStripe;
  let account: TestAccount;
  let owner: TestUser;
  let page: string;
  beforeAll(async () => {
    stripe = startFakeStripe();
    gateway = await startGateway({ env: stripe.env });
    account = await registerAccount(gateway);
    page = `/console/${account.id}/billing`;
    owner = await createUser(gateway, "olga");
    await makeOwner(gateway, account.id, owner);
  });
  afterAll(async () => {
    await gateway.stop();
    await stripe.stop();
  });

  const setupAt = (url: string | null) => {
    const setup = stripe.setupSessions.get(url?.split("/").at(-1) ?? "");
    if (setup === undefined) throw new Error(`no setup page at ${url}`);
    return setup;
  };

  test("repeated clicks lead to one Stripe page, and the saved method is shown afterwards", async () => {
    const response = await visitPage(gateway, page, owner);
    expect(response.headers.get("content-security-policy")).toContain(stripe.url);
    const clicks = await Promise.all(
      [1, 2, 3].map(() => visitPage(gateway, page, owner, { do: "save_method" })),
    );
    expect(new Set(clicks.map(({ location }) => location)).size).toBe(1);
    expect(stripe.setupSessions.size).toBe(1);
    expect(textOf(await visitPage(gateway, `${page}?saved=1`, owner))).toContain("being confirmed");
    stripe.completeSetup(setupAt(clicks[0]?.location ?? null));
    // The page reconciles a setup at most every two seconds.
    await eventuallyPasses(async () => {
      const text = textOf(await visitPage(gateway, `${page}?saved=1`, owner));
      expect(text).toContain("Payment method: Visa ending in 4242");
    });
  });

  test("a webhook saves the method, and an expired setup page is replaced", async () => {
    const first = setupAt((await visitPage(gateway, page, owner, { do: "save_method" })).location);
    first.status = "expired";
    const second = setupAt((await visitPage(gateway, page, owner, { do: "save_method" })).location);
    expect(second.id).not.toBe(first.id);
    const { id } = stripe.completeSetup(second);
    for (const webhook of stripe.webhookEvents.splice(0))
      expect((await stripe.sendWebhook(gateway.url, webhook)).status).toBe(200);
    expect(await findMethod(gateway.server.db, account.id)).toMatchObject({ ref: id });
  });

  test("a setup page opened before a transfer of ownership saves nothing afterwards", async () => {
    const setup = setupAt((await visitPage(gateway, page, owner, { do: "save_method" })).location);
    const newOwner = await createUser(gateway, "newOwner");
    await makeDeveloper(gateway, account.id, newOwner);
    // Directly in the store, so that the methods are not removed by the change.
    await gateway.server.db.write((tx) =>
      transferOwnership(tx, personActIn(account.id, owner.personId, Date.now()), newOwner.personId),
    );
    const before = await findMethod(gateway.server.db, account.id);
    stripe.completeSetup(setup);
    for (const webhook of stripe.webhookEvents.splice(0))
      await stripe.sendWebhook(gateway.url, webhook);
    expect(await findMethod(gateway.server.db, account.id)).toEqual(before);
    expect(await listMethods(gateway.server.db, account.id, "saving")).toEqual([]);
  });

  test("while Stripe is down, the page is shown and saving a method returns 503", async () => {
    const newOwner = await createUser(gateway, "newOwner");
    stripe.fault = "down";
    expect((await visitPage(gateway, page, newOwner)).status).toBe(200);
    const response = await visitPage(gateway, page, newOwner, { do: "save_method" });
    expect(response.status).toBe(503);
    expect(textOf(response)).toContain("payment service is not available");
    stripe.fault = "ok";
  });
});

test("with bank transfers, the page says that no method can be saved", async () => {
  const gateway = await startGateway({
    env: { POSTERN_BASE_URL: "https://gateway.example", POSTERN_SECRET: "s".repeat(40) },
  });
  const account = await registerAccount(gateway);
  const owner = await createUser(gateway, "olga");
  await makeOwner(gateway, account.id, owner);
  const page = `/console/${account.id}/billing`;
  expect(textOf(await visitPage(gateway, page, owner))).toContain(
    "this gateway accepts bank transfers only",
  );
  const response = await visitPage(gateway, page, owner, { do: "save_method" });
  expect([response.status, textOf(response)]).toEqual([
    400,
    expect.stringContaining("bank transfer"),
  ]);
  expect((await visitPage(gateway, `${page}/card`, owner)).status).toBe(404);
  await gateway.stop();
});
