// Emails arrive at a real SMTP server: each once, at the right people, without secrets.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { emitBalanceEvents } from "../../src/ledger/threshold-events.ts";
import {
  createUser,
  makeMember,
  makeOwner,
  type TestUser,
  textOf,
  visitPage,
} from "../billing/console-user.ts";
import { eventually } from "../support/eventually.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import { type ReceivedEmail, type SmtpReceiver, startSmtpReceiver } from "./smtp-receiver.ts";

for (const store of STORE_KINDS)
  describe(`emails on ${store}`, () => {
    let smtp: SmtpReceiver;
    let gateway: Gateway;
    beforeAll(async () => {
      smtp = await startSmtpReceiver();
      const env = { POSTERN_SMTP_URL: smtp.url, POSTERN_EMAIL_FROM: "Postern <p@example.com>" };
      gateway = await startGateway({ store, env });
    });
    afterEach(() => smtp.replyWith(250));
    afterAll(async () => {
      await gateway.stop();
      await smtp.stop();
    });

    const newUser = () => createUser(gateway, `u${crypto.randomUUID()}`);
    const emailsTo = ({ email }: { readonly email: string }): readonly ReceivedEmail[] =>
      smtp.received.filter(({ to }) => to.includes(email));
    const emailTo = async (user: { readonly email: string }): Promise<ReceivedEmail> => {
      await eventually(() => emailsTo(user).length > 0);
      const [email] = emailsTo(user);
      if (email === undefined) throw new Error("no email arrived");
      return email;
    };
    const newWorkspace = async (): Promise<{ account: TestAccount; owner: TestUser }> => {
      const [account, owner] = [await registerAccount(gateway), await newUser()];
      await makeOwner(gateway, account.id, owner);
      return { account, owner };
    };
    const lowBalance = (accountId: string) =>
      gateway.server.db.write((tx) =>
        emitBalanceEvents(tx, [
          {
            kind: "low",
            accountId,
            balance: 500_000_000n,
            threshold: 1_000_000_000n,
            now: Date.now(),
          },
        ]),
      );
    const isQueueEmpty = async (): Promise<boolean> =>
      (await gateway.server.db.get(
        "select id from event where emailed_at is null union all select id from email where status = 'pending'",
      )) === undefined;

    test("an invitation arrives with its role and a link that does not sign in", async () => {
      const { account, owner } = await newWorkspace();
      await visitPage(gateway, `/console/${account.id}/settings`, owner, { name: "Acme" });
      const guest = await newUser();
      const form = { do: "invite", email: guest.email, role: "billing" };
      await visitPage(gateway, `/console/${account.id}/members`, owner, form);
      const email = await emailTo(guest);
      expect(email.subject).toBe("Invitation to the workspace “Acme”");
      expect(email.text).toContain(
        `${owner.email} invites you to join the workspace “Acme” with the role billing`,
      );
      const link = /https?:\S+\/console\S*/.exec(email.text)?.[0] ?? "";
      const opened = await fetch(link, { redirect: "manual" });
      expect(opened.headers.get("location")).toStartWith("/signin?");
      const page = await visitPage(gateway, "/console", guest);
      const invitation = /name="invitation" value="([^"]+)"/.exec(page.text)?.[1] ?? "";
      await visitPage(gateway, "/console/invitations", guest, { invitation, answer: "accept" });
      const members = await visitPage(gateway, `/console/${account.id}/members`, owner);
      expect(textOf(members)).toMatch(new RegExp(`${guest.email} Billing `));
      expect((await emailTo(owner)).subject).toBe(`${guest.email} joined “Acme”`);
      expect(emailsTo(guest)).toHaveLength(1);
    });

    test("a claim arrives without the code and the token of its link", async () => {
      const [account, person] = [await registerAccount(gateway), await newUser()];
      const started = await fetch(`${gateway.url}/agent/identity/claim`, {
        method: "POST",
        headers: account.headers,
        body: JSON.stringify({ email: person.email.toUpperCase() }),
      });
      const { claim_attempt: attempt } = (await started.json()) as {
        readonly claim_attempt: Readonly<Record<"user_code", string>>;
      };
      const { subject, text } = await emailTo(person);
      expect(subject).toBe("An agent asks you to take over its account");
      expect(text).toContain(`${gateway.url}/claim\n`);
      expect(text).not.toContain(attempt.user_code);
      const stored = await gateway.server.db.get("select data from email where address = ?", [
        person.email,
      ]);
      expect(JSON.parse(String(stored?.["data"]))).toEqual({
        claim_attempt_id: expect.stringMatching(/^claim_/),
        email: person.email.toUpperCase(),
      });
    });

    test("a low balance is sent to the roles that can pay, unless they turned it off", async () => {
      const { account, owner } = await newWorkspace();
      const [payer, off, developer] = [await newUser(), await newUser(), await newUser()];
      await makeMember(gateway, account.id, payer, "billing");
      await makeMember(gateway, account.id, off, "admin");
      await makeMember(gateway, account.id, developer, "developer");
      const all = { claims: "on", invitations: "on", budgets: "on", keys: "on" };
      const saved = await visitPage(gateway, "/emails", off, all);
      expect(saved.location).toBe("/emails?saved=true");
      const settings = await visitPage(gateway, "/emails", off);
      expect(settings.text).toMatch(/name="budgets" checked/);
      expect(settings.text).not.toMatch(/name="balance" checked/);
      await lowBalance(account.id);
      await eventually(isQueueEmpty);
      const reported = [owner, payer, off, developer].map((user) =>
        emailsTo(user).filter(({ subject }) => subject.startsWith("Balance")),
      );
      expect(reported.map(({ length }) => length)).toEqual([1, 1, 0, 0]);
      expect(reported[0]?.[0]?.text).toContain(`The balance of ${account.id} is $0.50.`);
    });

    test("an email that the server refuses for now is tried again, one that it rejects is not", async () => {
      const { account, owner } = await newWorkspace();
      smtp.replyWith(451);
      await lowBalance(account.id);
      const { db } = gateway.server;
      const row = () =>
        db.get("select status, tries, error, due_at from email where address = ?", [owner.email]);
      await eventually(async () => typeof (await row())?.["error"] === "string");
      expect(await row()).toMatchObject({ status: "pending" });
      smtp.replyWith(250);
      await db.write((tx) =>
        tx.run("update email set due_at = ? where address = ?", [Date.now(), owner.email]),
      );
      expect((await emailTo(owner)).messageId).toMatch(/^<eml_[0-9a-z]+@127\.0\.0\.1>$/);
      smtp.replyWith(550);
      await lowBalance(account.id);
      await eventually(
        async () =>
          (await db.get("select id from email where address = ? and status = 'failed'", [
            owner.email,
          ])) !== undefined,
      );
      expect(emailsTo(owner)).toHaveLength(1);
    });

    test("a webhook that the gateway disables is reported to the owner", async () => {
      const { account, owner } = await newWorkspace();
      const endpoint = Bun.serve({ port: 0, fetch: () => new Response("gone", { status: 410 }) });
      const url = `http://127.0.0.1:${endpoint.port}/hook`;
      const path = `/console/${account.id}/webhooks`;
      await visitPage(gateway, path, owner, { do: "add", url });
      const webhook =
        /whk_[0-9a-z]{26}/.exec((await visitPage(gateway, path, owner)).text)?.[0] ?? "";
      await visitPage(gateway, path, owner, { do: "test", webhook });
      const { subject, text } = await emailTo(owner);
      expect(subject).toBe(`A webhook of ${account.id} was disabled`);
      expect(text).toContain("the endpoint answered 410 Gone");
      await endpoint.stop(true);
    });

    test("the development page shows the emails, and settings are the person's own", async () => {
      const { account, owner } = await newWorkspace();
      await lowBalance(account.id);
      await emailTo(owner);
      await eventually(isQueueEmpty);
      const list = await visitPage(gateway, "/emails/_sent", owner);
      expect(textOf(list)).toContain(`Balance of ${account.id} is below $1.00`);
      const bad = await visitPage(gateway, "/emails", owner, { balance: "maybe" });
      expect(bad.status).toBe(400);
      const anonymous = await fetch(`${gateway.url}/emails`, { redirect: "manual" });
      expect(anonymous.headers.get("location")).toBe("/signin?return_to=%2Femails");
    });
  });

describe("email settings", () => {
  test("need the server and the sender together, and no emails are sent without them", async () => {
    expect(startGateway({ env: { POSTERN_SMTP_URL: "smtp://127.0.0.1:1" } })).rejects.toThrow(
      "POSTERN_SMTP_URL and POSTERN_EMAIL_FROM must be set together",
    );
    for (const url of ["https://example.com", "smtp://", "127.0.0.1:25"])
      expect(
        startGateway({ env: { POSTERN_SMTP_URL: url, POSTERN_EMAIL_FROM: "p@example.com" } }),
      ).rejects.toThrow("POSTERN_SMTP_URL must be smtp://");
    const gateway = await startGateway();
    const user = await createUser(gateway, "offline");
    expect(textOf(await visitPage(gateway, "/emails", user))).toContain("sends no emails");
    await gateway.stop();
  });
});
