// An invitation is bound to one email address; only ASCII case is ignored.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  respondToInvitation,
  listInvitationsForEmail,
  invite,
} from "../../src/accounts/invitations.ts";
import { claimWorkspace } from "../../src/accounts/members.ts";
import { personActIn } from "../support/act.ts";
import { rejectionMessage } from "../support/rejection.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";

const NOW = 1_800_000_000_000;

describeEachStore((kind, open) => {
  describe(`the email address of an invitation on ${kind}`, () => {
    let store: TestStore;
    beforeAll(async () => {
      store = await open();
      await store.db.write(async (tx) => {
        await tx.run(
          "insert into account (id, created_at, created_from) values ('acct_a', 1, 'test')",
        );
        for (const name of ["owner", "kim"])
          await tx.run(
            "insert into person (id, issuer, subject, email, created_at, signed_in_at) values (?, 'i', ?, ?, 1, 1)",
            [`usr_${name}`, name, `${name}@example.com`],
          );
        await claimWorkspace(tx, {
          accountId: "acct_a",
          personId: "usr_owner",
          via: "test",
          now: 1,
        });
      });
    });
    afterAll(() => store.close());

    const invited = (email: string) =>
      store.db.write((tx) =>
        invite(tx, personActIn("acct_a", "usr_owner", NOW), { email, role: "developer" }),
      );

    test("does not match an address that is only equal after Unicode case folding", async () => {
      const id = await invited("Kim@Example.com");
      const other = "\u212aim@example.com";
      expect(await listInvitationsForEmail(store.db, other, NOW)).toEqual([]);
      const response = { id, accept: true, personId: "usr_other", network: null, now: NOW };
      expect(
        await rejectionMessage(
          store.db.write((tx) => respondToInvitation(tx, { ...response, email: other })),
        ),
      ).toContain("no such invitation");
      const found = await listInvitationsForEmail(store.db, "kIM@example.COM", NOW);
      expect(found.map((one) => one.id)).toEqual([id]);
      const accepted = await store.db.write((tx) =>
        respondToInvitation(tx, { ...response, personId: "usr_kim", email: "KIM@example.com" }),
      );
      expect(accepted.role).toBe("developer");
    });

    test("matches both spellings of an internationalized domain name", async () => {
      const id = await invited("ada@Bücher.example");
      const found = await listInvitationsForEmail(store.db, "ada@xn--bcher-kva.example", NOW);
      expect(found.map((one) => one.id)).toEqual([id]);
    });

    test("must be valid", async () => {
      for (const email of ["friend.example", "@example.com", "a b@example.com"])
        expect(await rejectionMessage(invited(email))).toContain("email");
    });

    test("must not be the owner's own", async () => {
      expect(await rejectionMessage(invited(" Owner@Example.com"))).toContain(
        "your own email address",
      );
      expect(await listInvitationsForEmail(store.db, "owner@example.com", NOW)).toEqual([]);
    });
  });
});
