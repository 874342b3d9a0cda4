// Every state of an attempt × every event, on both stores. The expectations are written out here, independent of the
// TRANSITIONS table that they test.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createAccount } from "../../src/accounts/accounts.ts";
import type { Role } from "../../src/accounts/members.ts";
import { readAttempt } from "../../src/claims/claim-attempt-rows.ts";
import {
  type ClaimAttempt,
  POLL_INTERVAL_MS,
  type ClaimState,
  CLAIM_STATES,
  claimStateOf,
  CLAIM_TTL_MS,
} from "../../src/claims/claim-attempt.ts";
import type { Claimer, StartedClaim } from "../../src/claims/claims.ts";
import { getWallet } from "../../src/ledger/ledger.ts";
import { recordPerson } from "../../src/people/people.ts";
import { actIn } from "../support/act.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";
import { createHarness, ISSUER, T0, type Harness } from "./harness.ts";
import { shownNow } from "./shown-now.ts";

interface ClaimFixture {
  readonly harness: Harness;
  readonly accountId: string;
  readonly keyId: string;
  readonly named: Claimer;
  readonly other: Claimer;
  readonly attempt: StartedClaim;
  /** The time of the next event. */
  at: number;
}

type Outcome = string;

const EVENTS = ["poll", "confirm", "wrong_code", "decline", "restart"] as const;
type Event = (typeof EVENTS)[number];

/** Brings an attempt into each state. */
const REACH_STATE: Readonly<Record<ClaimState, (fixture: ClaimFixture) => Promise<void>>> = {
  initiated: async () => {},
  claimed: async (fixture) => void (await confirm(fixture, fixture.named)),
  declined: async (fixture) => void (await decline(fixture)),
  claimed_by_other: async (fixture) => {
    const later = await start(fixture, fixture.other.email);
    await confirm({ ...fixture, attempt: later }, fixture.other);
  },
  locked: async (fixture) => {
    for (let wrong = 0; wrong < 5; wrong++) await enterWrongCode(fixture);
  },
  superseded: async (fixture) => void (await start(fixture, fixture.named.email)),
  expired: async (fixture) => {
    fixture.at += CLAIM_TTL_MS;
  },
};

/** The outcome of each event and the state afterwards. */
const EXPECTED: Readonly<
  Record<ClaimState, Readonly<Record<Event, readonly [Outcome, ClaimState]>>>
> = {
  initiated: {
    poll: ["pending", "initiated"],
    confirm: ["claimed owner", "claimed"],
    wrong_code: ["wrong_code 4", "initiated"],
    decline: ["declined", "declined"],
    restart: ["started", "superseded"],
  },
  claimed: {
    poll: ["claimed", "claimed"],
    confirm: ["claimed owner", "claimed"],
    wrong_code: ["claimed owner", "claimed"],
    decline: ["refused claimed", "claimed"],
    restart: ["started", "claimed"],
  },
  declined: {
    poll: ["denied", "declined"],
    confirm: ["refused declined", "declined"],
    wrong_code: ["refused declined", "declined"],
    decline: ["declined", "declined"],
    restart: ["started", "declined"],
  },
  claimed_by_other: {
    poll: ["denied", "claimed_by_other"],
    confirm: ["refused claimed_by_other", "claimed_by_other"],
    wrong_code: ["refused claimed_by_other", "claimed_by_other"],
    decline: ["refused claimed_by_other", "claimed_by_other"],
    restart: ["started", "claimed_by_other"],
  },
  locked: {
    poll: ["expired", "locked"],
    confirm: ["refused locked", "locked"],
    wrong_code: ["refused locked", "locked"],
    decline: ["refused locked", "locked"],
    restart: ["started", "locked"],
  },
  superseded: {
    poll: ["expired", "superseded"],
    confirm: ["refused superseded", "superseded"],
    wrong_code: ["refused superseded", "superseded"],
    decline: ["refused superseded", "superseded"],
    restart: ["started", "superseded"],
  },
  expired: {
    poll: ["expired", "expired"],
    confirm: ["refused expired", "expired"],
    wrong_code: ["refused expired", "expired"],
    decline: ["refused expired", "expired"],
    restart: ["started", "superseded"],
  },
};

const TRIGGER: Readonly<Record<Event, (fixture: ClaimFixture) => Promise<Outcome>>> = {
  poll: async ({ harness, accountId, keyId, attempt, at }) =>
    (
      await harness.db.write((tx) =>
        harness.claims.poll(tx, { accountId, keyId, attemptId: attempt.id, now: at }),
      )
    ).status,
  confirm: (fixture) => confirm(fixture, fixture.named),
  wrong_code: enterWrongCode,
  decline,
  restart: async (fixture) => {
    await start(fixture, fixture.named.email);
    return "started";
  },
};

describeEachStore((kind, open) => {
  describe(`attempts on ${kind}`, () => {
    let store: TestStore;
    beforeAll(async () => {
      store = await open();
    });
    afterAll(() => store.close());

    for (const state of CLAIM_STATES)
      for (const event of EVENTS)
        test(`${state} × ${event}`, async () => {
          const fixture = await createFixture(store);
          await REACH_STATE[state](fixture);
          expect(await currentState(fixture)).toBe(state);
          const [fact, after] = EXPECTED[state][event];
          expect(await TRIGGER[event](fixture)).toBe(fact);
          expect(await currentState(fixture)).toBe(after);
        });

    for (const state of CLAIM_STATES)
      test(`${state} × another signed-in person`, async () => {
        const fixture = await createFixture(store);
        await REACH_STATE[state](fixture);
        const other = await person(fixture.harness, `other-${crypto.randomUUID()}@example.com`);
        expect(await confirm(fixture, other)).toBe("wrong_account");
        const declined = await fixture.harness.db.write((tx) =>
          fixture.harness.claims.decline(tx, {
            attemptId: fixture.attempt.id,
            claimer: other,
            now: fixture.at,
          }),
        );
        expect(declined.status).toBe("wrong_account");
        expect(await currentState(fixture)).toBe(state);
      });

    test("an attempt claimed in time stays claimed after its expiry", async () => {
      const fixture = await createFixture(store);
      fixture.at += CLAIM_TTL_MS - 1;
      expect(await confirm(fixture, fixture.named)).toBe("claimed owner");
      fixture.at += CLAIM_TTL_MS;
      expect(await TRIGGER.poll(fixture)).toBe("claimed");
    });

    test("a confirmation repeated by another subject with the same address is refused", async () => {
      const fixture = await createFixture(store);
      expect(await confirm(fixture, fixture.named)).toBe("claimed owner");
      const { email } = fixture.named;
      const twin = await person(fixture.harness, email, `another subject of ${email}`);
      expect(await confirm(fixture, twin)).toBe("refused claimed");
      expect(await confirm(fixture, fixture.named)).toBe("claimed owner");
    });

    test("expires at the exact millisecond", async () => {
      const fixture = await createFixture(store);
      fixture.at += CLAIM_TTL_MS;
      expect(await confirm(fixture, fixture.named)).toBe("refused expired");
    });

    test("each poll that is too fast adds five seconds to the interval", async () => {
      const fixture = await createFixture(store);
      const poll = async (afterMs: number): Promise<string> => {
        fixture.at += afterMs;
        const { harness, accountId, keyId, at } = fixture;
        const polled = await harness.db.write((tx) =>
          harness.claims.poll(tx, { accountId, keyId, now: at }),
        );
        return polled.status === "too_fast" ? `slow ${polled.intervalMs}` : polled.status;
      };
      expect(await poll(0)).toBe("pending");
      expect(await poll(POLL_INTERVAL_MS)).toBe("pending");
      expect(await poll(1_000)).toBe("slow 10000");
      expect(await poll(POLL_INTERVAL_MS)).toBe("slow 15000");
      expect(await poll(15_000)).toBe("pending");
      expect(await poll(14_700)).toBe("pending");
      expect(await poll(10_000)).toBe("slow 20000");
      // A final result is returned at once, even to polls that are too fast.
      await confirm(fixture, fixture.named);
      expect(await poll(1)).toBe("claimed");
      expect(await poll(1)).toBe("claimed");
    });

    test("concurrent confirmations claim once and return the same result", async () => {
      for (let round = 0; round < 5; round++) {
        const fixture = await createFixture(store);
        const outcomes = await Promise.all(
          Array.from({ length: 6 }, () => confirm(fixture, fixture.named)),
        );
        expect(new Set(outcomes)).toEqual(new Set(["claimed owner"]));
        expect((await getWallet(store.db, fixture.accountId)).promo).toBe(1_000_000_000n);
      }
    });

    test("counts all concurrent wrong codes", async () => {
      for (let round = 0; round < 5; round++) {
        const fixture = await createFixture(store);
        const outcomes = await Promise.all(
          Array.from({ length: 12 }, () => enterWrongCode(fixture)),
        );
        expect(outcomes.filter((fact) => fact === "refused locked")).toHaveLength(8);
        expect(await confirm(fixture, fixture.named)).toBe("refused locked");
      }
    });

    test("of concurrent confirmations and refusals one wins", async () => {
      for (let round = 0; round < 8; round++) {
        const fixture = await createFixture(store);
        const facts = await Promise.all([
          confirm(fixture, fixture.named),
          decline(fixture),
          confirm(fixture, fixture.named),
          decline(fixture),
        ]);
        const state = await currentState(fixture);
        expect(new Set(facts)).toEqual(
          new Set(
            state === "claimed"
              ? ["claimed owner", "refused claimed"]
              : ["declined", "refused declined"],
          ),
        );
      }
    });

    test("of a concurrent start and confirmation the first one wins", async () => {
      for (let round = 0; round < 8; round++) {
        const fixture = await createFixture(store);
        const [later, fact] = await Promise.all([
          start(fixture, fixture.other.email),
          confirm(fixture, fixture.named),
        ]);
        const outcome = await confirm({ ...fixture, attempt: later }, fixture.other);
        expect([fact, outcome]).toEqual(
          fact === "claimed owner"
            ? ["claimed owner", "claimed developer"]
            : ["refused superseded", "claimed owner"],
        );
        expect(await ownersOf(fixture)).toBe(1);
      }
    });

    test("an invitation adds a developer, without a bonus", async () => {
      const fixture = await createFixture(store);
      await confirm(fixture, fixture.named);
      const before = await getWallet(store.db, fixture.accountId);
      const invited = { ...fixture, attempt: await start(fixture, fixture.other.email) };
      expect(await confirm(invited, fixture.other)).toBe("claimed developer");
      expect(await getWallet(store.db, fixture.accountId)).toEqual(before);
      expect(await TRIGGER.poll(invited)).toBe("claimed");
      expect(await currentState(fixture)).toBe("claimed");
    });

    test("an owner who accepts an invitation stays the owner", async () => {
      const fixture = await createFixture(store);
      await confirm(fixture, fixture.named);
      const again = { ...fixture, attempt: await start(fixture, fixture.named.email) };
      expect(await confirm(again, fixture.named)).toBe("claimed owner");
      expect(await currentState(fixture)).toBe("claimed");
      expect(await ownersOf(fixture)).toBe(1);
    });
  });
});

async function createFixture(store: TestStore): Promise<ClaimFixture> {
  const harness = createHarness(store.db);
  const account = await store.db.write((tx) =>
    createAccount(tx, { email: null, network: "203.0.113.7/32", startingCredit: 0n, now: T0 }),
  );
  const { key } = await store.db.write((tx) => harness.keys.create(tx, actIn(account.id, T0), {}));
  const bare = {
    harness,
    accountId: account.id,
    keyId: key.id,
    named: await person(harness, `named-${crypto.randomUUID()}@example.com`),
    other: await person(harness, `other-${crypto.randomUUID()}@example.com`),
    at: T0,
  };
  return { ...bare, attempt: await start(bare, bare.named.email) };
}

async function person(harness: Harness, email: string, subject = email): Promise<Claimer> {
  const { id, issuer } = await harness.db.write((tx) =>
    recordPerson(tx, { issuer: ISSUER, subject, email, name: null }, T0),
  );
  return { personId: id, issuer, subject, email };
}

function start(fixture: Omit<ClaimFixture, "attempt">, email: string): Promise<StartedClaim> {
  const { harness, accountId, keyId, at } = fixture;
  return harness.db.write((tx) =>
    harness.claims.start(tx, { accountId, keyId, email, network: "203.0.113.0/24", now: at }),
  );
}

async function confirm(
  fixture: ClaimFixture,
  claimer: Claimer,
  userCode = fixture.attempt.userCode,
): Promise<Outcome> {
  const { harness, attempt, at } = fixture;
  const outcome = await harness.db.write(async (tx) =>
    harness.claims.confirm(tx, {
      attemptId: attempt.id,
      claimer,
      userCode,
      keyChoices: [],
      shown: await shownNow(tx, fixture.accountId, at),
      now: at,
    }),
  );
  switch (outcome.status) {
    case "claimed":
      return `claimed ${outcome.role satisfies Role}`;
    case "changed":
      return outcome.status;
    case "wrong_code":
      return `wrong_code ${outcome.triesLeft}`;
    case "refused":
      return `refused ${outcome.state}`;
    case "wrong_account":
      return outcome.status;
  }
}

function enterWrongCode(fixture: ClaimFixture): Promise<Outcome> {
  const wrong = fixture.attempt.userCode === "000000" ? "000001" : "000000";
  return confirm(fixture, fixture.named, wrong);
}

async function decline({ harness, attempt, named, at }: ClaimFixture): Promise<Outcome> {
  const outcome = await harness.db.write((tx) =>
    harness.claims.decline(tx, { attemptId: attempt.id, claimer: named, now: at }),
  );
  return outcome.status === "refused" ? `refused ${outcome.state}` : outcome.status;
}

async function currentState({ harness, attempt, at }: ClaimFixture): Promise<ClaimState> {
  const found: ClaimAttempt | undefined = await readAttempt(harness.db, attempt.id);
  if (found === undefined) throw new Error("no such attempt");
  return claimStateOf(found, at);
}

async function ownersOf({ harness, accountId }: ClaimFixture): Promise<number> {
  const rows = await harness.db.all(
    "select * from membership where account_id = ? and role = 'owner'",
    [accountId],
  );
  return rows.length;
}
