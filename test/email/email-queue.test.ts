// The queue of emails: atomic with its event, leased by one worker at a time, limited per address.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { createAccount } from "../../src/accounts/accounts.ts";
import { claimWorkspace } from "../../src/accounts/members.ts";
import { emitEvent, hasEventsToEmail, type NewEvent } from "../../src/activity/events.ts";
import { secret } from "../../src/base/crypto/secret.ts";
import { createLog } from "../../src/base/log.ts";
import { DAY_MS, MINUTE_MS } from "../../src/base/time.ts";
import { createEmailWorker, type EmailWorker } from "../../src/email/email-worker.ts";
import { setOptOuts } from "../../src/email/emails.ts";
import type { OutgoingEmail, SendEmail } from "../../src/email/smtp.ts";
import { emitExpiringKeys } from "../../src/keys/expiring-keys.ts";
import { createKeys } from "../../src/keys/keys.ts";
import { recordPerson } from "../../src/people/people.ts";
import { actIn } from "../support/act.ts";
import { eventually } from "../support/eventually.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";

const NOW = Date.UTC(2026, 10, 21, 9, 30);
const log = createLog({ level: "error", isPretty: false, now: () => NOW, write: () => {} });

const LINKS = {
  baseUrl: "https://p.test",
  receiptPath: (invoiceId: string) => `/pay/${invoiceId}/receipt`,
};

describeEachStore((kind, open) => {
  describe(`the email queue on ${kind}`, () => {
    let store: TestStore;
    let accountId: string;
    let owner: { readonly id: string; readonly email: string };
    let now: number;
    let sent: OutgoingEmail[];
    beforeAll(async () => {
      store = await open();
    });
    afterAll(() => store.close());
    beforeEach(async () => {
      now = NOW;
      sent = [];
      await store.db.write(async (tx) => {
        await tx.run("delete from email");
        await tx.run("delete from event");
        const request = { email: null, network: "n/32", startingCredit: 0n, now };
        accountId = (await createAccount(tx, request)).id;
        const subject = crypto.randomUUID();
        const email = `${subject}@example.com`;
        owner = await recordPerson(tx, { issuer: "i", subject, email, name: null }, now);
        await claimWorkspace(tx, { accountId, personId: owner.id, via: "test", now });
      });
    });

    const accept: SendEmail = (email) => {
      sent.push(email);
      return Promise.resolve({ isSent: true });
    };
    const worker = (send: SendEmail | undefined = accept): EmailWorker =>
      createEmailWorker({ db: store.db, log, now: () => now, links: LINKS, send });
    const event = (): NewEvent => ({
      type: "balance.empty",
      accountId,
      data: { credits: 0, usd: 0, below_usd: 0.0001 },
      now,
    });
    const queue = () => store.db.write((tx) => emitEvent(tx, event()));
    const statuses = async () =>
      (await store.db.all("select status from email order by id")).map((row) => row["status"]);

    test("nothing is sent of a transaction that failed", async () => {
      const failed = store.db.write(async (tx) => {
        await emitEvent(tx, event());
        throw new Error("rolled back");
      });
      expect(failed).rejects.toThrow("rolled back");
      await failed.catch(() => {});
      await worker().tick();
      expect(sent).toEqual([]);
    });

    test("two workers at the same time send an email once", async () => {
      await queue();
      await Promise.all([worker().tick(), worker().tick(), worker().tick()]);
      expect(sent).toHaveLength(1);
      expect(await statuses()).toEqual(["sent"]);
    });

    test("an account with many emails does not delay those of others", async () => {
      await store.db.write(async (tx) => {
        for (let count = 0; count < 101; count++) await emitEvent(tx, event());
      });
      now += 1;
      const other = await store.db.write(async (tx) => {
        const request = { email: null, network: "n/32", startingCredit: 0n, now };
        const { id } = await createAccount(tx, request);
        const email = `${crypto.randomUUID()}@example.com`;
        const person = await recordPerson(
          tx,
          { issuer: "i", subject: email, email, name: null },
          now,
        );
        await claimWorkspace(tx, { accountId: id, personId: person.id, via: "test", now });
        await emitEvent(tx, { ...event(), accountId: id });
        return email;
      });
      await worker().tick();
      expect(sent.slice(0, 2).map(({ to }) => to)).toContain(other);
      expect(sent).toHaveLength(20);
    });

    test("an event that people do not get by email is not queued", async () => {
      const data = { key_id: "key_1", name: null, prefix: "p", last4: "abcd", by: "key_1" };
      await store.db.write((tx) => emitEvent(tx, { type: "key.created", accountId, data, now }));
      expect(await hasEventsToEmail(store.db)).toBe(false);
      await queue();
      expect(await hasEventsToEmail(store.db)).toBe(true);
    });

    test("an email whose worker died is sent by another one after the lease", async () => {
      await queue();
      void worker(() => new Promise(() => {})).tick();
      await eventually(
        async () => (await store.db.get("select lease from email where tries = 1")) !== undefined,
      );
      await worker().tick();
      expect(sent).toEqual([]);
      now += 3 * MINUTE_MS;
      await worker().tick();
      expect(sent).toHaveLength(1);
    });

    test("retries after growing delays, and fails after a day", async () => {
      await queue();
      let attempts = 0;
      const unreachable = worker(() => {
        attempts += 1;
        return Promise.resolve({ isSent: false, isPermanent: false, error: "unreachable" });
      });
      const minutes: number[] = [];
      for (let minute = 0; minute <= 26 * 60; minute += 1) {
        const before = attempts;
        await unreachable.tick();
        if (attempts > before) minutes.push(minute);
        now += MINUTE_MS;
      }
      expect(minutes.slice(0, 5)).toEqual([0, 1, 6, 36, 156]);
      expect(await statuses()).toEqual(["failed"]);
      expect(sent).toEqual([]);
    });

    test("an email that waited for a day without a server is not sent", async () => {
      await queue();
      await createEmailWorker({
        db: store.db,
        log,
        now: () => now,
        links: LINKS,
        send: undefined,
      }).tick();
      expect(await statuses()).toEqual(["pending"]);
      now += DAY_MS + 1;
      await worker().tick();
      expect([sent.length, await statuses()]).toEqual([0, ["failed"]]);
      now += 8 * DAY_MS;
      await worker().sweep();
      expect(await statuses()).toEqual([]);
    });

    test("an address gets five emails about claims and invitations a day, and none after it opted out", async () => {
      const claim = async (email: string): Promise<void> => {
        const data = { claim_attempt_id: "claim_1", email };
        await store.db.write((tx) =>
          emitEvent(tx, { type: "claim.started", accountId, data, now }),
        );
        await worker().tick();
      };
      for (let times = 0; times < 8; times += 1) await claim("Ada@Example.com");
      expect(await statuses()).toHaveLength(5);
      now += DAY_MS + 1;
      await claim("ada@example.com");
      expect(await statuses()).toHaveLength(6);
      await store.db.write((tx) =>
        setOptOuts(tx, { personId: owner.id, network: null, now }, ["claims"]),
      );
      await claim(owner.email);
      expect(await statuses()).toHaveLength(6);
    });

    test("a name of a stranger's workspace that looks like a link is not shown", async () => {
      const rename = (name: string) =>
        store.db.write((tx) => tx.run("update account set name = ?", [name]));
      const subjectWith = async (name: string): Promise<string> => {
        await rename(name);
        await queue();
        await worker().tick();
        return sent.at(-1)?.subject ?? "";
      };
      expect(await subjectWith("Acme")).toBe("Balance of “Acme” is used up");
      expect(await subjectWith("win at evil.example")).toBe(`Balance of ${accountId} is used up`);
    });

    test("a key that expires within a week is reported once per expiry, a short-lived one never", async () => {
      const master = secret("a secret of the tests that is long enough");
      const keys = createKeys({
        db: store.db,
        master,
        prefix: "pst",
      });
      const { key } = await store.db.write(async (tx) => {
        await keys.create(tx, actIn(accountId, now), { expiresAt: now + DAY_MS });
        return keys.create(tx, actIn(accountId, now), { name: "ci", expiresAt: now + 30 * DAY_MS });
      });
      const report = () => store.db.write((tx) => emitExpiringKeys(tx, now));
      await report();
      await worker().tick();
      expect(await statuses()).toEqual([]);
      now += 24 * DAY_MS;
      await Promise.all([report(), report()]);
      await report();
      await worker().tick();
      expect(sent.map(({ text }) => text)).toEqual([
        expect.stringContaining(`The key that ends in ${key.last4}`),
      ]);
      await store.db.write((tx) =>
        tx.run("update api_key set expires_at = ? where id = ?", [now + DAY_MS, key.id]),
      );
      await report();
      await worker().tick();
      expect(await statuses()).toHaveLength(2);
    });
  });
});
