// Groups of thousands of users: the work of a request, and what a directory can have in all.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createAccount } from "../../src/accounts/accounts.ts";
import { addMember } from "../../src/accounts/members.ts";
import { recordPerson } from "../../src/people/people.ts";
import {
  changeGroup,
  createGroup,
  deleteGroup,
  type GroupFields,
  setGroupRole,
} from "../../src/scim/scim-groups.ts";
import type { Column, Tx, Values } from "../../src/store/db.ts";
import { actIn } from "../support/act.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";

const NOW = Date.UTC(2026, 10, 21, 9, 30);
const USERS = 2_000;
const USER_COLUMNS: readonly Column[] = [
  "account_id:text",
  "id:text",
  "user_name:text",
  "user_name_folded:text",
  "email:text",
  "email_folded:text",
  "active:bigint",
  "created_at:bigint",
  "changed_at:bigint",
];
const group = (members: readonly string[]): GroupFields => ({
  displayName: `group of ${members.length} ${crypto.randomUUID()}`,
  externalId: null,
  members: new Set(members),
});

describeEachStore((kind, open) => {
  describe(`large groups on ${kind}`, () => {
    let store: TestStore;
    beforeAll(async () => {
      store = await open();
    });
    afterAll(() => store.close());

    async function directory(): Promise<{
      readonly accountId: string;
      readonly ids: readonly string[];
    }> {
      return await store.db.write(async (tx) => {
        const request = { email: null, network: "n", startingCredit: 0n, now: NOW };
        const { id: accountId } = await createAccount(tx, request);
        const ids = Array.from({ length: USERS }, () => `scu_${crypto.randomUUID()}`);
        const rows = ids.map((id): Values => {
          const email = `${id}@example.com`;
          return [accountId, id, email, email, email, email, 1, NOW, NOW];
        });
        await tx.insertMany("scim_user", USER_COLUMNS, rows);
        await tx.run(
          `insert into scim_directory (account_id, token_hash, last4, former_until, fallback_role, hands_over_keys, created_at)
           values (?, ?, 'abcd', 0, 'viewer', 0, ?)`,
          [accountId, crypto.randomUUID(), NOW],
        );
        return { accountId, ids };
      });
    }

    /** The number of statements of a change. */
    async function statementsOf(change: (tx: Tx) => Promise<unknown>): Promise<number> {
      let statements = 0;
      await store.db.write((tx) =>
        change(
          new Proxy(tx, {
            get: (target, name) => {
              const value: unknown = Reflect.get(target, name);
              if (typeof value !== "function") return value;
              return (...args: readonly unknown[]): unknown => {
                statements += 1;
                return Reflect.apply(value, target, args);
              };
            },
          }),
        ),
      );
      return statements;
    }

    test("take few statements to fill, to empty and to delete, also with roles", async () => {
      const { accountId, ids } = await directory();
      const act = actIn(accountId, NOW);
      const { id } = await store.db.write((tx) => createGroup(tx, act, group([])));
      await store.db.write(async (tx) => {
        const email = `${ids[0]}@example.com`;
        const person = await recordPerson(
          tx,
          { issuer: "i", subject: crypto.randomUUID(), email, name: null },
          NOW,
        );
        const member = { accountId, personId: person.id, role: "viewer", via: "test" } as const;
        await addMember(tx, { ...member, network: null, now: NOW });
        await setGroupRole(tx, act, { id, role: "billing" });
      });
      const roles = async () =>
        (await store.db.all("select role from membership where account_id = ?", [accountId])).map(
          (row) => row["role"],
        );
      const filled = await statementsOf((tx) =>
        changeGroup(tx, act, id, (before) => ({ ...before, members: new Set(ids) })),
      );
      expect(await roles()).toEqual(["billing"]);
      const emptied = await statementsOf((tx) =>
        changeGroup(tx, act, id, (before) => ({ ...before, members: new Set() })),
      );
      expect(await roles()).toEqual(["viewer"]);
      await store.db.write((tx) =>
        changeGroup(tx, act, id, (before) => ({ ...before, members: new Set(ids) })),
      );
      const deleted = await statementsOf((tx) => deleteGroup(tx, act, id));
      for (const statements of [filled, emptied, deleted]) expect(statements).toBeLessThan(60);
    });

    test("name a user that does not exist", async () => {
      const { accountId, ids } = await directory();
      const creating = store.db.write((tx) =>
        createGroup(tx, actIn(accountId, NOW), group([...ids, "scu_unknown"])),
      );
      expect(creating).rejects.toThrow("SCIM invalidValue");
      await creating.catch(() => {});
    });

    test("of a directory have at most 100,000 members together", async () => {
      const { accountId, ids } = await directory();
      const act = actIn(accountId, NOW);
      await store.db.write((tx) =>
        tx.run(
          `with recursive full_group(number) as (select 1 union all select number + 1 from full_group where number < 50)
           insert into scim_group_member (account_id, group_id, user_id)
           select account_id, 'scg_' || cast(number as text), id from full_group cross join scim_user where account_id = ?`,
          [accountId],
        ),
      );
      const creating = store.db.write((tx) => createGroup(tx, act, group(ids.slice(0, 1))));
      expect(creating).rejects.toThrow("SCIM tooMany");
      await creating.catch(() => {});
      await store.db.write((tx) => createGroup(tx, act, group([])));
    });
  });
});
