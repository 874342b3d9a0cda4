// Forms that an owner or member submits while tnewOwner role is being removed have no effect.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { transferOwnership } from "../../../src/accounts/members.ts";
import { findMethod } from "../../../src/billing/top-up/payment-method-rows.ts";
import { findAutoTopUp } from "../../../src/billing/top-up/top-up-rows.ts";
import { getBudgets } from "../../../src/ledger/wallet-budgets.ts";
import { personActIn } from "../../support/act.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";
import { queueAtLock, untilWaiting } from "../../support/stores/lock-queue.ts";
import { PATIENT_LOCK_MS, STORE_KINDS } from "../../support/stores/stores.ts";
import { type TestUser, createUser, makeDeveloper, makeOwner, visitPage } from "../console-user.ts";

const RULES = { do: "allow", threshold_usd: "1", amount_usd: "10", monthly_ceiling_usd: "100" };

for (const store of STORE_KINDS)
  describe(`forms during a transfer of ownership on ${store}`, () => {
    let gateway: Gateway;
    let account: TestAccount;
    let console: string;
    let owner: TestUser;
    let newOwner: TestUser;
    let nextName = 0;
    beforeAll(async () => {
      gateway = await startGateway({ store, lockTimeoutMs: PATIENT_LOCK_MS });
    });
    afterAll(() => gateway.stop());

    async function openWorkspace(): Promise<void> {
      nextName += 1;
      account = await registerAccount(gateway);
      console = `/console/${account.id}`;
      owner = await createUser(gateway, `owner${nextName}`);
      newOwner = await createUser(gateway, `newOwner${nextName}`);
      await makeOwner(gateway, account.id, owner);
      await makeDeveloper(gateway, account.id, newOwner);
    }

    test("the former owner cannot enable auto top-up", async () => {
      await openWorkspace();
      await visitPage(gateway, `${console}/billing/card`, owner, { card: "works" });
      const form = { do: "hand_over", person: newOwner.personId };
      const wallet = { table: "wallet", key: "account_id", id: account.id };
      const [transferred, enabled] = await queueAtLock(gateway, wallet, [
        () => visitPage(gateway, `${console}/members`, owner, form),
        () => visitPage(gateway, `${console}/billing`, owner, RULES),
      ]);
      expect([transferred.status, enabled.status]).toEqual([303, 403]);
      expect(await findMethod(gateway.server.db, account.id)).toBeUndefined();
      expect((await findAutoTopUp(gateway.server.db, account.id))?.status ?? "off").toBe("off");
      const row = await gateway.server.db.get("select top_up_at from wallet where account_id = ?", [
        account.id,
      ]);
      expect(Number(row?.["top_up_at"])).toBe(0);
    });

    const FORMS = [
      ["set budgets", "/budgets", { daily_usd: "500", monthly_usd: "" }],
      ["save a card", "/billing/card", { card: "works" }],
      ["buy credits", "/billing", { do: "buy", amount_usd: "10", once: "req_once" }],
      ["create a webhook", "/webhooks", { do: "add", url: "https://example.com/hook" }],
      ["invite a member", "/members", { do: "invite", email: "friend@example.com" }],
    ] as const;
    for (const [action, path, form] of FORMS)
      test(`the former owner cannot ${action}`, async () => {
        await openWorkspace();
        const started = Promise.withResolvers<void>();
        const finish = Promise.withResolvers<void>();
        const transfer = gateway.server.db.write(async (tx) => {
          await transferOwnership(
            tx,
            personActIn(account.id, owner.personId, Date.now()),
            newOwner.personId,
          );
          started.resolve();
          await finish.promise;
        });
        await started.promise;
        const response = visitPage(gateway, console + path, owner, form);
        await Promise.race([untilWaiting(gateway, 1), response]);
        finish.resolve();
        await transfer;
        expect((await response).status).toBe(403);
        const { db } = gateway.server;
        expect((await getBudgets(db, account.id, Date.now())).day.limit).toBeNull();
        expect(await findMethod(db, account.id)).toBeUndefined();
        for (const table of ["invoice", "webhook", "invitation"])
          expect(
            await db.all(`select id from ${table} where account_id = ?`, [account.id]),
          ).toEqual([]);
      });

    test("a member who is being removed cannot create a key", async () => {
      await openWorkspace();
      const started = Promise.withResolvers<void>();
      const finish = Promise.withResolvers<void>();
      const removal = gateway.server.db.write(async (tx) => {
        await tx.lockMany("account", "id", [account.id]);
        await tx.run("delete from membership where account_id = ? and person_id = ?", [
          account.id,
          newOwner.personId,
        ]);
        started.resolve();
        await finish.promise;
      });
      await started.promise;
      const response = visitPage(gateway, `${console}/keys`, newOwner, {
        do: "mint",
        name: "mine",
      });
      await Promise.race([untilWaiting(gateway, 1), response]);
      finish.resolve();
      await removal;
      expect((await response).status).toBe(404);
      const keys = await gateway.server.db.all("select id from api_key where account_id = ?", [
        account.id,
      ]);
      expect(keys.length).toBe(1);
    });
  });
