// The operator's pages: what they show, what each form does once, and what is refused.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { addDeveloper, claimWorkspace } from "../../src/accounts/members.ts";
import { newId } from "../../src/base/id.ts";
import { createInvoice } from "../../src/billing/invoices/invoices.ts";
import { ingestFacts } from "../../src/billing/payments/checkouts.ts";
import { createLog } from "../../src/base/log.ts";
import { markPaid } from "../../src/billing/payments/manual-payments.ts";
import type { FactKind } from "../../src/billing/payments/payment-processor.ts";
import { recordPerson } from "../../src/people/people.ts";
import { expectLedgerValid, NANO_PER_USD, readWallet } from "../billing/fixtures.ts";
import { type TestAccount, registerAccount } from "../support/gateway.ts";
import { describeEachStore } from "../support/stores/stores.ts";
import {
  OPERATOR_EMAIL,
  OTHER_OPERATOR_EMAIL,
  type OperatorHarness,
  hiddenFields,
  insertUnclearPayment,
  fetchPage,
  startOperatorHarness,
  type OperatorSession,
  signInOperator,
  type PageResponse,
  readAudit,
} from "./harness.ts";

const UNKNOWN_ACCOUNT = "acct_01kah5t3mq7d2c9w4e6r8t0yax";

describeEachStore((kind) => {
  describe(`the operator's pages on ${kind}`, () => {
    let desk: OperatorHarness;
    let seat: OperatorSession;
    let account: TestAccount;

    beforeAll(async () => {
      desk = await startOperatorHarness(kind);
      seat = await signInOperator(desk);
    });
    beforeEach(async () => {
      desk.clock.now += 10;
      account = await registerAccount(desk.gateway);
    });
    afterAll(() => desk.gateway.stop());

    const db = () => desk.gateway.server.db;
    const fileOf = (id = account.id): string => `/operator/accounts/${id}`;
    const page = async (path = fileOf()): Promise<PageResponse> => {
      const seen = await fetchPage(desk, path, seat);
      expect([path, seen.status]).toEqual([path, 200]);
      return seen;
    };
    const post = (
      fields: Record<string, string>,
      by = seat,
      path = fileOf(),
    ): Promise<PageResponse> => fetchPage(desk, path, by, { form: fields });
    /** Fills in the form that the page has for it. */
    const submit = async (act: string, typed: Record<string, string>): Promise<PageResponse> =>
      post({ ...hiddenFields(await page(), act), ...typed });
    const told = async (action: string) =>
      (await readAudit(db(), action)).filter((one) => one.account_id === account.id);

    test("a key that works is shown, and when it was last used, however many were revoked after it", async () => {
      const keys = `${desk.gateway.url}/v1/keys`;
      const { headers } = account;
      // Safe because a list of keys has their ids.
      const listed = (await (await fetch(keys, { headers })).json()) as { data: { id: string }[] };
      for (let made = 0; made < 100; made++) {
        const minted = await fetch(keys, { method: "POST", headers, body: "{}" });
        // Safe because a key has an id.
        const { id } = (await minted.json()) as { id: string };
        await fetch(`${keys}/${id}`, { method: "DELETE", headers });
      }
      const first = listed.data[0]?.id ?? "none";
      await db().write((tx) =>
        tx.updateMany("api_key", ["id:text", "last_used_at:bigint"], [[first, desk.clock.now]]),
      );
      const { text } = await page();
      expect(text).toContain(first);
      expect(text).not.toContain("; never used");
      expect(text).toContain("those that are not revoked come first");
    });

    describe("the forms of an account", () => {
      test("grant promotional credit, under the operator's name", async () => {
        const done = await submit("grant", { usd: "2.5", reason: "for the outage" });
        expect([done.status, done.location]).toEqual([303, `${fileOf()}?done=granted`]);
        expect(await readWallet(db(), account.id)).toMatchObject({ promo: 2_550_000_000n });
        expect(await told("account.credited")).toMatchObject([
          {
            actor: `operator ${OPERATOR_EMAIL}`,
            network: "127.0.0.0/24",
            detail: {
              usd: "2.5",
              reason: "for the outage",
              promo_before: "0.05",
              promo_after: "2.55",
            },
          },
        ]);
        const after = await page(done.location ?? "");
        expect(after.text).toContain("The credit was granted.");
        expect(after.text).toContain("for the outage");
        expect(after.text).toContain("$2.55");
      });

      test("adjust the balance, by the rule or in a bucket", async () => {
        await submit("adjust", { usd: "3", bucket: "", reason: "up" });
        expect(await readWallet(db(), account.id)).toMatchObject({ paid: 3n * NANO_PER_USD });
        await submit("adjust", { usd: "−1", bucket: "paid", reason: "down" });
        expect(await readWallet(db(), account.id)).toMatchObject({
          paid: 2n * NANO_PER_USD,
          promo: 50_000_000n,
        });
        expect((await told("account.adjusted")).length).toBe(2);
      });

      test("freeze and unfreeze, and the page offers the one that is left", async () => {
        expect((await submit("freeze", { reason: "abuse <b>" })).location).toContain("done=frozen");
        const frozen = await page();
        expect(frozen.text).toContain("Frozen by an operator since");
        expect(frozen.text).toContain("abuse &lt;b&gt;");
        expect(() => hiddenFields(frozen, "freeze")).toThrow();
        expect((await submit("unfreeze", { reason: "they called" })).location).toContain(
          "done=unfrozen",
        );
        expect((await page()).text).not.toContain("Frozen by an operator");
      });

      test("a freeze that another operator was faster with changes nothing, and says so", async () => {
        const [one, other] = [await page(), await page()];
        await post({ ...hiddenFields(one, "freeze"), reason: "first" });
        const late = await post({ ...hiddenFields(other, "freeze"), reason: "second" });
        expect(late.location).toContain("done=unchanged");
        expect((await told("account.frozen")).length).toBe(1);
      });

      test("bear a debt, which is offered only where there is one", async () => {
        expect(() => hiddenFields({ text: "" } as PageResponse, "write_off")).toThrow();
        expect((await page()).text).not.toContain("Write off");
        await payment(900, "disputed");
        expect((await page()).text).toContain("Frozen by a dispute");
        const done = await submit("write_off", { reason: "lost" });
        expect(done.location).toContain("done=written_off");
        expect(await readWallet(db(), account.id)).toMatchObject({ owed: 0n });
        await expectLedgerValid(db());
      });

      test("sent twice, or ten times at once, they change it once and answer alike", async () => {
        const fields = { ...hiddenFields(await page(), "grant"), usd: "1", reason: "double click" };
        const answers = await Promise.all(Array.from({ length: 10 }, () => post(fields)));
        answers.push(await post(fields));
        expect(
          new Set(answers.map(({ status, location }) => `${status} ${location ?? ""}`)),
        ).toEqual(new Set([`303 ${fileOf()}?done=granted`]));
        expect(await readWallet(db(), account.id)).toMatchObject({
          promo: NANO_PER_USD + 50_000_000n,
        });
        expect((await told("account.credited")).length).toBe(1);
      });

      test("sent again with another wish they are refused, and a fresh form is there", async () => {
        const fields: Record<string, string> = {
          ...hiddenFields(await page(), "grant"),
          usd: "1",
          reason: "first",
        };
        await post(fields);
        const again = await post({ ...fields, usd: "100" });
        expect(again.status).toBe(400);
        expect(again.text).toContain("This form was sent before, and asked for something else");
        expect(hiddenFields(again, "grant")["form"]).not.toBe(fields["form"]);
        expect(await readWallet(db(), account.id)).toMatchObject({
          promo: NANO_PER_USD + 50_000_000n,
        });
      });

      test("two operators' forms are two, whatever their names", async () => {
        const ben = await signInOperator(desk, OTHER_OPERATOR_EMAIL);
        const form = hiddenFields(await page(), "grant")["form"] ?? "";
        const fields = { do: "grant", form, usd: "1", reason: "both" };
        await post({ ...fields, csrf: seat.csrf });
        await post({ ...fields, csrf: ben.csrf }, ben);
        // The transfer bears the form's name, so even this is one change of the balance.
        expect(await readWallet(db(), account.id)).toMatchObject({
          promo: NANO_PER_USD + 50_000_000n,
        });
      });

      test("what cannot be done is said on the page, with what was typed, and nothing is changed", async () => {
        const before = await readAudit(db());
        for (const [act, typed, says] of [
          ["grant", { usd: "0", reason: "x" }, "is not an amount"],
          ["grant", { usd: "five", reason: "x" }, "is not an amount"],
          ["grant", { usd: "-1", reason: "x" }, "above zero"],
          ["grant", { usd: "1", reason: "   " }, "The reason must say something"],
          ["grant", { usd: "9000001", reason: "x" }, "cannot exceed"],
          ["adjust", { usd: "-0.06", reason: "x" }, "At most 0.05 USD can be taken"],
          ["adjust", { usd: "-0.01", bucket: "paid", reason: "x" }, "from paid"],
          ["adjust", { usd: "1", bucket: "other", reason: "x" }, "bucket"],
          ["freeze", { reason: "" }, "The reason must say something"],
        ] as const) {
          const seen = await submit(act, typed);
          expect([act, seen.status]).toEqual([act, 400]);
          expect(seen.text).toContain('role="alert"');
          expect(seen.text.replaceAll("&#39;", "'")).toContain(says);
        }
        expect((await submit("grant", { usd: "5x", reason: "kept text" })).text).toContain(
          'value="kept text"',
        );
        const bucket = await submit("adjust", { usd: "-1", bucket: "promo", reason: "kept text" });
        expect(bucket.text).toMatch(/<option value="promo" selected/);
        expect(await readAudit(db())).toEqual(before);
        expect(await readWallet(db(), account.id)).toMatchObject({ promo: 50_000_000n, paid: 0n });
      });

      test("an account that is not there is answered 404, in forms too", async () => {
        for (const id of [UNKNOWN_ACCOUNT, "acct_1", "nonsense", "..%2f..%2fconsole"])
          expect([id, (await fetchPage(desk, fileOf(id), seat)).status]).toEqual([id, 404]);
        const fields = { ...hiddenFields(await page(), "grant"), usd: "1", reason: "x" };
        expect((await post(fields, seat, fileOf(UNKNOWN_ACCOUNT))).status).toBe(404);
      });
    });

    describe("a hostile form", () => {
      const wish = { do: "grant", usd: "100", reason: "theft", form: "A".repeat(22) };

      test("without the session's token, with another's, or with an older session's does nothing", async () => {
        const ben = await signInOperator(desk, OTHER_OPERATOR_EMAIL);
        for (const csrf of ["", "guessed", ben.csrf])
          expect((await post({ ...wish, csrf })).status).toBe(403);
        expect((await post(wish)).status).toBe(403);
        expect(await readWallet(db(), account.id)).toMatchObject({ promo: 50_000_000n });
      });

      test("from another site does nothing, even with the token", async () => {
        for (const headers of [
          { "sec-fetch-site": "cross-site" },
          { "sec-fetch-site": "same-site" },
          { "sec-fetch-site": "none" },
        ]) {
          const seen = await fetchPage(desk, fileOf(), seat, {
            form: { ...wish, csrf: seat.csrf },
            headers,
          });
          expect([headers, seen.status]).toEqual([headers, 403]);
        }
        const old = (origin: string): Promise<Response> =>
          fetch(desk.gateway.url + fileOf(), {
            method: "POST",
            redirect: "manual",
            headers: {
              cookie: seat.cookie,
              origin,
              "content-type": "application/x-www-form-urlencoded",
            },
            body: new URLSearchParams({ ...wish, csrf: seat.csrf }).toString(),
          });
        expect((await old("https://evil.example")).status).toBe(403);
        expect((await old("null")).status).toBe(403);
        expect(await readWallet(db(), account.id)).toMatchObject({ promo: 50_000_000n });
        expect((await old(desk.gateway.url)).status).toBe(303);
      });

      test("as JSON, without a name of its own, or for an act that there is not does nothing", async () => {
        const json = await fetch(desk.gateway.url + fileOf(), {
          method: "POST",
          redirect: "manual",
          headers: {
            cookie: seat.cookie,
            "content-type": "application/json",
            "sec-fetch-site": "same-origin",
          },
          body: JSON.stringify({ ...wish, csrf: seat.csrf }),
        });
        expect(json.status).toBe(415);
        const { csrf } = seat;
        expect((await post({ ...wish, csrf, form: "" })).status).toBe(400);
        expect((await post({ ...wish, csrf, form: "x".repeat(500) })).status).toBe(400);
        expect((await post({ ...wish, csrf, do: "delete" })).status).toBe(400);
        expect(await readWallet(db(), account.id)).toMatchObject({ promo: 50_000_000n });
      });

      test("an API key opens none of these pages", async () => {
        const seen = await fetchPage(desk, fileOf(), undefined, { headers: account.headers });
        expect([seen.status, seen.location?.startsWith("/operator/signin")]).toEqual([303, true]);
      });
    });

    describe("accounts", () => {
      const found = async (query: string): Promise<readonly string[]> => {
        const seen = await page(`/operator?${query}`);
        return [...seen.text.matchAll(/accounts\/(acct_[0-9a-z]+)"/g)].map(([, id = ""]) => id);
      };

      test("are found by id, key, invoice, email address and the beginning of a raw key, and not by less", async () => {
        const invoice = await invoiced(1_000);
        const email = `Olga.${account.id}@Example.com`;
        await db().write(async (tx) => {
          const now = desk.clock.now;
          const who = { issuer: "https://id.test", subject: account.id, email, name: null };
          const person = await recordPerson(tx, who, now);
          await claimWorkspace(tx, {
            accountId: account.id,
            personId: person.id,
            via: "test",
            now,
          });
        });
        const key = await fetch(`${desk.gateway.url}/v1/account`, { headers: account.headers });
        const { key: record } = (await key.json()) as { key: { id: string } };
        for (const search of [
          account.id,
          account.id.slice(0, 20),
          record.id,
          record.id.slice(0, 21),
          invoice,
          email.toLowerCase(),
          ` ${email} `,
          account.key,
          account.key.slice(0, 12),
        ])
          expect([search, await found(new URLSearchParams({ search }).toString())]).toEqual([
            search,
            [account.id],
          ]);
        for (const search of ["olga", "%", "' or 1=1 --", "acct_zzzz", "a@b.example", "key_"])
          expect(
            (await found(new URLSearchParams({ search }).toString())).includes(account.id),
          ).toBe(search === "key_");
      });

      test("are listed by state, newest first, in pages", async () => {
        await submit("freeze", { reason: "test" });
        expect((await found("state=frozen"))[0]).toBe(account.id);
        expect(await found("state=active")).not.toContain(account.id);
        for (let more = 0; more < 51; more++) await registerAccount(desk.gateway);
        const first = await page("/operator");
        const cursor = /cursor=(acct_[0-9a-z]+)/.exec(first.text)?.[1] ?? "";
        const [one, next] = [await found(""), await found(`cursor=${cursor}`)];
        expect(one.length).toBe(50);
        expect(next[0]?.localeCompare(cursor)).toBe(-1);
        expect(next.some((id) => one.includes(id))).toBe(false);
        expect((await fetchPage(desk, "/operator?state=nonsense", seat)).status).toBe(400);
        expect((await fetchPage(desk, "/operator?cursor=inv_1", seat)).status).toBe(400);
      });

      test("show everything of one, and no secret", async () => {
        await submit("grant", { usd: "1", reason: "a gift" });
        await invoiced(1_000);
        await callModel();
        await db().write(async (tx) => {
          const now = desk.clock.now;
          const people = ["owner", "dev"].map((name) => ({
            issuer: "https://id.test",
            subject: `${name} ${account.id}`,
            email: `${name}@example.com`,
            name,
          }));
          const [owner, dev] = [
            await recordPerson(tx, people[0] ?? never(), now),
            await recordPerson(tx, people[1] ?? never(), now),
          ];
          const common = { accountId: account.id, via: "test", now };
          await claimWorkspace(tx, { ...common, personId: owner.id });
          await addDeveloper(tx, { ...common, personId: dev.id });
        });
        const { text } = await page();
        for (const shown of [
          account.id,
          "owner@example.com",
          "dev@example.com",
          account.key.slice(0, 12),
          account.key.slice(-4),
          "$10.00",
          "a gift",
          "sim/echo",
          "account.created",
          "key.created",
          "127.0.0.1/32",
        ])
          expect(text).toContain(shown);
        expect(text).not.toContain(account.key);
        expect(text).not.toContain("<script");
      });
    });

    describe("report, payments and audit log", () => {
      test("the report shows the figures of the period that is asked for", async () => {
        const { text } = await page("/operator/report");
        for (const heading of [
          "Income",
          "Grants given",
          "Liabilities",
          "Cost per provider",
          "Losses",
        ])
          expect(text).toContain(heading);
        const old = await page("/operator/report?from=2020-01-01&to=2020-02-01");
        expect(old.text).toContain("No call went on the gateway");
        expect((await fetchPage(desk, "/operator/report?from=2027-02-30", seat)).status).toBe(400);
        const backwards = await fetchPage(
          desk,
          "/operator/report?from=2027-02-02&to=2027-02-01",
          seat,
        );
        expect(backwards.text).toContain("The period must begin before it ends");
      });

      test("payments show what was paid, what went back, and what needs a human", async () => {
        const invoice = await payment(1_000, "refunded");
        const { text } = await page("/operator/payments");
        expect(text).toContain(invoice);
        expect(text).toContain("$10.50 refunded");
        expect(text).toContain("manual");
        expect((await page("/operator/payments?state=refunded")).text).toContain(invoice);
        expect((await page("/operator/payments?state=open")).text).not.toContain(invoice);
        await hear(invoice, "paid", "second", 1_050);
        const after = await page("/operator/payments");
        expect(after.text).toContain("What needs you");
        expect(after.text).toContain("the invoice was already paid");
        expect((await fetchPage(desk, "/operator/payments?state=lost", seat)).status).toBe(400);
      });

      test("payments show what may have moved money, or may not, until it is marked as paid", async () => {
        const { id, invoiceId, payer } = await insertUnclearPayment(
          db(),
          account.id,
          desk.clock.now,
        );
        const { text } = await page("/operator/payments");
        for (const shown of [
          "What needs you",
          id.split(":").at(-1) ?? "",
          payer,
          "$1.00",
          `postern admin mark-paid ${invoiceId} --reference`,
          fileOf(),
        ])
          expect(text).toContain(shown);
        await markPaid(till(), { invoiceId, reference: `0x ${invoiceId}`, now: desk.clock.now });
        expect((await page("/operator/payments")).text).not.toContain(payer);
      });

      test("the audit log is everybody's, and is searched by account, actor and action", async () => {
        await submit("freeze", { reason: "seen in the log" });
        const all = await page("/operator/audit");
        expect(all.text).toContain("reason: seen in the log");
        const mine = await page(`/operator/audit?account=${account.id}&action=account.frozen`);
        expect(mine.text).toContain("seen in the log");
        expect(mine.text).not.toContain("<td>account.created");
        const nobody = await page("/operator/audit?actor=nobody");
        expect(nobody.text).toContain("There is no such entry.");
        expect((await fetchPage(desk, "/operator/audit?action=nonsense", seat)).status).toBe(400);
      });

      test("an owner reads the operator's reason in their own log, and not the operator's address", async () => {
        await submit("adjust", { usd: "1", reason: "made good" });
        const answer = await fetch(`${desk.gateway.url}/v1/audit?action=account.adjusted`, {
          headers: account.headers,
        });
        const text = await answer.text();
        expect(text).toContain("made good");
        expect(text).toContain('"actor":{"type":"operator","id":"operator"}');
        expect(text).not.toContain(OPERATOR_EMAIL);
        expect(JSON.parse(text).data[0].network).toBe(null);
      });
    });

    async function invoiced(amountCents: number): Promise<string> {
      const about = { accountId: account.id, amountCents, now: desk.clock.now };
      return (await db().write((tx) => createInvoice(tx, about))).id;
    }

    const till = () => ({
      db: db(),
      log: createLog({ level: "error", isPretty: true, now: Date.now, write: () => {} }),
    });

    /** Paid by transfer, spent, and taken back by the bank or given back. */
    async function payment(cents: number, kind: FactKind): Promise<string> {
      const invoiceId = await invoiced(cents);
      const { now } = desk.clock;
      await markPaid(till(), { invoiceId, reference: `in ${invoiceId}`, now });
      if (kind === "disputed") {
        // Spent, as far as the books are concerned.
        const gone = newId("req", now);
        await submit("adjust", { usd: `-${cents / 100}`, bucket: "paid", reason: gone });
      }
      await hear(invoiceId, kind, `in ${invoiceId}`, cents + Math.floor((cents * 5 + 50) / 100));
      return invoiceId;
    }

    async function hear(
      invoiceId: string,
      kind: FactKind,
      paid: string,
      amountCents: number,
    ): Promise<void> {
      const fact = {
        processor: "manual",
        ref: `${kind} ${paid}`,
        kind,
        payment: kind === "paid" ? `${kind} ${paid}` : paid,
        invoiceId,
        amountCents,
        taxCents: 0,
        currency: "usd",
        at: desk.clock.now,
      };
      await ingestFacts(till(), [fact], desk.clock.now);
    }

    async function callModel(): Promise<void> {
      const response = await fetch(`${desk.gateway.url}/v1/chat/completions`, {
        method: "POST",
        headers: account.headers,
        body: JSON.stringify({
          model: "sim/echo",
          max_tokens: 20,
          messages: [{ role: "user", content: "hi" }],
        }),
      });
      expect(response.status).toBe(200);
    }
  });
});

function never(): never {
  throw new Error("it is there");
}
