// No order of starts, confirmations, refusals, polls, waits and crashes leads to two owners, to two bonuses for one human
// or to an owner whose verified email is not the named one. A crash is a transaction that is rolled back at its end.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { createAccount } from "../../src/accounts/accounts.ts";
import { listAllMembers } from "../../src/accounts/members.ts";
import { foldEmail } from "../../src/base/text/email.ts";
import { CLAIM_BONUS } from "../../src/claims/claim-bonus.ts";
import type { Claimer, StartedClaim } from "../../src/claims/claims.ts";
import { canonicalMailbox } from "../../src/claims/email-address.ts";
import { getWallet } from "../../src/ledger/ledger.ts";
import { recordPerson } from "../../src/people/people.ts";
import { text, type Tx } from "../../src/store/db.ts";
import { actIn } from "../support/act.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";
import { createHarness, ISSUER, T0, type Harness } from "./harness.ts";
import { shownNow } from "./shown-now.ts";

const ACCOUNTS = 2;
/** Ann has two identities with spellings of one mailbox; Cem has one with another letter case. */
const HUMANS = [
  ["ann", "ann@gmail.com"],
  ["ann-again", "A.n.n+work@gmail.com"],
  ["bea", "bea@example.com"],
  ["cem", "Cem@Example.com"],
] as const;
const NAMED_EMAILS = [
  "ann@gmail.com",
  "A.n.n+work@gmail.com",
  "BEA@example.com",
  "cem@example.com",
];

const step = fc.oneof(
  fc.record({ do: fc.constant("start" as const), account: fc.nat(ACCOUNTS - 1), email: fc.nat(3) }),
  fc.record({
    do: fc.constant("confirm" as const),
    attempt: fc.nat(7),
    human: fc.nat(3),
    right: fc.boolean(),
    crash: fc.integer({ min: 0, max: 4 }).map((roll) => roll === 0),
  }),
  fc.record({ do: fc.constant("decline" as const), attempt: fc.nat(7), human: fc.nat(3) }),
  fc.record({ do: fc.constant("poll" as const), account: fc.nat(ACCOUNTS - 1) }),
  fc.record({ do: fc.constant("wait" as const), seconds: fc.constantFrom(1, 5, 300, 900) }),
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

interface Run {
  readonly harness: Harness;
  readonly accounts: readonly { readonly id: string; readonly keyId: string }[];
  readonly humans: readonly Claimer[];
  readonly attempts: {
    readonly started: StartedClaim;
    readonly email: string;
    readonly account: number;
  }[];
  now: number;
}

const CRASH = new Error("the process died before its commit");

describeEachStore((kind, open) => {
  describe(`claim invariants on ${kind}`, () => {
    let store: TestStore;
    beforeAll(async () => {
      store = await open();
    });
    afterAll(() => store.close());

    test("hold for sequential steps", async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 24 }), async (steps) => {
          const run = await begin(store);
          for (const one of steps) await runStep(run, one);
          await checkInvariants(run);
        }),
        { numRuns: kind === "sqlite" ? 150 : 60 },
      );
    });

    test("hold for concurrent steps", async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.array(step, { minLength: 2, maxLength: 8 }),
          fc.array(step, { minLength: 4, maxLength: 16 }),
          async (first, together) => {
            const run = await begin(store);
            for (const one of first) await runStep(run, one);
            await Promise.all(together.map((one) => runStep(run, one)));
            await checkInvariants(run);
          },
        ),
        { numRuns: kind === "sqlite" ? 80 : 50 },
      );
    });

    test("two concurrent claims of one human grant one bonus", async () => {
      for (let round = 0; round < 10; round++) {
        const run = await begin(store);
        const human = run.humans[0];
        const twin = run.humans[1];
        if (human === undefined || twin === undefined) throw new Error("no human");
        await runStep(run, { do: "start", account: 0, email: 0 });
        await runStep(run, { do: "start", account: 1, email: 1 });
        await Promise.all([
          runStep(run, { do: "confirm", attempt: 0, human: 0, right: true, crash: false }),
          runStep(run, { do: "confirm", attempt: 1, human: 1, right: true, crash: false }),
        ]);
        expect(await ownersOf(run, 0)).toHaveLength(1);
        expect(await ownersOf(run, 1)).toHaveLength(1);
        const balances = await Promise.all(run.accounts.map(({ id }) => getWallet(store.db, id)));
        expect(new Set(balances.map(({ promo }) => promo))).toEqual(new Set([0n, CLAIM_BONUS]));
      }
    });
  });
});

async function begin(store: TestStore): Promise<Run> {
  const harness = createHarness(store.db);
  const run = crypto.randomUUID();
  const accounts = [];
  for (let index = 0; index < ACCOUNTS; index++) {
    const request = { email: null, network: "203.0.113.7/32", startingCredit: 0n, now: T0 };
    const account = await store.db.write((tx) => createAccount(tx, request));
    const { key } = await store.db.write((tx) =>
      harness.keys.create(tx, actIn(account.id, T0), {}),
    );
    accounts.push({ id: account.id, keyId: key.id });
  }
  const humans: Claimer[] = [];
  for (const [subject, email] of HUMANS) {
    // Every run has its own humans, so that runs do not share bonuses.
    const own = {
      issuer: ISSUER,
      subject: `${run} ${subject}`,
      email: uniqueEmail(email, run),
      name: null,
    };
    const { id, issuer } = await store.db.write((tx) => recordPerson(tx, own, T0));
    humans.push({ personId: id, issuer, subject: own.subject, email: own.email });
  }
  return { harness, accounts, humans, attempts: [], now: T0 };
}

/** Keeps the spelling variants, with a local part that is unique to the run. */
function uniqueEmail(email: string, run: string): string {
  const tag = run.replaceAll("-", "").slice(0, 20);
  return email.replace(/^([^+@]+)/, `$1${tag}`);
}

async function runStep(run: Run, one: Step): Promise<void> {
  const { harness } = run;
  if (one.do === "wait") {
    run.now += one.seconds * 1_000;
    return;
  }
  if (one.do === "start") return await start(run, one.account, one.email);
  if (one.do === "poll") {
    const account = run.accounts[one.account];
    if (account === undefined) return;
    const request = { accountId: account.id, keyId: account.keyId, now: run.now };
    await harness.db.write((tx) => harness.claims.poll(tx, request));
    return;
  }
  const attempt = run.attempts[one.attempt];
  const claimer = run.humans[one.human];
  if (attempt === undefined || claimer === undefined) return;
  const decision = { attemptId: attempt.started.id, claimer, now: run.now };
  if (one.do === "decline") {
    await harness.db.write((tx) => harness.claims.decline(tx, decision));
    return;
  }
  const userCode = one.right ? attempt.started.userCode : "12345x";
  const work = async (tx: Tx): Promise<void> => {
    const shown = await shownNow(tx, run.accounts[attempt.account]?.id ?? "", run.now);
    await harness.claims.confirm(tx, { ...decision, userCode, keyChoices: [], shown });
    if (one.crash) throw CRASH;
  };
  await harness.db.write(work).catch((error: unknown) => {
    if (error !== CRASH) throw error;
  });
}

async function start(run: Run, accountIndex: number, emailIndex: number): Promise<void> {
  const account = run.accounts[accountIndex];
  const tag = run.humans[0]?.subject.split(" ")[0] ?? "";
  const email = uniqueEmail(NAMED_EMAILS[emailIndex] ?? "", tag);
  if (account === undefined) return;
  const { harness, now } = run;
  const started = await harness.db.write((tx) =>
    harness.claims.start(tx, {
      accountId: account.id,
      keyId: account.keyId,
      email,
      network: "203.0.113.0/24",
      now,
    }),
  );
  run.attempts.push({ started, email, account: accountIndex });
}

function ownersOf(run: Run, accountIndex: number) {
  return run.harness.db.all(
    `select membership.*, claim_attempt.email as named, person.email from membership
     join claim_attempt on claim_attempt.id = membership.via join person on person.id = membership.person_id
     where membership.account_id = ? and membership.role = 'owner'`,
    [run.accounts[accountIndex]?.id ?? ""],
  );
}

async function checkInvariants(run: Run): Promise<void> {
  const { harness } = run;
  const mailboxes = new Map<string, bigint>();
  for (const [index, account] of run.accounts.entries()) {
    const owners = await ownersOf(run, index);
    const claimed = await harness.db.get("select claimed_at from account where id = ?", [
      account.id,
    ]);
    expect(owners.length).toBe(claimed?.["claimed_at"] === null ? 0 : 1);
    for (const owner of owners)
      expect(foldEmail(text(owner, "email"))).toBe(foldEmail(text(owner, "named")));
    const { promo } = await getWallet(harness.db, account.id);
    expect(promo === 0n || (promo === CLAIM_BONUS && owners.length === 1)).toBe(true);
    const mailbox = canonicalMailbox(
      owners[0] === undefined ? "unclaimed@example.com" : text(owners[0], "email"),
    );
    mailboxes.set(mailbox, (mailboxes.get(mailbox) ?? 0n) + promo);
    for (const member of await listAllMembers(harness.db, account.id)) {
      const named = run.attempts.filter((attempt) => attempt.account === index);
      expect(named.map(({ email }) => foldEmail(email))).toContain(foldEmail(member.email));
    }
  }
  for (const bonus of mailboxes.values()) expect(bonus <= CLAIM_BONUS).toBe(true);
  const inconsistent = await harness.db.all(
    "select id from claim_attempt where claimed_at is not null and (declined_at is not null or wrong_codes >= 5)",
  );
  expect(inconsistent).toEqual([]);
}
