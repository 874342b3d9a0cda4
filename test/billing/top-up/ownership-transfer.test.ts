// Somebody who owned a workspace a moment ago sends a form while it is handed over, and nothing of it outlives them.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { transferOwnership } from "../../../src/accounts/members.ts";
import { findMethod } from "../../../src/billing/top-up/payment-method-rows.ts";
import { findAutoTopUp } from "../../../src/billing/top-up/top-up-rows.ts";
import { getBudgets } from "../../../src/ledger/budgets.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import {
  type TestUser,
  createUser,
  makeDeveloper,
  makeOwner,
  type PageResponse,
  visitPage,
} from "../console-user.ts";

// The first test starts PostgreSQL.
setDefaultTimeout(60_000);

const RULES = { do: "allow", threshold_usd: "1", amount_usd: "10", monthly_ceiling_usd: "100" };

for (const store of STORE_KINDS)
  describe(`forms against a handover on ${store}`, () => {
    let gateway: Gateway;
    let account: TestAccount;
    let console: string;
    let owner: TestUser;
    let heir: TestUser;
    let names = 0;
    beforeAll(async () => {
      gateway = await startGateway({ store });
    });
    afterAll(() => gateway.stop());

    async function openWorkspace(): Promise<void> {
      names += 1;
      account = await registerAccount(gateway);
      console = `/console/${account.id}`;
      owner = await createUser(gateway, `owner${names}`);
      heir = await createUser(gateway, `heir${names}`);
      await makeOwner(gateway, account.id, owner);
      await makeDeveloper(gateway, account.id, heir);
    }

    /** On PostgreSQL until so many wait for a lock; SQLite lets one write after the other anyway. */
    async function untilWaiting(count: number): Promise<void> {
      if (store === "sqlite") return await Bun.sleep(50);
      const sql =
        "select cast(count(*) as text) as waiting from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
      for (let looks = 0; looks < 400; looks++) {
        const row = await gateway.server.db.get(sql);
        if (Number(row?.["waiting"]) >= count) return;
        await Bun.sleep(10);
      }
      throw new Error("nobody waits");
    }

    /** Something else is at the wallet, so that the handover and the form meet there, in this order. */
    async function meetAtTheWallet(
      first: () => Promise<PageResponse>,
      second: () => Promise<PageResponse>,
    ) {
      const held = Promise.withResolvers<void>();
      const release = Promise.withResolvers<void>();
      const holder = gateway.server.db.write(async (tx) => {
        await tx.lockMany("wallet", "account_id", [account.id]);
        held.resolve();
        await release.promise;
      });
      await held.promise;
      const one = first();
      await untilWaiting(1);
      const other = second();
      await untilWaiting(2);
      release.resolve();
      await holder;
      return [await one, await other] as const;
    }

    test("auto top-up that the former owner allows meanwhile stays off", async () => {
      await openWorkspace();
      await visitPage(gateway, `${console}/billing/card`, owner, { card: "works" });
      const form = { do: "hand_over", person: heir.personId };
      const [handed, allowed] = await meetAtTheWallet(
        () => visitPage(gateway, `${console}/members`, owner, form),
        () => visitPage(gateway, `${console}/billing`, owner, RULES),
      );
      expect([handed.status, allowed.status]).toEqual([303, 403]);
      expect(await findMethod(gateway.server.db, account.id)).toBeUndefined();
      expect((await findAutoTopUp(gateway.server.db, account.id))?.status ?? "off").toBe("off");
      const row = await gateway.server.db.get("select top_up_at from wallet where account_id = ?", [
        account.id,
      ]);
      expect(Number(row?.["top_up_at"])).toBe(0);
    });

    const FORMS = [
      ["budgets", "/budgets", { daily_usd: "500", monthly_usd: "" }],
      ["a card", "/billing/card", { card: "works" }],
      ["a purchase", "/billing", { do: "buy", amount_usd: "10", once: "req_once" }],
      ["a webhook", "/webhooks", { do: "add", url: "https://example.com/hook" }],
      ["an invitation", "/members", { do: "invite", email: "friend@example.com" }],
    ] as const;
    for (const [what, path, form] of FORMS)
      test(`${what} of the former owner is refused`, async () => {
        await openWorkspace();
        const begun = Promise.withResolvers<void>();
        const end = Promise.withResolvers<void>();
        const handing = gateway.server.db.write(async (tx) => {
          await transferOwnership(tx, account.id, owner.personId, heir.personId);
          begun.resolve();
          await end.promise;
        });
        await begun.promise;
        const sent = visitPage(gateway, console + path, owner, form);
        await Promise.race([untilWaiting(1), sent]);
        end.resolve();
        await handing;
        expect((await sent).status).toBe(403);
        const { db } = gateway.server;
        expect((await getBudgets(db, account.id, Date.now())).day.limit).toBeNull();
        expect(await findMethod(db, account.id)).toBeUndefined();
        for (const table of ["invoice", "webhook", "invitation"])
          expect(
            await db.all(`select id from ${table} where account_id = ?`, [account.id]),
          ).toEqual([]);
      });

    test("a key that somebody mints who is being taken out of the workspace is not made", async () => {
      await openWorkspace();
      const begun = Promise.withResolvers<void>();
      const end = Promise.withResolvers<void>();
      const taking = gateway.server.db.write(async (tx) => {
        await tx.lockMany("account", "id", [account.id]);
        await tx.run("delete from membership where account_id = ? and person_id = ?", [
          account.id,
          heir.personId,
        ]);
        begun.resolve();
        await end.promise;
      });
      await begun.promise;
      const sent = visitPage(gateway, `${console}/keys`, heir, { do: "mint", name: "mine" });
      await Promise.race([untilWaiting(1), sent]);
      end.resolve();
      await taking;
      expect((await sent).status).toBe(404);
      const keys = await gateway.server.db.all("select id from api_key where account_id = ?", [
        account.id,
      ]);
      expect(keys.length).toBe(1);
    });
  });
