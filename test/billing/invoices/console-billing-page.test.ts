// The billing page of the console: what everybody in a workspace sees, what its owner does there, and what nobody can.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { transferOwnership } from "../../../src/accounts/members.ts";
import { findMethod, listMethods } from "../../../src/billing/top-up/payment-method-rows.ts";
import { findAutoTopUp } from "../../../src/billing/top-up/top-up-rows.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";
import { type FakeStripe, startFakeStripe } from "../../support/fakes/stripe.ts";
import {
  api,
  buyCredits,
  expectLedgerValid,
  type InvoiceBody,
  pageText,
  readInvoice,
  invoiceAuditEntries,
} from "../fixtures.ts";
import {
  type TestUser,
  createUser,
  makeDeveloper,
  makeOwner,
  visitPage,
  textOf,
} from "../console-user.ts";

// The first of these tests starts a PostgreSQL, on a machine that may be busy.
setDefaultTimeout(60_000);

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
    const quoteOf = async (usd: string) => {
      const shown = await visitPage(gateway, `${page}?amount_usd=${usd}`, owner);
      return { ...shown, once: /name="once" value="([^"]+)"/.exec(shown.text)?.[1] ?? "" };
    };

    test("shows the balance, given and bought, and that nothing is bought by itself", async () => {
      for (const who of [owner, developer]) {
        const words = textOf(await visitPage(gateway, page, who));
        expect(words).toContain("$0.05 left");
        expect(words).toContain("$0.00 bought and $0.05 given");
        expect(words).toContain("Auto top-up is off");
        expect(words).toContain("None yet.");
      }
    });

    test("shows credits, fee and total before anything is made, and makes nothing by that", async () => {
      const shown = await quoteOf("33.33");
      expect(shown.status).toBe(200);
      const words = textOf(shown);
      for (const said of ["33,330,000 credits $33.33", "fee, 5 % $1.67", "Total before tax $35.00"])
        expect(words).toContain(said);
      expect(await invoices()).toEqual([]);
    });

    for (const [usd, why] of [
      ["0.99", "must be from"],
      ["25000.01", "must be from"],
      ["1.005", "whole cents"],
      ["ten", "whole cents"],
      ["", "whole cents"],
    ] as const)
      test(`an amount of "${usd}" is refused on the page, which says from where to where it may be`, async () => {
        const shown = await quoteOf(usd);
        expect(shown.status).toBe(400);
        expect(textOf(shown)).toContain(why);
        expect(textOf(shown)).toContain("from $1.00 to $25,000.00");
        expect(shown.text).toMatch(new RegExp(`id="buy-amount"[^>]* value="${usd}"`));
      });

    test("two clicks, and the form sent again later, are one invoice, and lead to its page", async () => {
      const { once } = await quoteOf("10");
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

    test("the same token for another amount buys nothing", async () => {
      const { once } = await quoteOf("20");
      await visitPage(gateway, page, owner, { do: "buy", amount_usd: "20", once });
      const before = (await invoices()).length;
      const shown = await visitPage(gateway, page, owner, { do: "buy", amount_usd: "2000", once });
      expect(shown.status).toBe(400);
      expect(await invoices()).toHaveLength(before);
    });

    test("lists every invoice with its status and the ways that lead on, the automatic ones marked", async () => {
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
      const shown = await visitPage(gateway, page, developer);
      expect(shown.text).toContain(`href="${open.pay_url}"`);
      expect(shown.text).toContain(`href="${paid.pay_url}/receipt"`);
      expect(shown.text).not.toContain('value="void"');
      expect((await visitPage(gateway, page, owner)).text).toContain('value="void"');
    });

    test("the owner withdraws an open invoice; a paid one, or another workspace's, cannot be", async () => {
      const [open] = await invoices("open");
      const [paid] = await invoices("paid");
      const elsewhere = await registerAccount(gateway);
      const theirs = await buyCredits(gateway, elsewhere);
      const withdraw = (invoice: string) =>
        visitPage(gateway, page, owner, { do: "void", invoice });
      expect((await withdraw(open?.id ?? "")).status).toBe(303);
      expect((await readInvoice(gateway, account, open?.id ?? "")).status).toBe("void");
      expect((await withdraw(paid?.id ?? "")).status).toBe(400);
      expect((await withdraw(theirs.id)).status).toBe(404);
      expect((await readInvoice(gateway, elsewhere, theirs.id)).status).toBe("open");
      const told = await invoiceAuditEntries(gateway.server.db, account.id);
      expect(told[0]).toMatch(new RegExp(`^invoice.created inv_\\w+ person ${owner.personId}$`));
      expect(told.at(-1)).toBe(`invoice.voided ${open?.id} person ${owner.personId}`);
    });

    test("a developer is shown no form, and what they send all the same is refused", async () => {
      const { text } = await visitPage(gateway, `${page}?amount_usd=10`, developer);
      expect(text).not.toContain('action="' + page);
      expect(text).toContain("The owner buys credits");
      const before = (await invoices()).length;
      const form = { do: "buy", amount_usd: "10", once: "x" };
      expect((await visitPage(gateway, page, developer, form)).status).toBe(403);
      expect(await invoices()).toHaveLength(before);
    });

    test("auto top-up needs a method first, then three amounts that fit each other", async () => {
      const allow = (rules: Readonly<Record<string, string>> = {}) =>
        visitPage(gateway, page, owner, {
          do: "allow",
          threshold_usd: "0.01",
          amount_usd: "10",
          monthly_ceiling_usd: "100",
          ...rules,
        });
      expect(textOf(await allow())).toContain("Save a payment method first");
      const led = await visitPage(gateway, page, owner, { do: "save_method" });
      expect([led.status, led.location]).toEqual([303, `${gateway.url}${page}/card`]);
      const saved = await visitPage(gateway, `${page}/card`, owner, { card: "works" });
      expect(saved.location).toBe(`${page}?saved=1`);
      const back = textOf(await visitPage(gateway, `${page}?saved=1`, owner));
      expect(back).toContain("The payment method is saved");
      expect(back).toContain("It charges: Test card that succeeds");
      for (const [rules, why] of [
        [{ amount_usd: "0.10" }, "The amount must be from $1.00"],
        [{ threshold_usd: "0" }, "The balance threshold must be an amount"],
        [{ monthly_ceiling_usd: "9.99" }, "The monthly limit must be an amount"],
      ] as const) {
        const refused = await allow(rules);
        expect(textOf(refused)).toContain(why);
        for (const [name, typed] of Object.entries(rules))
          expect(refused.text).toMatch(new RegExp(`name="${name}"[^>]* value="${typed}"`));
      }
      expect(await findAutoTopUp(gateway.server.db, account.id)).toBeUndefined();
      expect((await allow()).status).toBe(303);
      const words = textOf(await visitPage(gateway, page, owner));
      expect(words).toContain("Auto top-up is on");
      expect(words).toContain("Below $0.01 it buys credits for $10.00, which charges $10.50");
      expect(textOf(await visitPage(gateway, page, developer))).toContain("Auto top-up is on");
    });

    test("when it has stopped, the page and the overview say so and why, until the owner turns it on again", async () => {
      await gateway.server.db.write((tx) =>
        tx.run(
          "update auto_top_up set status = 'stopped', stopped_reason = 'payment_failed', stopped_at = 1, failures = 2 where account_id = ?",
          [account.id],
        ),
      );
      for (const path of [page, `/console/${account.id}`])
        for (const who of [owner, developer]) {
          const shown = await visitPage(gateway, path, who);
          expect(shown.text).toContain('role="alert"');
          expect(textOf(shown)).toContain("has stopped: two payments in a row failed");
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

    test("it is turned off, and the method removed, which turns it off as well", async () => {
      await visitPage(gateway, page, owner, { do: "turn_off" });
      expect(textOf(await visitPage(gateway, page, owner))).toContain("Auto top-up is off");
      expect(await findMethod(gateway.server.db, account.id)).toBeDefined();
      await visitPage(gateway, page, owner, { do: "remove_method" });
      expect(await findMethod(gateway.server.db, account.id)).toBeUndefined();
      expect(textOf(await visitPage(gateway, page, owner))).toContain("No payment method is saved");
    });

    test("handing the workspace over removes the method of who had it, and turns it off", async () => {
      await visitPage(gateway, `${page}/card`, owner, { card: "works" });
      await visitPage(gateway, page, owner, {
        do: "allow",
        threshold_usd: "0.01",
        amount_usd: "10",
        monthly_ceiling_usd: "100",
      });
      const members = `/console/${account.id}/members`;
      const form = { do: "hand_over", person: developer.personId };
      const began = Date.now();
      expect((await visitPage(gateway, members, owner, form)).status).toBe(303);
      expect(await findMethod(gateway.server.db, account.id)).toBeUndefined();
      expect(await findAutoTopUp(gateway.server.db, account.id)).toMatchObject({ status: "off" });
      expect((await visitPage(gateway, page, owner, { do: "turn_off" })).status).toBe(403);
      for (const action of ["auto_top_up.turned_off", "payment_method.removed"]) {
        const path = `/v1/audit?limit=1&action=${action}`;
        const told = await fetch(gateway.url + path, { headers: account.headers });
        const { data } = (await told.json()) as { data: { created_at: string }[] };
        const by = { actor: { type: "person", id: owner.personId }, detail: { by: owner.email } };
        expect(data).toMatchObject([by]);
        expect(Date.parse(data[0]?.created_at ?? "")).toBeGreaterThanOrEqual(began);
      }
    });

    test("a card that is none cannot be saved from afar, nor one that there is none of", async () => {
      const form = { card: "gold" };
      expect((await visitPage(gateway, `${page}/card`, developer, form)).status).toBe(400);
      const other = await startGateway({ store, env: { POSTERN_TRUSTED_PROXIES: "127.0.0.1" } });
      const theirs = await registerAccount(other);
      const who = await createUser(other, "olga");
      await makeOwner(other, theirs.id, who);
      const answer = await fetch(`${other.url}/console/${theirs.id}/billing/card`, {
        method: "POST",
        headers: {
          cookie: who.cookie,
          "sec-fetch-site": "same-origin",
          "content-type": "application/x-www-form-urlencoded",
          "x-forwarded-for": "203.0.113.9",
        },
        body: new URLSearchParams({ csrf: who.csrf, card: "works" }).toString(),
      });
      expect(answer.status).toBe(403);
      expect(await findMethod(other.server.db, theirs.id)).toBeUndefined();
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
    if (setup === undefined) throw new Error(`no page at ${url}`);
    return setup;
  };

  test("its policy lets the form lead to Stripe; two clicks lead to one page, and the payer comes back to what is saved", async () => {
    const shown = await visitPage(gateway, page, owner);
    expect(shown.headers.get("content-security-policy")).toContain(stripe.url);
    const clicks = await Promise.all(
      [1, 2, 3].map(() => visitPage(gateway, page, owner, { do: "save_method" })),
    );
    expect(new Set(clicks.map(({ location }) => location)).size).toBe(1);
    expect(stripe.setupSessions.size).toBe(1);
    expect(textOf(await visitPage(gateway, `${page}?saved=1`, owner))).toContain("being confirmed");
    stripe.completeSetup(setupAt(clicks[0]?.location ?? null));
    await Bun.sleep(2_100);
    const back = textOf(await visitPage(gateway, `${page}?saved=1`, owner));
    expect(back).toContain("It charges: Visa ending in 4242");
  });

  test("a webhook says it, too; a page that ran out is followed by another", async () => {
    const first = setupAt((await visitPage(gateway, page, owner, { do: "save_method" })).location);
    first.status = "expired";
    const second = setupAt((await visitPage(gateway, page, owner, { do: "save_method" })).location);
    expect(second.id).not.toBe(first.id);
    const { id } = stripe.completeSetup(second);
    for (const letter of stripe.webhookEvents.splice(0))
      expect((await stripe.sendWebhook(gateway.url, letter)).status).toBe(200);
    expect(await findMethod(gateway.server.db, account.id)).toMatchObject({ ref: id });
  });

  test("a page at Stripe that was opened before the workspace was handed over saves nothing after it", async () => {
    const setup = setupAt((await visitPage(gateway, page, owner, { do: "save_method" })).location);
    const heir = await createUser(gateway, "heir");
    await makeDeveloper(gateway, account.id, heir);
    // By the room alone, as if the change of the methods had been missed.
    await gateway.server.db.write((tx) =>
      transferOwnership(tx, account.id, owner.personId, heir.personId),
    );
    const before = await findMethod(gateway.server.db, account.id);
    stripe.completeSetup(setup);
    for (const letter of stripe.webhookEvents.splice(0))
      await stripe.sendWebhook(gateway.url, letter);
    expect(await findMethod(gateway.server.db, account.id)).toEqual(before);
    expect(await listMethods(gateway.server.db, account.id, "saving")).toEqual([]);
  });

  test("a Stripe that is down: the page is shown, and saving says that it cannot be reached", async () => {
    const heir = await createUser(gateway, "heir");
    stripe.fault = "down";
    expect((await visitPage(gateway, page, heir)).status).toBe(200);
    const led = await visitPage(gateway, page, heir, { do: "save_method" });
    expect([led.status, textOf(led)]).toEqual([503, expect.stringContaining("cannot be reached")]);
    stripe.fault = "fine";
  });
});

test("with bank transfers there is nothing that could be charged, and the page says so", async () => {
  const gateway = await startGateway({
    env: { POSTERN_BASE_URL: "https://gateway.example", POSTERN_SECRET: "s".repeat(40) },
  });
  const account = await registerAccount(gateway);
  const owner = await createUser(gateway, "olga");
  await makeOwner(gateway, account.id, owner);
  const page = `/console/${account.id}/billing`;
  expect(textOf(await visitPage(gateway, page, owner))).toContain("nothing that it could charge");
  const led = await visitPage(gateway, page, owner, { do: "save_method" });
  expect([led.status, textOf(led)]).toEqual([400, expect.stringContaining("bank transfer")]);
  expect((await visitPage(gateway, `${page}/card`, owner)).status).toBe(404);
  await gateway.stop();
});
