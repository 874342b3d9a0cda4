// An invitation that is withdrawn and answered at the same moment has one end.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { createAccount } from "../../src/accounts/accounts.ts";
import { respondToInvitation, invite, withdrawInvitation } from "../../src/accounts/invitations.ts";
import { roleOf, claimWorkspace } from "../../src/accounts/members.ts";
import { Fault } from "../../src/base/fault.ts";
import { openWallet } from "../../src/ledger/ledger.ts";
import { recordPerson } from "../../src/people/people.ts";
import type { Tx } from "../../src/store/db.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";

const NOW = Date.UTC(2026, 10, 21, 9, 30);

describeEachStore((kind, open) => {
  describe(`invitations on ${kind}`, () => {
    let store: TestStore;
    let accountId: string;
    let guest: { readonly id: string; readonly email: string };
    beforeAll(async () => {
      store = await open();
    });
    afterAll(() => store.close());
    beforeEach(async () => {
      const networks = ["n/32", "n/24"] as const;
      const limits = { perHour: 0, grantPerDay: 0n };
      const parts = { limits, openWallet, grantStartingCredit: async () => {} };
      accountId = await store.db.write(
        async (tx) => (await createAccount(tx, { email: null, networks, now: NOW }, parts)).id,
      );
      const owner = await person();
      guest = await person();
      await store.db.write((tx) =>
        claimWorkspace(tx, { accountId, personId: owner.id, via: "test", now: NOW }),
      );
    });

    async function person(): Promise<{ id: string; email: string }> {
      const subject = crypto.randomUUID();
      const email = `${subject}@example.com`;
      const identity = { issuer: "i", subject, email, name: null };
      return { id: (await store.db.write((tx) => recordPerson(tx, identity, NOW))).id, email };
    }
    const invited = (): Promise<{ readonly id: string }> =>
      store.db.write((tx) =>
        invite(tx, { accountId, email: guest.email, invitedBy: "o", now: NOW }),
      );
    const answer = (tx: Tx, id: string, accept = true) =>
      respondToInvitation(tx, { id, accept, personId: guest.id, email: guest.email, now: NOW });
    const outcomeOf = (answering: Promise<{ readonly role: string | undefined }>) =>
      answering.then(
        ({ role }) => role ?? "declined",
        (error: unknown) => (error instanceof Fault ? error.code : String(error)),
      );

    for (const accept of [true, false])
      test(`what was withdrawn after it was read is not ${accept ? "accepted" : "declined"}: 404`, async () => {
        const { id } = await invited();
        const isRead = Promise.withResolvers<void>();
        const isGone = Promise.withResolvers<void>();
        const answering = store.db.write((tx) => {
          const paused: Tx = {
            ...tx,
            run: async (sql, values) => {
              if (sql.startsWith("delete from invitation")) {
                isRead.resolve();
                // One writer has one transaction: there the withdrawal comes within it.
                if (kind === "sqlite") await withdrawInvitation(tx, accountId, id);
                else await isGone.promise;
              }
              return await tx.run(sql, values);
            },
          };
          return answer(paused, id, accept);
        });
        const outcome = outcomeOf(answering);
        await isRead.promise;
        if (kind === "postgres")
          await store.db.write((tx) => withdrawInvitation(tx, accountId, id));
        isGone.resolve();
        expect(await outcome).toBe("not_found");
        expect(await roleOf(store.db, accountId, guest.id)).toBeUndefined();
      });

    test("of many answers at once one counts, and a withdrawal among them has its way or comes too late", async () => {
      for (let round = 0; round < 10; round++) {
        const { id } = await invited();
        const [outcomes] = await Promise.all([
          Promise.all(
            Array.from({ length: 4 }, (_, place) =>
              outcomeOf(store.db.write((tx) => answer(tx, id, place % 2 === 0))),
            ),
          ),
          store.db.write((tx) => withdrawInvitation(tx, accountId, id)),
        ]);
        const counted = outcomes.filter((outcome) => outcome !== "not_found");
        expect(counted.length).toBeLessThanOrEqual(1);
        const isMember = (await roleOf(store.db, accountId, guest.id)) === "developer";
        expect(isMember).toBe(counted[0] === "developer");
        await store.db.write((tx) =>
          tx.run("delete from membership where person_id = ?", [guest.id]),
        );
      }
    });

    test("it is accepted once, and its addressee is a developer", async () => {
      const { id } = await invited();
      expect(await outcomeOf(store.db.write((tx) => answer(tx, id)))).toBe("developer");
      expect(await outcomeOf(store.db.write((tx) => answer(tx, id)))).toBe("not_found");
      expect(await roleOf(store.db, accountId, guest.id)).toBe("developer");
    });
  });
});
