// Every state of an attempt × everything that can happen to it, as it is written and read back on both stores. The
// expectations stand here in full: the table of the code is not used to test itself.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Role } from "../../src/accounts/members.ts";
import { createAccount } from "../../src/accounts/accounts.ts";
import {
  type ClaimAttempt,
  POLL_INTERVAL_MS,
  type ClaimState,
  CLAIM_STATES,
  claimStateOf,
  CLAIM_TTL_MS,
} from "../../src/claims/claim-attempt.ts";
import { readAttempt } from "../../src/claims/claim-attempt-rows.ts";
import type { Claimer, StartedClaim } from "../../src/claims/claims.ts";
import { getWallet, openWallet } from "../../src/ledger/ledger.ts";
import { recordPerson } from "../../src/people/people.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";
import { createHarness, ISSUER, T0, type Harness } from "./harness.ts";

interface ClaimFixture {
  readonly harness: Harness;
  readonly accountId: string;
  readonly keyId: string;
  readonly named: Claimer;
  readonly other: Claimer;
  readonly attempt: StartedClaim;
  /** When the next thing happens. */
  at: number;
}

type Outcome = string;

const EVENTS = ["poll", "confirm", "mistype", "decline", "restart"] as const;
type Event = (typeof EVENTS)[number];

/** How an attempt comes into each state. */
const REACH_STATE: Readonly<Record<ClaimState, (ceremony: ClaimFixture) => Promise<void>>> = {
  initiated: async () => {},
  claimed: async (ceremony) => void (await confirm(ceremony, ceremony.named)),
  declined: async (ceremony) => void (await decline(ceremony)),
  overtaken: async (ceremony) => {
    const later = await start(ceremony, ceremony.other.email);
    await confirm({ ...ceremony, attempt: later }, ceremony.other);
  },
  locked: async (ceremony) => {
    for (let wrong = 0; wrong < 5; wrong++) await enterWrongCode(ceremony);
  },
  superseded: async (ceremony) => void (await start(ceremony, ceremony.named.email)),
  expired: async (ceremony) => {
    ceremony.at += CLAIM_TTL_MS;
  },
};

/** What comes of each event: the answer, and the state afterwards. */
const EXPECTED: Readonly<
  Record<ClaimState, Readonly<Record<Event, readonly [Outcome, ClaimState]>>>
> = {
  initiated: {
    poll: ["pending", "initiated"],
    confirm: ["claimed owner", "claimed"],
    mistype: ["wrong_code 4", "initiated"],
    decline: ["declined", "declined"],
    restart: ["started", "superseded"],
  },
  claimed: {
    poll: ["claimed", "claimed"],
    confirm: ["claimed owner", "claimed"],
    mistype: ["claimed owner", "claimed"],
    decline: ["refused claimed", "claimed"],
    restart: ["started", "claimed"],
  },
  declined: {
    poll: ["denied", "declined"],
    confirm: ["refused declined", "declined"],
    mistype: ["refused declined", "declined"],
    decline: ["declined", "declined"],
    restart: ["started", "declined"],
  },
  overtaken: {
    poll: ["denied", "overtaken"],
    confirm: ["refused overtaken", "overtaken"],
    mistype: ["refused overtaken", "overtaken"],
    decline: ["refused overtaken", "overtaken"],
    restart: ["started", "overtaken"],
  },
  locked: {
    poll: ["expired", "locked"],
    confirm: ["refused locked", "locked"],
    mistype: ["refused locked", "locked"],
    decline: ["refused locked", "locked"],
    restart: ["started", "locked"],
  },
  superseded: {
    poll: ["expired", "superseded"],
    confirm: ["refused superseded", "superseded"],
    mistype: ["refused superseded", "superseded"],
    decline: ["refused superseded", "superseded"],
    restart: ["started", "superseded"],
  },
  expired: {
    poll: ["expired", "expired"],
    confirm: ["refused expired", "expired"],
    mistype: ["refused expired", "expired"],
    decline: ["refused expired", "expired"],
    restart: ["started", "superseded"],
  },
};

const TRIGGER: Readonly<Record<Event, (ceremony: ClaimFixture) => Promise<Outcome>>> = {
  poll: async ({ harness, accountId, keyId, attempt, at }) =>
    (
      await harness.db.write((tx) =>
        harness.claims.poll(tx, { accountId, keyId, attemptId: attempt.id, now: at }),
      )
    ).status,
  confirm: (ceremony) => confirm(ceremony, ceremony.named),
  mistype: enterWrongCode,
  decline,
  restart: async (ceremony) => {
    await start(ceremony, ceremony.named.email);
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
          const ceremony = await createFixture(store);
          await REACH_STATE[state](ceremony);
          expect(await currentState(ceremony)).toBe(state);
          const [fact, after] = EXPECTED[state][event];
          expect(await TRIGGER[event](ceremony)).toBe(fact);
          expect(await currentState(ceremony)).toBe(after);
        });

    for (const state of CLAIM_STATES)
      test(`${state} × a signed-in stranger`, async () => {
        const ceremony = await createFixture(store);
        await REACH_STATE[state](ceremony);
        const stranger = await person(
          ceremony.harness,
          `stranger-${crypto.randomUUID()}@example.com`,
        );
        expect(await confirm(ceremony, stranger)).toBe("wrong_account");
        const declined = await ceremony.harness.db.write((tx) =>
          ceremony.harness.claims.decline(tx, {
            attemptId: ceremony.attempt.id,
            claimer: stranger,
            now: ceremony.at,
          }),
        );
        expect(declined.status).toBe("wrong_account");
        expect(await currentState(ceremony)).toBe(state);
      });

    test("a claim in time wins over a window that has closed since", async () => {
      const ceremony = await createFixture(store);
      ceremony.at += CLAIM_TTL_MS - 1;
      expect(await confirm(ceremony, ceremony.named)).toBe("claimed owner");
      ceremony.at += CLAIM_TTL_MS;
      expect(await TRIGGER.poll(ceremony)).toBe("claimed");
    });

    test("the window closes at the very millisecond", async () => {
      const ceremony = await createFixture(store);
      ceremony.at += CLAIM_TTL_MS;
      expect(await confirm(ceremony, ceremony.named)).toBe("refused expired");
    });

    test("polling too fast slows down by five seconds each time, for good", async () => {
      const ceremony = await createFixture(store);
      const poll = async (afterMs: number): Promise<string> => {
        ceremony.at += afterMs;
        const { harness, accountId, keyId, at } = ceremony;
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
      // What is final is said at once, however fast the question comes.
      await confirm(ceremony, ceremony.named);
      expect(await poll(1)).toBe("claimed");
      expect(await poll(1)).toBe("claimed");
    });

    test("confirmations at the same instant are one, and say the same", async () => {
      for (let round = 0; round < 5; round++) {
        const ceremony = await createFixture(store);
        const outcomes = await Promise.all(
          Array.from({ length: 6 }, () => confirm(ceremony, ceremony.named)),
        );
        expect(new Set(outcomes)).toEqual(new Set(["claimed owner"]));
        expect((await getWallet(store.db, ceremony.accountId)).promo).toBe(1_000_000_000n);
      }
    });

    test("wrong codes at the same instant are all counted", async () => {
      for (let round = 0; round < 5; round++) {
        const ceremony = await createFixture(store);
        const outcomes = await Promise.all(
          Array.from({ length: 12 }, () => enterWrongCode(ceremony)),
        );
        expect(outcomes.filter((fact) => fact === "refused locked")).toHaveLength(8);
        expect(await confirm(ceremony, ceremony.named)).toBe("refused locked");
      }
    });

    test("confirming and declining at the same instant: one of them wins", async () => {
      for (let round = 0; round < 8; round++) {
        const ceremony = await createFixture(store);
        const facts = await Promise.all([
          confirm(ceremony, ceremony.named),
          decline(ceremony),
          confirm(ceremony, ceremony.named),
          decline(ceremony),
        ]);
        const state = await currentState(ceremony);
        expect(new Set(facts)).toEqual(
          new Set(
            state === "claimed"
              ? ["claimed owner", "refused claimed"]
              : ["declined", "refused declined"],
          ),
        );
      }
    });

    test("a new start and a confirmation at the same instant: the one that is first counts", async () => {
      for (let round = 0; round < 8; round++) {
        const ceremony = await createFixture(store);
        const [later, fact] = await Promise.all([
          start(ceremony, ceremony.other.email),
          confirm(ceremony, ceremony.named),
        ]);
        const outcome = await confirm({ ...ceremony, attempt: later }, ceremony.other);
        expect([fact, outcome]).toEqual(
          fact === "claimed owner"
            ? ["claimed owner", "claimed developer"]
            : ["refused superseded", "claimed owner"],
        );
        expect(await ownersOf(ceremony)).toBe(1);
      }
    });

    test("an invitation makes a developer, gives no bonus and touches no key", async () => {
      const ceremony = await createFixture(store);
      await confirm(ceremony, ceremony.named);
      const before = await getWallet(store.db, ceremony.accountId);
      const invited = { ...ceremony, attempt: await start(ceremony, ceremony.other.email) };
      expect(await confirm(invited, ceremony.other)).toBe("claimed developer");
      expect(await getWallet(store.db, ceremony.accountId)).toEqual(before);
      expect(await TRIGGER.poll(invited)).toBe("claimed");
      expect(await currentState(ceremony)).toBe("claimed");
    });

    test("the owner who is invited again stays the owner", async () => {
      const ceremony = await createFixture(store);
      await confirm(ceremony, ceremony.named);
      const again = { ...ceremony, attempt: await start(ceremony, ceremony.named.email) };
      expect(await confirm(again, ceremony.named)).toBe("claimed owner");
      expect(await currentState(ceremony)).toBe("claimed");
      expect(await ownersOf(ceremony)).toBe(1);
    });
  });
});

async function createFixture(store: TestStore): Promise<ClaimFixture> {
  const harness = createHarness(store.db);
  const account = await store.db.write((tx) =>
    createAccount(
      tx,
      { email: null, networks: ["203.0.113.7/32", "203.0.113.0/24"], now: T0 },
      { limits: { perHour: 0, grantPerDay: 0n }, openWallet, grantStartingCredit: async () => {} },
    ),
  );
  const { key } = await store.db.write((tx) => harness.keys.create(tx, account.id, {}, T0));
  const bare = {
    harness,
    accountId: account.id,
    keyId: key.id,
    named: await person(harness, `meant-${crypto.randomUUID()}@example.com`),
    other: await person(harness, `other-${crypto.randomUUID()}@example.com`),
    at: T0,
  };
  return { ...bare, attempt: await start(bare, bare.named.email) };
}

async function person(harness: Harness, email: string): Promise<Claimer> {
  const { id, issuer, subject } = await harness.db.write((tx) =>
    recordPerson(tx, { issuer: ISSUER, subject: email, email, name: null }, T0),
  );
  return { personId: id, issuer, subject, email };
}

function start(ceremony: Omit<ClaimFixture, "attempt">, email: string): Promise<StartedClaim> {
  const { harness, accountId, keyId, at } = ceremony;
  return harness.db.write((tx) =>
    harness.claims.start(tx, { accountId, keyId, email, network: "203.0.113.0/24", now: at }),
  );
}

async function confirm(
  ceremony: ClaimFixture,
  claimer: Claimer,
  userCode = ceremony.attempt.userCode,
): Promise<Outcome> {
  const { harness, attempt, at } = ceremony;
  const outcome = await harness.db.write((tx) =>
    harness.claims.confirm(tx, {
      attemptId: attempt.id,
      claimer,
      userCode,
      keyChoices: [],
      now: at,
    }),
  );
  switch (outcome.status) {
    case "claimed":
      return `claimed ${outcome.role satisfies Role}`;
    case "wrong_code":
      return `wrong_code ${outcome.left}`;
    case "refused":
      return `refused ${outcome.state}`;
    case "wrong_account":
      return outcome.status;
  }
}

function enterWrongCode(ceremony: ClaimFixture): Promise<Outcome> {
  const wrong = ceremony.attempt.userCode === "000000" ? "000001" : "000000";
  return confirm(ceremony, ceremony.named, wrong);
}

async function decline({ harness, attempt, named, at }: ClaimFixture): Promise<Outcome> {
  const outcome = await harness.db.write((tx) =>
    harness.claims.decline(tx, { attemptId: attempt.id, claimer: named, now: at }),
  );
  return outcome.status === "refused" ? `refused ${outcome.state}` : outcome.status;
}

async function currentState({ harness, attempt, at }: ClaimFixture): Promise<ClaimState> {
  const found: ClaimAttempt | undefined = await readAttempt(harness.db, attempt.id);
  if (found === undefined) throw new Error("the attempt is gone");
  return claimStateOf(found, at);
}

async function ownersOf({ harness, accountId }: ClaimFixture): Promise<number> {
  const rows = await harness.db.all(
    "select * from membership where account_id = ? and role = 'owner'",
    [accountId],
  );
  return rows.length;
}
