// Members of a workspace and the permissions of their roles.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { createAccount } from "../../src/accounts/accounts.ts";
import {
  type Permission,
  transferOwnership,
  hasPermission,
  listAllMembers,
  removeMember,
  requirePermission,
  ROLE_PERMISSIONS,
  roleOf,
  ROLES,
  claimWorkspace,
  listMemberships,
} from "../../src/accounts/members.ts";
import { recordPerson } from "../../src/people/people.ts";
import { isDuplicate, type Tx } from "../../src/store/db.ts";
import { actIn, addDeveloper, personActIn } from "../support/act.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";

const NOW = 1_000;

test("developers have no permissions for billing, members or provider keys", () => {
  const forbidden = Object.keys(ROLE_PERMISSIONS).filter((permission) =>
    /^(provider_keys|webhooks|audit)\.|^billing\.(buy|auto_top_up)|members\.(invite|change|remove)|budgets\.change/.test(
      permission,
    ),
  );
  expect(forbidden.length).toBeGreaterThanOrEqual(9);
  // Safe because these are the table's own keys.
  for (const permission of forbidden)
    expect(hasPermission("developer", permission as Permission)).toBe(false);
  for (const permission of Object.keys(ROLE_PERMISSIONS))
    expect(ROLES.some((role) => hasPermission(role, permission as Permission))).toBe(true);
});

describeEachStore((kind, open) => {
  describe(`members on ${kind}`, () => {
    let store: TestStore;
    let accountId: string;
    let owner: string;
    let developer: string;
    let stranger: string;
    const write = <T>(work: (tx: Tx) => Promise<T>) => store.db.write(work);
    beforeAll(async () => {
      store = await open();
    });
    afterAll(() => store.close());
    beforeEach(async () => {
      accountId = await account();
      [owner, developer, stranger] = [await person(), await person(), await person()];
      await write((tx) =>
        claimWorkspace(tx, { accountId, personId: owner, via: "test", now: NOW }),
      );
      await write((tx) =>
        addDeveloper(tx, { accountId, personId: developer, via: "test", now: NOW }),
      );
    });

    async function account(): Promise<string> {
      const request = { email: null, network: "n/32", startingCredit: 0n, now: NOW };
      return (await write((tx) => createAccount(tx, request))).id;
    }
    async function person(): Promise<string> {
      const subject = crypto.randomUUID();
      const identity = { issuer: "i", subject, email: `${subject}@example.com`, name: null };
      return (await write((tx) => recordPerson(tx, identity, NOW))).id;
    }

    test("lists the owner first", async () => {
      const members = await listAllMembers(store.db, accountId);
      expect(members.map(({ personId, role }) => [personId, role])).toEqual([
        [owner, "owner"],
        [developer, "developer"],
      ]);
    });

    test("a workspace has exactly one owner", async () => {
      const again = write((tx) =>
        claimWorkspace(tx, { accountId, personId: stranger, via: "t", now: NOW }),
      );
      expect(again).rejects.toThrow("is already claimed");
      await again.catch(() => {});
      const forced = write((tx) =>
        tx.run(
          "insert into membership (account_id, person_id, role, owner_of, added_at, via) values (?, ?, 'owner', ?, 1, 't')",
          [accountId, stranger, accountId],
        ),
      );
      expect(await forced.catch(isDuplicate)).toBe(true);
    });

    test("a member who is added again keeps the role", async () => {
      const add = (personId: string) =>
        write((tx) => addDeveloper(tx, { accountId, personId, via: "test", now: NOW }));
      expect(await add(owner)).toBe("owner");
      expect(await add(developer)).toBe("developer");
      expect(await listAllMembers(store.db, accountId)).toHaveLength(2);
    });

    test("requirePermission rejects other roles with 403 and non-members with 404", async () => {
      expect(await requirePermission(store.db, accountId, owner, "billing.buy")).toBe("owner");
      expect(await requirePermission(store.db, accountId, developer, "keys.create")).toBe(
        "developer",
      );
      const code = (personId: string, at = accountId) =>
        requirePermission(store.db, at, personId, "billing.buy").then(
          () => "allowed",
          (error: { readonly code: string }) => error.code,
        );
      expect(await code(developer)).toBe("forbidden");
      expect(await code(stranger)).toBe("not_found");
      expect(await code(owner, "acct_nothing")).toBe("not_found");
    });

    test("an owner can only leave after transferring ownership", async () => {
      expect(write((tx) => removeMember(tx, actIn(accountId, NOW), owner))).rejects.toThrow();
      expect(
        write((tx) => transferOwnership(tx, personActIn(accountId, developer, NOW), owner)),
      ).rejects.toThrow();
      expect(
        write((tx) => transferOwnership(tx, personActIn(accountId, owner, NOW), stranger)),
      ).rejects.toThrow();
      await write((tx) => transferOwnership(tx, personActIn(accountId, owner, NOW), developer));
      expect(await roleOf(store.db, accountId, developer)).toBe("owner");
      await write((tx) => removeMember(tx, actIn(accountId, NOW), owner));
      expect(await roleOf(store.db, accountId, owner)).toBeUndefined();
    });

    test("a person can be a member of several workspaces", async () => {
      const other = await account();
      await write((tx) =>
        claimWorkspace(tx, { accountId: other, personId: developer, via: "t", now: NOW + 1 }),
      );
      expect(await listMemberships(store.db, developer)).toEqual([
        { accountId, name: null, role: "developer", addedAt: NOW, needsSso: false },
        { accountId: other, name: null, role: "owner", addedAt: NOW + 1, needsSso: false },
      ]);
      expect(await roleOf(store.db, other, owner)).toBeUndefined();
    });
  });
});
