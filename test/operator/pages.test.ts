// The operator pages: what they show, and what their forms do, once, and reject.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { renameAccount } from "../../src/accounts/accounts.ts";
import { claimWorkspace } from "../../src/accounts/members.ts";
import { recordAuditEntry } from "../../src/activity/audit.ts";
import { newId } from "../../src/base/id.ts";
import { createLog } from "../../src/base/log.ts";
import { createInvoice } from "../../src/billing/invoices/invoices.ts";
import { markPaid } from "../../src/billing/payments/manual-payments.ts";
import { ingestFacts } from "../../src/billing/payments/payment-facts.ts";
import type { FactKind } from "../../src/billing/payments/payment-processor.ts";
import { COMMAND_LINE_ACTOR } from "../../src/operator/accounts/account-actions.ts";
import { recordPerson } from "../../src/people/people.ts";
import { rollUpUsage } from "../../src/usage/rollup/roll-up.ts";
import { expectLedgerValid, NANO_PER_USD, readWallet } from "../billing/fixtures.ts";
import { actIn, addDeveloper } from "../support/act.ts";
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
  describe(`operator pages on ${kind}`, () => {
    let harness: OperatorHarness;
    let session: OperatorSession;
    let account: TestAccount;

    beforeAll(async () => {
      harness = await startOperatorHarness(kind);
      session = await signInOperator(harness);
    });
    beforeEach(async () => {
      harness.clock.now += 10;
      account = await registerAccount(harness.gateway);
    });
    afterAll(() => harness.gateway.stop());

    const db = () => harness.gateway.server.db;
    const pathOf = (id = account.id): string => `/operator/accounts/${id}`;
    const page = async (path = pathOf()): Promise<PageResponse> => {
      const response = await fetchPage(harness, path, session);
      expect([path, response.status]).toEqual([path, 200]);
      return response;
    };
    const post = (
      fields: Record<string, string>,
      user = session,
      path = pathOf(),
    ): Promise<PageResponse> =>
      fetchPage(harness, path, user, { form: { confirm: "yes", ...fields } });
    /** Submits the page's form for an action. */
    const submit = async (action: string, values: Record<string, string>): Promise<PageResponse> =>
      post({ ...hiddenFields(await page(), action), ...values });
    const auditEntries = async (action: string) =>
      (await readAudit(db(), action)).filter((entry) => entry.account_id === account.id);

    test("show an active key and its last use, below 100 newer revoked keys", async () => {
      const keys = `${harness.gateway.url}/v1/keys`;
      const { headers } = account;
      // Safe because a list of keys has their ids.
      const list = (await (await fetch(keys, { headers })).json()) as { data: { id: string }[] };
      for (let made = 0; made < 100; made++) {
        const created = await fetch(keys, { method: "POST", headers, body: "{}" });
        // Safe because a key has an id.
        const { id } = (await created.json()) as { id: string };
        await fetch(`${keys}/${id}`, { method: "DELETE", headers });
      }
      const first = list.data[0]?.id ?? "none";
      await db().write((tx) =>
        tx.updateMany("api_key", ["id:text", "last_used_at:bigint"], [[first, harness.clock.now]]),
      );
      const { text } = await page();
      expect(text).toContain(first);
      expect(text).not.toContain("Last used never");
      expect(text).toContain("Active keys come first.");
    });

    describe("account forms", () => {
      test("grant promotional credit, with an audit entry", async () => {
        const done = await submit("grant", { usd: "2.5", reason: "for the outage" });
        expect([done.status, done.location]).toEqual([303, `${pathOf()}?done=granted`]);
        expect(await readWallet(db(), account.id)).toMatchObject({ promo: 2_550_000_000n });
        expect(await auditEntries("account.credited")).toMatchObject([
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
        expect(after.text).toContain("Credit granted.");
        expect(after.text).toContain("for the outage");
        expect(after.text).toContain("$2.55");
      });

      test("adjust the balance in the default order or in one bucket", async () => {
        await submit("adjust", { usd: "3", bucket: "", reason: "up" });
        expect(await readWallet(db(), account.id)).toMatchObject({ paid: 3n * NANO_PER_USD });
        await submit("adjust", { usd: "−1", bucket: "paid", reason: "down" });
        expect(await readWallet(db(), account.id)).toMatchObject({
          paid: 2n * NANO_PER_USD,
          promo: 50_000_000n,
        });
        expect((await auditEntries("account.adjusted")).length).toBe(2);
      });

      test("freeze and unfreeze, and the page shows only the possible action", async () => {
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

      test("change nothing if another operator has already frozen the account", async () => {
        const [one, other] = [await page(), await page()];
        await post({ ...hiddenFields(one, "freeze"), reason: "first" });
        const late = await post({ ...hiddenFields(other, "freeze"), reason: "second" });
        expect(late.location).toContain("done=unchanged");
        expect((await auditEntries("account.frozen")).length).toBe(1);
      });

      test("write off a debt, if there is one", async () => {
        expect(() => hiddenFields({ text: "" } as PageResponse, "write_off")).toThrow();
        expect((await page()).text).not.toContain("Write off");
        await payment(900, "disputed");
        expect((await page()).text).toContain("Frozen by a debt");
        const done = await submit("write_off", { reason: "lost" });
        expect(done.location).toContain("done=written_off");
        expect(await readWallet(db(), account.id)).toMatchObject({ owed: 0n });
        await expectLedgerValid(db());
      });

      test("are applied once if sent several times, with the same response", async () => {
        const fields = { ...hiddenFields(await page(), "grant"), usd: "1", reason: "double click" };
        const responses = await Promise.all(Array.from({ length: 10 }, () => post(fields)));
        responses.push(await post(fields));
        expect(
          new Set(responses.map(({ status, location }) => `${status} ${location ?? ""}`)),
        ).toEqual(new Set([`303 ${pathOf()}?done=granted`]));
        expect(await readWallet(db(), account.id)).toMatchObject({
          promo: NANO_PER_USD + 50_000_000n,
        });
        expect((await auditEntries("account.credited")).length).toBe(1);
      });

      test("are rejected if sent again with other values, with a new form on the page", async () => {
        const fields: Record<string, string> = {
          ...hiddenFields(await page(), "grant"),
          usd: "1",
          reason: "first",
        };
        await post(fields);
        const again = await post({ ...fields, usd: "100" });
        expect(again.status).toBe(400);
        expect(again.text).toContain("This form was already submitted");
        expect(hiddenFields(again, "grant")["form"]).not.toBe(fields["form"]);
        expect(await readWallet(db(), account.id)).toMatchObject({
          promo: NANO_PER_USD + 50_000_000n,
        });
      });

      test("of two operators with the same form token change the balance once", async () => {
        const ben = await signInOperator(harness, OTHER_OPERATOR_EMAIL);
        const form = hiddenFields(await page(), "grant")["form"] ?? "";
        const fields = { do: "grant", form, usd: "1", reason: "both" };
        await post({ ...fields, csrf: session.csrf });
        await post({ ...fields, csrf: ben.csrf }, ben);
        // The transfer id contains the form token.
        expect(await readWallet(db(), account.id)).toMatchObject({
          promo: NANO_PER_USD + 50_000_000n,
        });
      });

      test("show errors and keep the values of a rejected form, without changes", async () => {
        const before = await readAudit(db());
        for (const [action, values, message] of [
          ["grant", { usd: "0", reason: "x" }, "is not a valid amount"],
          ["grant", { usd: "five", reason: "x" }, "is not a valid amount"],
          ["grant", { usd: "-1", reason: "x" }, "greater than zero"],
          ["grant", { usd: "1", reason: "   " }, "The reason must be one line"],
          ["grant", { usd: "9000001", reason: "x" }, "cannot exceed"],
          ["adjust", { usd: "-0.06", reason: "x" }, "At most $0.05 can be taken"],
          ["adjust", { usd: "-0.01", bucket: "paid", reason: "x" }, "from paid"],
          ["adjust", { usd: "1", bucket: "other", reason: "x" }, "bucket"],
          ["freeze", { reason: "" }, "The reason must be one line"],
        ] as const) {
          const response = await submit(action, values);
          expect([action, response.status]).toEqual([action, 400]);
          expect(response.text).toContain('role="alert"');
          expect(response.text.replaceAll("&#39;", "'")).toContain(message);
        }
        expect((await submit("grant", { usd: "5x", reason: "kept text" })).text).toContain(
          'value="kept text"',
        );
        const bucket = await submit("adjust", { usd: "-1", bucket: "promo", reason: "kept text" });
        expect(bucket.text).toMatch(/<option value="promo" selected/);
        expect(await readAudit(db())).toEqual(before);
        expect(await readWallet(db(), account.id)).toMatchObject({ promo: 50_000_000n, paid: 0n });
      });

      test("return 404 for an unknown account", async () => {
        for (const id of [UNKNOWN_ACCOUNT, "acct_1", "nonsense", "..%2f..%2fconsole"])
          expect([id, (await fetchPage(harness, pathOf(id), session)).status]).toEqual([id, 404]);
        const fields = { ...hiddenFields(await page(), "grant"), usd: "1", reason: "x" };
        expect((await post(fields, session, pathOf(UNKNOWN_ACCOUNT))).status).toBe(404);
      });
    });

    describe("forged forms", () => {
      const form = { do: "grant", usd: "100", reason: "theft", form: "A".repeat(22) };

      test("without the session's CSRF token are rejected", async () => {
        const ben = await signInOperator(harness, OTHER_OPERATOR_EMAIL);
        for (const csrf of ["", "guessed", ben.csrf])
          expect((await post({ ...form, csrf })).status).toBe(403);
        expect((await post(form)).status).toBe(403);
        expect(await readWallet(db(), account.id)).toMatchObject({ promo: 50_000_000n });
      });

      test("from another site are rejected, even with the token", async () => {
        for (const headers of [
          { "sec-fetch-site": "cross-site" },
          { "sec-fetch-site": "same-site" },
          { "sec-fetch-site": "none" },
        ]) {
          const response = await fetchPage(harness, pathOf(), session, {
            form: { ...form, csrf: session.csrf },
            headers,
          });
          expect([headers, response.status]).toEqual([headers, 403]);
        }
        const sendWithOrigin = (origin: string): Promise<Response> =>
          fetch(harness.gateway.url + pathOf(), {
            method: "POST",
            redirect: "manual",
            headers: {
              cookie: session.cookie,
              origin,
              "content-type": "application/x-www-form-urlencoded",
            },
            body: new URLSearchParams({
              ...form,
              confirm: "yes",
              csrf: session.csrf,
            }).toString(),
          });
        expect((await sendWithOrigin("https://evil.example")).status).toBe(403);
        expect((await sendWithOrigin("null")).status).toBe(403);
        expect(await readWallet(db(), account.id)).toMatchObject({ promo: 50_000_000n });
        expect((await sendWithOrigin(harness.gateway.url)).status).toBe(303);
      });

      test("as JSON, without a form token or with an unknown action are rejected", async () => {
        const json = await fetch(harness.gateway.url + pathOf(), {
          method: "POST",
          redirect: "manual",
          headers: {
            cookie: session.cookie,
            "content-type": "application/json",
            "sec-fetch-site": "same-origin",
          },
          body: JSON.stringify({ ...form, csrf: session.csrf }),
        });
        expect(json.status).toBe(415);
        const { csrf } = session;
        expect((await post({ ...form, csrf, form: "" })).status).toBe(400);
        expect((await post({ ...form, csrf, form: "x".repeat(500) })).status).toBe(400);
        expect((await post({ ...form, csrf, do: "delete" })).status).toBe(400);
        expect(await readWallet(db(), account.id)).toMatchObject({ promo: 50_000_000n });
      });

      test("API keys do not authenticate operator pages", async () => {
        const response = await fetchPage(harness, pathOf(), undefined, {
          headers: account.headers,
        });
        expect([response.status, response.location?.startsWith("/operator/signin")]).toEqual([
          303,
          true,
        ]);
      });
    });

    describe("accounts", () => {
      const search = async (query: string): Promise<readonly string[]> => {
        const response = await page(`/operator?${query}`);
        return [...response.text.matchAll(/accounts\/(acct_[0-9a-z]+)"/g)].map(([, id = ""]) => id);
      };

      test("are found by account id, key, invoice or email address", async () => {
        const invoice = await newInvoice(1_000);
        const email = `Olga.${account.id}@Example.com`;
        await db().write(async (tx) => {
          const now = harness.clock.now;
          const identity = { issuer: "https://id.test", subject: account.id, email, name: null };
          const person = await recordPerson(tx, identity, now);
          await claimWorkspace(tx, {
            accountId: account.id,
            personId: person.id,
            via: "test",
            now,
          });
        });
        const key = await fetch(`${harness.gateway.url}/v1/account`, { headers: account.headers });
        const { key: record } = (await key.json()) as { key: { id: string } };
        for (const text of [
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
          expect([text, await search(new URLSearchParams({ search: text }).toString())]).toEqual([
            text,
            [account.id],
          ]);
        for (const text of ["olga", "%", "' or 1=1 --", "acct_zzzz", "a@b.example", "key_"])
          expect(
            (await search(new URLSearchParams({ search: text }).toString())).includes(account.id),
          ).toBe(text === "key_");
      });

      test("are listed by state, newest first, page by page", async () => {
        await submit("freeze", { reason: "test" });
        expect((await search("state=frozen"))[0]).toBe(account.id);
        expect(await search("state=active")).not.toContain(account.id);
        expect(await search("state=owing")).not.toContain(account.id);
        expect(await search(`state=frozen&search=${account.id}`)).toEqual([account.id]);
        const owing = await registerAccount(harness.gateway);
        const setDebt = (debt: bigint): Promise<number> =>
          db().write((tx) =>
            tx.run("update wallet set owed = ? where account_id = ?", [debt, owing.id]),
          );
        await setDebt(5n);
        expect(await search("state=owing")).toContain(owing.id);
        expect(await search(`state=active&search=${owing.id}`)).toEqual([]);
        await setDebt(0n);
        expect(await search("state=owing")).not.toContain(owing.id);
        expect((await search("state=active"))[0]).toBe(owing.id);
        for (let more = 0; more < 51; more++) await registerAccount(harness.gateway);
        const first = await page("/operator");
        const cursor = /cursor=(acct_[0-9a-z]+)/.exec(first.text)?.[1] ?? "";
        const [one, next] = [await search(""), await search(`cursor=${cursor}`)];
        expect(one.length).toBe(50);
        expect(next[0]?.localeCompare(cursor)).toBe(-1);
        expect(next.some((id) => one.includes(id))).toBe(false);
        expect((await fetchPage(harness, "/operator?state=nonsense", session)).status).toBe(400);
        expect((await fetchPage(harness, "/operator?cursor=inv_1", session)).status).toBe(400);
      });

      test("show all data of one account, without secrets", async () => {
        await submit("grant", { usd: "1", reason: "a gift" });
        await newInvoice(1_000);
        await callModel();
        await db().write(async (tx) => {
          const now = harness.clock.now;
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
        for (const expected of [
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
          expect(text).toContain(expected);
        expect(text).not.toContain(account.key);
        expect(text).not.toContain("<script>");
      });
    });

    describe("report, payments and audit log", () => {
      test("show income, charges, providers and creating networks by day", async () => {
        await rollUpUsage(harness.gateway.server.db);
        const text = (await page("/operator/report")).text.replaceAll(/<[^>]+>/g, " ");
        const compact = text.replaceAll(/\s+/g, " ");
        expect(compact).toContain("Charges by provider and day sim");
        expect(compact).toMatch(/Profit on \d{4}-\d\d-\d\d [−<]?\$[\d.]+ so far, in UTC/);
        expect(compact).toMatch(/Charged usage by day promotional usage/);
        const csv = await fetchPage(harness, "/operator/report.csv", session);
        expect(csv.text).toMatch(/^day,.*promotional_usage_usd,.*charged_sim_usd,profit_usd\r\n/);
        expect(csv.text).toMatch(/,-\d+\.\d+\r\n$/);
        expect(
          (await fetchPage(harness, "/operator/report.csv?from=2027-02-30", session)).status,
        ).toBe(400);
        expect(compact).toMatch(/Provider Calls Failed Charged sim \d+ 0% \$0\.\d+/);
        expect(compact).toMatch(/Network Accounts Claimed 127\.0\.0\.1\/32 \d+/);
        const old = (await page("/operator/report?from=2020-01-01&to=2020-02-01")).text;
        expect(old).toContain("Nothing in this period.");
      });

      test("the report shows the requested period", async () => {
        const { text } = await page("/operator/report");
        for (const heading of ["Income", "Grants", "Liabilities", "Provider cost", "Losses"])
          expect(text).toContain(heading);
        const old = await page("/operator/report?from=2020-01-01&to=2020-02-01");
        expect(old.text).toContain("No calls with the gateway");
        expect((await fetchPage(harness, "/operator/report?from=2027-02-30", session)).status).toBe(
          400,
        );
        const backwards = await fetchPage(
          harness,
          "/operator/report?from=2027-02-02&to=2027-02-01",
          session,
        );
        expect(backwards.text).toContain("must be before");
      });

      test("payments show refunds and unmatched payments", async () => {
        const invoice = await payment(1_000, "refunded");
        const { text } = await page("/operator/payments");
        expect(text).toContain(invoice);
        expect(text).toContain("$10.50 refunded");
        expect(text).toContain("manual");
        expect((await page("/operator/payments?state=refunded")).text).toContain(invoice);
        expect((await page("/operator/payments?state=open")).text).not.toContain(invoice);
        await ingest(invoice, "paid", "second", 1_050);
        const after = await page("/operator/payments");
        expect(after.text).toContain("Needs attention");
        expect(after.text).toContain("the invoice was already paid");
        expect((await fetchPage(harness, "/operator/payments?state=lost", session)).status).toBe(
          400,
        );
      });

      test("payments show an unclear x402 payment until it is marked as paid", async () => {
        const { id, invoiceId, payer } = await insertUnclearPayment(
          db(),
          account.id,
          harness.clock.now,
        );
        const { text } = await page("/operator/payments");
        for (const expected of [
          "Needs attention",
          id.split(":").at(-1) ?? "",
          payer,
          "$1.00",
          `postern admin mark-paid ${invoiceId} --reference`,
          pathOf(),
        ])
          expect(text).toContain(expected);
        await markPaid(paymentDeps(), {
          invoiceId,
          reference: `0x ${invoiceId}`,
          by: COMMAND_LINE_ACTOR,
          now: harness.clock.now,
        });
        expect((await page("/operator/payments")).text).not.toContain(payer);
      });

      test("payments and the audit log show the workspace name, with the id as title", async () => {
        await db().write((tx) =>
          renameAccount(tx, actIn(account.id, harness.clock.now), "Acme <production>"),
        );
        await newInvoice(1_000);
        await submit("freeze", { reason: "named" });
        for (const path of ["/operator/payments", "/operator/audit"])
          expect((await page(path)).text).toContain(
            `title="${account.id}"><bdi class="name">Acme &lt;production&gt;</bdi>`,
          );
      });

      test("the audit log names people, keys and accounts, with their ids", async () => {
        const person = await db().write((tx) =>
          recordPerson(
            tx,
            {
              issuer: "https://id.test",
              subject: account.id,
              email: "grace@example.com",
              name: null,
            },
            harness.clock.now,
          ),
        );
        const created = await fetch(`${harness.gateway.url}/v1/keys`, {
          method: "POST",
          headers: account.headers,
          body: JSON.stringify({ name: "Build server" }),
        });
        // Safe because a key has an id.
        const { id: keyId } = (await created.json()) as { id: string };
        await db().write(async (tx) => {
          await renameAccount(tx, actIn(account.id, harness.clock.now), "Acme");
          await recordAuditEntry(tx, {
            accountId: account.id,
            actor: { type: "person", id: person.id },
            action: "key.changed",
            target: keyId,
            network: "192.0.2.0/24",
            now: harness.clock.now,
          });
        });
        await submit("freeze", { reason: "named" });
        const { text } = await page(`/operator/audit?account=${account.id}`);
        for (const expected of [
          `title="${account.id}"><bdi class="name">Acme</bdi></a><span class="type">${account.id}</span>`,
          `<bdi class="name">Build server</bdi>, ${keyId}</span>`,
          `<bdi class="name">grace@example.com</bdi><span class="type">person, ${person.id}, 192.0.2.0/24</span>`,
          `<bdi class="name">${OPERATOR_EMAIL}</bdi><span class="type">operator, `,
        ])
          expect(text).toContain(expected);
        expect((await page()).text).toContain(
          `<bdi class="name">Build server</bdi>, ${keyId}</span>`,
        );
      });

      test("the audit log covers all accounts and is filtered by account, actor and action", async () => {
        await submit("freeze", { reason: "seen in the log" });
        const all = await page("/operator/audit");
        expect(all.text).toContain("reason: seen in the log");
        const filtered = await page(`/operator/audit?account=${account.id}&action=account.frozen`);
        expect(filtered.text).toContain("seen in the log");
        expect(filtered.text).not.toContain("<td>account.created");
        const none = await page("/operator/audit?actor=unknown");
        expect(none.text).toContain("No entries found.");
        expect((await fetchPage(harness, "/operator/audit?action=nonsense", session)).status).toBe(
          400,
        );
      });

      test("the owner's audit log has the operator's reason, but not the operator's email address", async () => {
        await submit("adjust", { usd: "1", reason: "made good" });
        const response = await fetch(`${harness.gateway.url}/v1/audit?action=account.adjusted`, {
          headers: account.headers,
        });
        const text = await response.text();
        expect(text).toContain("made good");
        expect(text).toContain('"actor":{"type":"operator","id":"operator"}');
        expect(text).not.toContain(OPERATOR_EMAIL);
        expect(JSON.parse(text).data[0].network).toBe(null);
      });
    });

    async function newInvoice(amountCents: number): Promise<string> {
      const act = actIn(account.id, harness.clock.now);
      return (await db().write((tx) => createInvoice(tx, act, amountCents * 10_000))).id;
    }

    const paymentDeps = () => ({
      db: db(),
      log: createLog({ level: "error", isPretty: true, now: Date.now, write: () => {} }),
    });

    /** A bank transfer that is then refunded, or spent and disputed. */
    async function payment(cents: number, kind: FactKind): Promise<string> {
      const invoiceId = await newInvoice(cents);
      const { now } = harness.clock;
      await markPaid(paymentDeps(), {
        invoiceId,
        reference: `in ${invoiceId}`,
        by: COMMAND_LINE_ACTOR,
        now,
      });
      if (kind === "disputed") {
        // Spends the credits first.
        const reason = newId("req", now);
        await submit("adjust", { usd: `-${cents / 100}`, bucket: "paid", reason });
      }
      await ingest(invoiceId, kind, `in ${invoiceId}`, cents + Math.floor((cents * 5 + 50) / 100));
      return invoiceId;
    }

    async function ingest(
      invoiceId: string,
      kind: FactKind,
      paymentRef: string,
      amountCents: number,
    ): Promise<void> {
      const fact = {
        processor: "manual",
        ref: `${kind} ${paymentRef}`,
        kind,
        payment: kind === "paid" ? `${kind} ${paymentRef}` : paymentRef,
        invoiceId,
        amountCents,
        taxCents: 0,
        currency: "usd",
        at: harness.clock.now,
      };
      await ingestFacts(paymentDeps(), [fact], harness.clock.now);
    }

    async function callModel(): Promise<void> {
      const response = await fetch(`${harness.gateway.url}/v1/chat/completions`, {
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
  throw new Error("unreachable");
}
