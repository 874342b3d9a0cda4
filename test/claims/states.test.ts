// Every state of an attempt × everything that can happen to it, as it is written and read back on both stores. The
// expectations stand here in full: the table of the code is not used to test itself.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Role } from "../../src/accounts/members.ts";
import { createAccount } from "../../src/accounts/accounts.ts";
import {
  type Attempt,
  INTERVAL_MS,
  type State,
  STATES,
  stateOf,
  WINDOW_MS,
} from "../../src/claims/attempt.ts";
import { readAttempt } from "../../src/claims/attempt-rows.ts";
import type { Claimer, Started } from "../../src/claims/claims.ts";
import { getWallet, openWallet } from "../../src/ledger/ledger.ts";
import { recordPerson } from "../../src/people/people.ts";
import { eachStore, type TestStore } from "../support/stores.ts";
import { createWorld, ISSUER, T0, type World } from "./world.ts";

interface Ceremony {
  readonly world: World;
  readonly accountId: string;
  readonly keyId: string;
  readonly meant: Claimer;
  readonly other: Claimer;
  readonly attempt: Started;
  /** When the next thing happens. */
  at: number;
}

type Fact = string;

const EVENTS = ["poll", "confirm", "mistype", "decline", "restart"] as const;
type Event = (typeof EVENTS)[number];

/** How an attempt comes into each state. */
const WAYS: Readonly<Record<State, (ceremony: Ceremony) => Promise<void>>> = {
  initiated: async () => {},
  claimed: async (ceremony) => void (await confirm(ceremony, ceremony.meant)),
  declined: async (ceremony) => void (await decline(ceremony)),
  overtaken: async (ceremony) => {
    const later = await start(ceremony, ceremony.other.email);
    await confirm({ ...ceremony, attempt: later }, ceremony.other);
  },
  locked: async (ceremony) => {
    for (let wrong = 0; wrong < 5; wrong++) await mistype(ceremony);
  },
  superseded: async (ceremony) => void (await start(ceremony, ceremony.meant.email)),
  expired: async (ceremony) => {
    ceremony.at += WINDOW_MS;
  },
};

/** What comes of each event: the answer, and the state afterwards. */
const EXPECTED: Readonly<Record<State, Readonly<Record<Event, readonly [Fact, State]>>>> = {
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

const FIRE: Readonly<Record<Event, (ceremony: Ceremony) => Promise<Fact>>> = {
  poll: async ({ world, accountId, keyId, attempt, at }) =>
    (
      await world.db.write((tx) =>
        world.claims.poll(tx, { accountId, keyId, attemptId: attempt.id, now: at }),
      )
    ).status,
  confirm: (ceremony) => confirm(ceremony, ceremony.meant),
  mistype,
  decline,
  restart: async (ceremony) => {
    await start(ceremony, ceremony.meant.email);
    return "started";
  },
};

eachStore((kind, open) => {
  describe(`attempts on ${kind}`, () => {
    let store: TestStore;
    beforeAll(async () => {
      store = await open();
    });
    afterAll(() => store.close());

    for (const state of STATES)
      for (const event of EVENTS)
        test(`${state} × ${event}`, async () => {
          const ceremony = await begin(store);
          await WAYS[state](ceremony);
          expect(await stateNow(ceremony)).toBe(state);
          const [fact, after] = EXPECTED[state][event];
          expect(await FIRE[event](ceremony)).toBe(fact);
          expect(await stateNow(ceremony)).toBe(after);
        });

    for (const state of STATES)
      test(`${state} × a signed-in stranger`, async () => {
        const ceremony = await begin(store);
        await WAYS[state](ceremony);
        const stranger = await person(
          ceremony.world,
          `stranger-${crypto.randomUUID()}@example.com`,
        );
        expect(await confirm(ceremony, stranger)).toBe("wrong_account");
        const declined = await ceremony.world.db.write((tx) =>
          ceremony.world.claims.decline(tx, {
            attemptId: ceremony.attempt.id,
            claimer: stranger,
            now: ceremony.at,
          }),
        );
        expect(declined.status).toBe("wrong_account");
        expect(await stateNow(ceremony)).toBe(state);
      });

    test("a claim in time wins over a window that has closed since", async () => {
      const ceremony = await begin(store);
      ceremony.at += WINDOW_MS - 1;
      expect(await confirm(ceremony, ceremony.meant)).toBe("claimed owner");
      ceremony.at += WINDOW_MS;
      expect(await FIRE.poll(ceremony)).toBe("claimed");
    });

    test("the window closes at the very millisecond", async () => {
      const ceremony = await begin(store);
      ceremony.at += WINDOW_MS;
      expect(await confirm(ceremony, ceremony.meant)).toBe("refused expired");
    });

    test("polling too fast slows down by five seconds each time, for good", async () => {
      const ceremony = await begin(store);
      const poll = async (afterMs: number): Promise<string> => {
        ceremony.at += afterMs;
        const { world, accountId, keyId, at } = ceremony;
        const polled = await world.db.write((tx) =>
          world.claims.poll(tx, { accountId, keyId, now: at }),
        );
        return polled.status === "too_fast" ? `slow ${polled.intervalMs}` : polled.status;
      };
      expect(await poll(0)).toBe("pending");
      expect(await poll(INTERVAL_MS)).toBe("pending");
      expect(await poll(1_000)).toBe("slow 10000");
      expect(await poll(INTERVAL_MS)).toBe("slow 15000");
      expect(await poll(15_000)).toBe("pending");
      expect(await poll(14_700)).toBe("pending");
      expect(await poll(10_000)).toBe("slow 20000");
      // What is final is said at once, however fast the question comes.
      await confirm(ceremony, ceremony.meant);
      expect(await poll(1)).toBe("claimed");
      expect(await poll(1)).toBe("claimed");
    });

    test("confirmations at the same instant are one, and say the same", async () => {
      for (let round = 0; round < 5; round++) {
        const ceremony = await begin(store);
        const outcomes = await Promise.all(
          Array.from({ length: 6 }, () => confirm(ceremony, ceremony.meant)),
        );
        expect(new Set(outcomes)).toEqual(new Set(["claimed owner"]));
        expect((await getWallet(store.db, ceremony.accountId)).promo).toBe(1_000_000_000n);
      }
    });

    test("wrong codes at the same instant are all counted", async () => {
      for (let round = 0; round < 5; round++) {
        const ceremony = await begin(store);
        const outcomes = await Promise.all(Array.from({ length: 12 }, () => mistype(ceremony)));
        expect(outcomes.filter((fact) => fact === "refused locked")).toHaveLength(8);
        expect(await confirm(ceremony, ceremony.meant)).toBe("refused locked");
      }
    });

    test("confirming and declining at the same instant: one of them wins", async () => {
      for (let round = 0; round < 8; round++) {
        const ceremony = await begin(store);
        const facts = await Promise.all([
          confirm(ceremony, ceremony.meant),
          decline(ceremony),
          confirm(ceremony, ceremony.meant),
          decline(ceremony),
        ]);
        const state = await stateNow(ceremony);
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
        const ceremony = await begin(store);
        const [later, fact] = await Promise.all([
          start(ceremony, ceremony.other.email),
          confirm(ceremony, ceremony.meant),
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
      const ceremony = await begin(store);
      await confirm(ceremony, ceremony.meant);
      const before = await getWallet(store.db, ceremony.accountId);
      const invited = { ...ceremony, attempt: await start(ceremony, ceremony.other.email) };
      expect(await confirm(invited, ceremony.other)).toBe("claimed developer");
      expect(await getWallet(store.db, ceremony.accountId)).toEqual(before);
      expect(await FIRE.poll(invited)).toBe("claimed");
      expect(await stateNow(ceremony)).toBe("claimed");
    });

    test("the owner who is invited again stays the owner", async () => {
      const ceremony = await begin(store);
      await confirm(ceremony, ceremony.meant);
      const again = { ...ceremony, attempt: await start(ceremony, ceremony.meant.email) };
      expect(await confirm(again, ceremony.meant)).toBe("claimed owner");
      expect(await stateNow(ceremony)).toBe("claimed");
      expect(await ownersOf(ceremony)).toBe(1);
    });
  });
});

async function begin(store: TestStore): Promise<Ceremony> {
  const world = createWorld(store.db);
  const account = await store.db.write((tx) =>
    createAccount(
      tx,
      { email: null, networks: ["203.0.113.7/32", "203.0.113.0/24"], now: T0 },
      { limits: { perHour: 0, grantPerDay: 0n }, openWallet, grantStart: async () => {} },
    ),
  );
  const { key } = await store.db.write((tx) => world.keys.mint(tx, account.id, {}, T0));
  const bare = {
    world,
    accountId: account.id,
    keyId: key.id,
    meant: await person(world, `meant-${crypto.randomUUID()}@example.com`),
    other: await person(world, `other-${crypto.randomUUID()}@example.com`),
    at: T0,
  };
  return { ...bare, attempt: await start(bare, bare.meant.email) };
}

async function person(world: World, email: string): Promise<Claimer> {
  const { id, issuer, subject } = await world.db.write((tx) =>
    recordPerson(tx, { issuer: ISSUER, subject: email, email, name: null }, T0),
  );
  return { personId: id, issuer, subject, email };
}

function start(ceremony: Omit<Ceremony, "attempt">, email: string): Promise<Started> {
  const { world, accountId, keyId, at } = ceremony;
  return world.db.write((tx) =>
    world.claims.start(tx, { accountId, keyId, email, network: "203.0.113.0/24", now: at }),
  );
}

async function confirm(
  ceremony: Ceremony,
  claimer: Claimer,
  userCode = ceremony.attempt.userCode,
): Promise<Fact> {
  const { world, attempt, at } = ceremony;
  const outcome = await world.db.write((tx) =>
    world.claims.confirm(tx, { attemptId: attempt.id, claimer, userCode, keyChoices: [], now: at }),
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

function mistype(ceremony: Ceremony): Promise<Fact> {
  const wrong = ceremony.attempt.userCode === "000000" ? "000001" : "000000";
  return confirm(ceremony, ceremony.meant, wrong);
}

async function decline({ world, attempt, meant, at }: Ceremony): Promise<Fact> {
  const outcome = await world.db.write((tx) =>
    world.claims.decline(tx, { attemptId: attempt.id, claimer: meant, now: at }),
  );
  return outcome.status === "refused" ? `refused ${outcome.state}` : outcome.status;
}

async function stateNow({ world, attempt, at }: Ceremony): Promise<State> {
  const found: Attempt | undefined = await readAttempt(world.db, attempt.id);
  if (found === undefined) throw new Error("the attempt is gone");
  return stateOf(found, at);
}

async function ownersOf({ world, accountId }: Ceremony): Promise<number> {
  const rows = await world.db.all(
    "select * from membership where account_id = ? and role = 'owner'",
    [accountId],
  );
  return rows.length;
}
