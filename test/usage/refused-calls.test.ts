// Refused calls are in the log of the account, free, and limited in number.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { newId } from "../../src/base/id.ts";
import { DAY_MS } from "../../src/base/time.ts";
import type { RefusedCall } from "../../src/http/finish-response.ts";
import {
  createRefusedCalls,
  findRefusedCall,
  listRefusedCalls,
  REFUSALS_PER_DAY_MAX,
  sweepRefusedCalls,
} from "../../src/usage/refused-calls.ts";
import { textOf, visitPage } from "../billing/console-user.ts";
import { type ConsoleFixture, createConsoleFixture } from "../console/console-fixture.ts";
import { call, chat, type Json, textAt } from "../spec/api-client.ts";
import { eventually } from "../support/eventually.ts";
import { describeEachStore } from "../support/stores/stores.ts";

const NOW = Date.UTC(2026, 10, 18, 9);

describeEachStore((store, open) => {
  describe(`refused calls on ${store}`, () => {
    let fixture: ConsoleFixture;
    beforeAll(async () => {
      fixture = await createConsoleFixture(store);
    });
    afterAll(() => fixture.gateway.stop());

    test("are in the log with code and advice, whatever refused them, and cost nothing", async () => {
      const { gateway, account, owner } = fixture;
      const mint = async (body: Json): Promise<{ readonly id: string; readonly key: string }> => {
        const created = await call(gateway, "POST /v1/keys", { key: account.key, body });
        const id = textAt(created.body, "id");
        return { id, key: textAt(created.body, "api_key") };
      };
      const [spent, readOnly, revoked] = [
        await mint({ limit_usd: 0 }),
        await mint({ scopes: ["usage:read"] }),
        await mint({}),
      ];
      await call(gateway, `DELETE /v1/keys/${revoked.id}`, { key: account.key });
      const balanceOf = async (): Promise<unknown> =>
        (await call(gateway, "GET /v1/account", { key: account.key })).body["balance"];
      const before = await balanceOf();
      const refusals = [
        [await chat(gateway, account.key, { max_tokens: -1 }), "invalid_request"],
        [await chat(gateway, revoked.key), "invalid_api_key"],
        [await chat(gateway, spent.key), "key_limit_reached"],
        [await chat(gateway, readOnly.key), "forbidden"],
        [await chat(gateway, account.key, { model: "sim/none" }), "model_not_found"],
        [
          await call(gateway, "POST /v1/messages", { key: account.key, body: { model: "sim/x" } }),
          "invalid_request",
        ],
      ] as const;
      const log = `/console/${account.id}/logs`;
      for (const [response, code] of refusals) {
        const id = response.headers.get("x-request-id") ?? "";
        expect([code, response.status < 500]).toEqual([code, true]);
        await eventually(
          async () => (await visitPage(gateway, `${log}/${id}`, owner)).status === 200,
        );
        const page = textOf(await visitPage(gateway, `${log}/${id}`, owner));
        expect(page).toContain(`${response.status} ${code}`);
        expect(page).toContain("It cost nothing");
      }
      const list = await visitPage(gateway, `${log}?outcome=refused`, owner);
      expect(list.text.match(/<th scope="row"/g)).toHaveLength(refusals.length);
      expect(textOf(list)).toContain("No model has the id");
      expect(await balanceOf()).toEqual(before);
      const { otherAccount, otherOwner } = fixture;
      const [first] = refusals;
      const foreign = `/console/${otherAccount.id}/logs/${first[0].headers.get("x-request-id")}`;
      expect((await visitPage(gateway, foreign, otherOwner)).status).toBe(404);
    });

    test("do not include requests with an unknown key, other endpoints, or errors of a provider", async () => {
      const { gateway, otherAccount } = fixture;
      const { key, id } = otherAccount;
      await chat(gateway, "pst-rt-unknown");
      await call(gateway, "GET /v1/keys/key_none", { key });
      await chat(gateway, key, { messages: [{ role: "user", content: "[[sim: error=429]]" }] });
      const last = await chat(gateway, key, { max_tokens: -1 });
      const lastId = last.headers.get("x-request-id") ?? "";
      const { db } = gateway.server;
      await eventually(async () => (await findRefusedCall(db, id, lastId)) !== undefined);
      const page = await listRefusedCalls(db, id, { from: 0, to: undefined }, { limit: 10 });
      expect(page.data.map((refused) => refused.id)).toEqual([lastId]);
    });

    test("are limited per account and day, also across processes, and deleted after 30 days", async () => {
      const { db, close } = await open();
      const refused = (at: number): RefusedCall => ({
        id: newId("req", at),
        accountId: "acct_a",
        keyId: "key_a",
        createdAt: at,
        path: "/v1/messages",
        model: null,
        status: 429,
        code: "rate_limited",
        message: "x".repeat(5_000),
      });
      const count = async (): Promise<number> =>
        (await db.all("select id from refused_call")).length;
      const processes = [createRefusedCalls(db), createRefusedCalls(db)];
      for (const process of processes) {
        for (let sent = 0; sent < REFUSALS_PER_DAY_MAX + 10; sent++) process.add(refused(NOW));
        await process.flush();
      }
      expect(await count()).toBe(REFUSALS_PER_DAY_MAX);
      const [row] = await db.all("select message from refused_call limit 1");
      expect(String(row?.["message"])).toHaveLength(500);
      for (const process of processes) {
        process.add(refused(NOW + DAY_MS));
        await process.flush();
      }
      expect(await count()).toBe(REFUSALS_PER_DAY_MAX + 2);
      await db.write((tx) => sweepRefusedCalls(tx, NOW + 30 * DAY_MS + 1));
      expect(await count()).toBe(2);
      await close();
    });
  });
});
