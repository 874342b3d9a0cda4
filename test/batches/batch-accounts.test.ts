// What becomes of batches at providers when their account is frozen, closed or erased, and when their key is revoked or limited.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { GRACE_MS } from "../../src/account-data/closing.ts";
import { eraseClosedAccounts } from "../../src/account-data/erasure.ts";
import { setFreeze } from "../../src/ledger/freezes.ts";
import type { Json } from "../inference/support/harness.ts";
import { call } from "../responses/harness.ts";
import { eventually } from "../support/eventually.ts";
import type { TestAccount } from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import { createBatch, openaiRequests, postBatch, setBatchFaults } from "./batch-harness.ts";
import {
  BATCH_MODELS,
  MINUTE_MS,
  openProviderFixture,
  type ProviderFixture,
  requestsTo,
} from "./provider-harness.ts";

for (const store of STORE_KINDS) {
  describe(`accounts with batches at providers on ${store}`, () => {
    let at: ProviderFixture;
    beforeAll(async () => {
      at = await openProviderFixture(store);
    });
    afterAll(() => at.close());
    afterEach(() => setBatchFaults(at.gateway, {}));

    const setFrozen = (owner: TestAccount, isFrozen: boolean): Promise<unknown> =>
      at.gateway.server.db.write((tx) =>
        setFreeze(tx, owner.id, isFrozen ? { at: at.now(), reason: "test" } : null),
      );
    /** Refused for now by the provider, which is asked again five minutes later. */
    const startRefused = async (): Promise<Json> => {
      await setBatchFaults(at.gateway, { refuse: 429 });
      const created = await at.start(openaiRequests(2));
      await eventually(async () => {
        const { state, attempts } = await at.submissionOf(created);
        return state === "planned" && Number(attempts) === 1;
      });
      return created;
    };

    test("that are frozen submit nothing until they are no more", async () => {
      const frozen = await startRefused();
      const owner = at.owner();
      await setFrozen(owner, true);
      const other = await startRefused();
      await setBatchFaults(at.gateway, {});
      at.advance(6 * MINUTE_MS);
      await at.expectPaidOnce(await at.end(other), 2);
      const { state, attempts } = await at.submissionOf(frozen);
      expect([state, Number(attempts)]).toEqual(["planned", 1]);
      await setFrozen(owner, false);
      at.advance(MINUTE_MS);
      await eventually(async () => {
        const { json } = await call(at.gateway, owner, `GET /v1/batches/${String(frozen["id"])}`);
        return json["status"] === "completed";
      });
    });

    for (const model of BATCH_MODELS)
      test(`that are frozen are charged for what ${model} has run`, async () => {
        await setBatchFaults(at.gateway, { hold: true });
        const created = await at.start(requestsTo(model, 2));
        await at.reach(created, "sent");
        await setFrozen(at.owner(), true);
        await setBatchFaults(at.gateway, {});
        const ended = await at.end(created);
        expect(ended).toMatchObject({ status: "completed", request_counts: { completed: 2 } });
        await at.expectPaidOnce(ended, 2);
      });

    test("that are closed are charged for what has run, and erased only then", async () => {
      await setBatchFaults(at.gateway, { hold: true });
      const created = await at.start(openaiRequests(2));
      const owner = at.owner();
      await at.reach(created, "sent");
      expect((await call(at.gateway, owner, "DELETE /v1/account")).status).toBe(200);
      const refused = await postBatch(at.gateway, owner, { requests: openaiRequests(1) });
      expect(refused.status).toBe(403);
      const { db } = at.gateway.server;
      const erasedAt = at.now() + 2 * GRACE_MS;
      expect(await eraseClosedAccounts(db, erasedAt)).not.toContain(owner.id);
      expect(await at.submissionOf(created)).toMatchObject({ state: "sent" });
      await setBatchFaults(at.gateway, {});
      const ended = await at.end(created);
      expect(ended).toMatchObject({ status: "completed", request_counts: { completed: 2 } });
      await at.expectPaidOnce(ended, 2);
      expect(await eraseClosedAccounts(db, erasedAt)).toContain(owner.id);
      const id = String(created["id"]);
      for (const [table, column] of [
        ["batch", "id"],
        ["batch_item", "batch_id"],
        ["provider_batch", "batch_id"],
        ["stored_file", "batch_id"],
      ]) {
        const rows = await db.all(`select * from ${table} where ${column} = ?`, [id]);
        expect([table, rows]).toEqual([table, []]);
      }
    });

    for (const change of ["DELETE", "PATCH"])
      test(`are charged for what has run after a ${change} of the key`, async () => {
        const owner = await at.fund();
        const made = await call(at.gateway, owner, "POST /v1/keys", {
          body: { scopes: ["models:write", "models:read"], limit_usd: 50 },
        });
        const authorization = `Bearer ${String(made.json["api_key"] ?? made.json["key"])}`;
        const limited = { ...owner, headers: { ...owner.headers, authorization } };
        await setBatchFaults(at.gateway, { hold: true });
        const created = await createBatch(at.gateway, limited, openaiRequests(2));
        await at.reach(created, "sent");
        await call(at.gateway, owner, `${change} /v1/keys/${String(made.json["id"])}`, {
          ...(change === "PATCH" && { body: { limit_usd: 0, allowed_models: ["sim/*"] } }),
        });
        if (change === "PATCH") await setBatchFaults(at.gateway, {});
        const ended = await at.end(created);
        if (change === "PATCH") await at.expectPaidOnce(ended, 2);
        else
          expect((await at.resultsOf(ended))[0]).toMatchObject({ response: { status_code: 401 } });
        expect(await at.held()).toBe(0n);
      });
  });
}
