// Concurrent responses to and withdrawals of an invitation.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { createAccount } from "../../src/accounts/accounts.ts";
import { respondToInvitation, invite, withdrawInvitation } from "../../src/accounts/invitations.ts";
import { roleOf, claimWorkspace } from "../../src/accounts/members.ts";
import { Fault } from "../../src/base/fault.ts";
import { DAY_MS } from "../../src/base/time.ts";
import { recordPerson } from "../../src/people/people.ts";
import type { Tx } from "../../src/store/db.ts";
import { personActIn } from "../support/act.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";

const NOW = Date.UTC(2026, 10, 21, 9, 30);

describeEachStore((kind, open) => {
  describe(`invitations on ${kind}`, () => {
    let store: TestStore;
    let accountId: string;
    let owner: { readonly id: string };
    let guest: { readonly id: string; readonly email: string };
    beforeAll(async () => {
      store = await open();
    });
    afterAll(() => store.close());
    beforeEach(async () => {
      const request = { email: null, network: "n/32", startingCredit: 0n, now: NOW };
      accountId = await store.db.write(async (tx) => (await createAccount(tx, request)).id);
      owner = await person();
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
    const invited = (): Promise<string> =>
      store.db.write((tx) =>
        invite(tx, personActIn(accountId, owner.id, NOW), {
          email: guest.email,
          role: "developer",
        }),
      );
    const respond = (tx: Tx, id: string, accept = true) =>
      respondToInvitation(tx, {
        id,
        accept,
        personId: guest.id,
        email: guest.email,
        network: null,
        now: NOW,
      });
    const outcomeOf = (response: Promise<{ readonly role: string | undefined }>) =>
      response.then(
        ({ role }) => role ?? "declined",
        (error: unknown) => (error instanceof Fault ? error.code : String(error)),
      );

    test("are at most 100 of a workspace a day, also if each is withdrawn", async () => {
      const send = (tx: Tx, number: number, now: number): Promise<string> =>
        invite(tx, personActIn(accountId, owner.id, now), {
          email: `guest-${number}@example.com`,
          role: "developer",
        });
      await store.db.write(async (tx) => {
        for (let number = 0; number < 100; number++) {
          const id = await send(tx, number, NOW);
          await withdrawInvitation(tx, personActIn(accountId, owner.id, NOW), id);
        }
      });
      const more = store.db.write((tx) => send(tx, 100, NOW + 1));
      expect(more).rejects.toThrow("too many invitations of a day");
      await more.catch(() => {});
      await store.db.write((tx) => send(tx, 100, NOW + 2 * DAY_MS));
    });

    for (const accept of [true, false])
      test(`an invitation withdrawn after it was read cannot be ${accept ? "accepted" : "declined"}: 404`, async () => {
        const id = await invited();
        const isRead = Promise.withResolvers<void>();
        const isGone = Promise.withResolvers<void>();
        const response = store.db.write((tx) => {
          const paused: Tx = {
            ...tx,
            run: async (sql, values) => {
              if (sql.startsWith("delete from invitation")) {
                isRead.resolve();
                // SQLite has one writer, so the withdrawal runs in the same transaction.
                if (kind === "sqlite")
                  await withdrawInvitation(tx, personActIn(accountId, owner.id, NOW), id);
                else await isGone.promise;
              }
              return await tx.run(sql, values);
            },
          };
          return respond(paused, id, accept);
        });
        const outcome = outcomeOf(response);
        await isRead.promise;
        if (kind === "postgres")
          await store.db.write((tx) =>
            withdrawInvitation(tx, personActIn(accountId, owner.id, NOW), id),
          );
        isGone.resolve();
        expect(await outcome).toBe("not_found");
        expect(await roleOf(store.db, accountId, guest.id)).toBeUndefined();
      });

    test("of concurrent responses and a withdrawal, one succeeds", async () => {
      for (let round = 0; round < 10; round++) {
        const id = await invited();
        const [outcomes] = await Promise.all([
          Promise.all(
            Array.from({ length: 4 }, (_, index) =>
              outcomeOf(store.db.write((tx) => respond(tx, id, index % 2 === 0))),
            ),
          ),
          store.db.write((tx) => withdrawInvitation(tx, personActIn(accountId, owner.id, NOW), id)),
        ]);
        const succeeded = outcomes.filter((outcome) => outcome !== "not_found");
        expect(succeeded.length).toBeLessThanOrEqual(1);
        const isMember = (await roleOf(store.db, accountId, guest.id)) === "developer";
        expect(isMember).toBe(succeeded[0] === "developer");
        await store.db.write((tx) =>
          tx.run("delete from membership where person_id = ?", [guest.id]),
        );
      }
    });

    test("an invitation is accepted once and makes the person a developer", async () => {
      const id = await invited();
      expect(await outcomeOf(store.db.write((tx) => respond(tx, id)))).toBe("developer");
      expect(await outcomeOf(store.db.write((tx) => respond(tx, id)))).toBe("not_found");
      expect(await roleOf(store.db, accountId, guest.id)).toBe("developer");
    });
  });
});
