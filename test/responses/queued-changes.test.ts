// What changes while a response waits: its account is claimed, closed or frozen, its key is revoked, prices change, and the clock jumps.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { setFreeze } from "../../src/ledger/freezes.ts";
import { setBatchFaults } from "../batches/batch-harness.ts";
import {
  GPT,
  HOUR_MS,
  MINUTE_MS,
  openProviderFixture,
  type ProviderFixture,
} from "../batches/provider-harness.ts";
import { createUser, makeOwner } from "../billing/console-user.ts";
import { type Json, usageRecordsOf } from "../inference/support/harness.ts";
import { withModels } from "../inference/support/models-file.ts";
import { eventually } from "../support/eventually.ts";
import type { TestAccount } from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import { call, getResponse, textOf } from "./harness.ts";

const PRICED = "sim/priced";
const CHANGE_MS = 30 * MINUTE_MS;
/** As many batches of an account as a process runs at a time. */
const RUNNING_PER_ACCOUNT = 8;

for (const store of STORE_KINDS)
  describe(`changes while a response waits on ${store}`, () => {
    let at: ProviderFixture;
    beforeAll(async () => {
      const from = new Date(Date.now() + CHANGE_MS).toISOString();
      const tokens = (output: string): Json => ({ tokens: { input: "1", output } });
      const pricing = [tokens("2"), { ...tokens("20"), from }];
      const model = { id: PRICED, context_length: 8_192, max_output_tokens: 1_024, pricing };
      at = await openProviderFixture(store, withModels([model]));
    });
    afterAll(() => at.close());
    afterEach(() => setBatchFaults(at.gateway, {}));

    const queue = async (account: TestAccount, fields: Json = {}, window = "8h"): Promise<Json> => {
      const options = { background: true, background_options: { completion_window: window } };
      const body = { model: GPT, input: "Hi", max_output_tokens: 64, ...options, ...fields };
      const reply = await call(at.gateway, account, "POST /v1/responses", { body });
      if (reply.status !== 200) throw new Error(`${reply.status} ${reply.text}`);
      expect(reply.json["status"]).toBe("queued");
      return reply.json;
    };
    const statusOf = async (account: TestAccount, { id }: Json): Promise<unknown> =>
      (await getResponse(at.gateway, account, id)).json["status"];
    const end = (account: TestAccount, { id }: Json): Promise<Json> =>
      eventually(async () => {
        const { json } = await getResponse(at.gateway, account, id);
        return json["status"] !== "queued" && json;
      });
    /** Waits until the provider has it, or has refused it once. */
    const reach = async ({ id }: Json, state: "sent" | "planned"): Promise<void> => {
      await eventually(async () => {
        const row = await at.gateway.server.db.get(
          `select state, attempts from provider_batch join batch on batch.id = provider_batch.batch_id
           where batch.response_id = ?`,
          [String(id)],
        );
        return row?.["state"] === state && (state === "sent" || Number(row["attempts"]) > 0);
      });
    };
    const usage = (account: TestAccount) => usageRecordsOf(at.gateway.server.db, account.id);
    const noHold = async (): Promise<void> => {
      await eventually(async () => (await at.held()) === 0n);
    };
    const endsOf = async (account: TestAccount, { id }: Json): Promise<readonly unknown[]> => {
      const { json } = await call(at.gateway, account, "GET /v1/events?limit=100");
      const events = json["data"] as readonly Json[];
      return events.flatMap(({ type, data }) => ((data as Json)["id"] === id ? type : []));
    };
    const expectPaidOnce = async (account: TestAccount, response: Json): Promise<void> => {
      const ended = await end(account, response);
      expect([ended["status"], textOf(ended)]).toEqual(["completed", "You said: Hi"]);
      await noHold();
      expect((await usage(account)).length).toBe(1);
      expect(await endsOf(account, response)).toEqual(["response.completed"]);
    };
    const expectFree = async (account: TestAccount, response: Json): Promise<void> => {
      expect(await end(account, response)).toMatchObject({ status: "failed", output: [] });
      await noHold();
      expect(await usage(account)).toEqual([]);
      expect(await endsOf(account, response)).toEqual(["response.failed"]);
    };

    const closing = {
      closed: async (account: TestAccount) =>
        void (await call(at.gateway, account, "DELETE /v1/account")),
      frozen: async ({ id }: TestAccount) => {
        const freeze = { at: at.now(), reason: "a test" };
        await at.gateway.server.db.write(async (tx) => {
          await tx.lockMany("wallet", "account_id", [id]);
          await setFreeze(tx, id, freeze);
        });
      },
    };
    const opening = {
      closed: async (account: TestAccount) =>
        void (await call(at.gateway, account, "POST /v1/account/reopen")),
      frozen: async ({ id }: TestAccount) => {
        await at.gateway.server.db.write(async (tx) => {
          await tx.lockMany("wallet", "account_id", [id]);
          await setFreeze(tx, id, null);
        });
      },
    };

    test("an account that is claimed keeps its response, which is paid once", async () => {
      const account = await at.fund();
      await setBatchFaults(at.gateway, { hold: true });
      const queued = await queue(account);
      await reach(queued, "sent");
      await makeOwner(at.gateway, account.id, await createUser(at.gateway, `olga-${store}`));
      await setBatchFaults(at.gateway, {});
      await expectPaidOnce(account, queued);
    });

    describe.each(["closed", "frozen"] as const)("an account that is %s", (change) => {
      test("gets nothing submitted, and its response fails at the end of its window", async () => {
        const account = await at.fund();
        await setBatchFaults(at.gateway, { refuse: 429 });
        const queued = await queue(account);
        await reach(queued, "planned");
        await closing[change](account);
        await setBatchFaults(at.gateway, {});
        for (let minutes = 0; minutes < 30; minutes += 6) at.advance(6 * MINUTE_MS);
        expect(await statusOf(account, queued)).toBe("queued");
        at.advance(8 * HOUR_MS);
        await expectFree(account, queued);
        at.advance(-(8 * HOUR_MS + 30 * MINUTE_MS));
        await opening[change](account);
      });

      test("gets its response once it is open again", async () => {
        const account = await at.fund();
        await setBatchFaults(at.gateway, { refuse: 429 });
        const queued = await queue(account);
        await reach(queued, "planned");
        await closing[change](account);
        await setBatchFaults(at.gateway, {});
        await opening[change](account);
        at.advance(6 * MINUTE_MS);
        await expectPaidOnce(account, queued);
        at.advance(-6 * MINUTE_MS);
      });

      test("pays once for a response that its provider runs already", async () => {
        const account = await at.fund();
        await setBatchFaults(at.gateway, { hold: true });
        const queued = await queue(account);
        await reach(queued, "sent");
        await closing[change](account);
        await setBatchFaults(at.gateway, {});
        await expectPaidOnce(account, queued);
        await opening[change](account);
      });
    });

    test("a key that is revoked gets no reply, and the batch of its provider is canceled", async () => {
      const account = await at.fund();
      const { json: made } = await call(at.gateway, account, "POST /v1/keys", { body: {} });
      const key = String(made["api_key"]);
      const headers = { ...account.headers, authorization: `Bearer ${key}` };
      await setBatchFaults(at.gateway, { hold: true });
      const queued = await queue({ ...account, key, headers });
      await reach(queued, "sent");
      await call(at.gateway, account, `DELETE /v1/keys/${String(made["id"])}`);
      await expectFree(account, queued);
    });

    test("a price that rises is that of the run, and no more than is held for it", async () => {
      const account = await at.fund();
      const slow = { model: PRICED, input: "[[sim: latency=6000]]" };
      for (let index = 0; index < RUNNING_PER_ACCOUNT; index++) await queue(account, slow, "2h");
      const cheap = { model: PRICED, input: "Hi", max_output_tokens: 1_000 };
      const queued = await queue(account, cheap, "2h");
      const [batch] = await at.gateway.server.db.all(
        "select process from batch where response_id = ?",
        [String(queued["id"])],
      );
      expect(batch).toEqual({ process: null });
      at.advance(CHANGE_MS);
      const ended = await end(account, queued);
      expect(ended["status"]).toBe("completed");
      const { input_tokens: input, output_tokens: output, cost } = ended["usage"] as Json;
      expect(Number(cost)).toBeCloseTo((Number(input) + 20 * Number(output)) / 1e6, 9);
      await noHold();
      at.advance(-CHANGE_MS);
    });

    test("a clock that jumps back and forth delays nothing, and it is paid once", async () => {
      const account = await at.fund();
      await setBatchFaults(at.gateway, { hold: true });
      const queued = await queue(account);
      await reach(queued, "sent");
      for (const hours of [5, -5, 7, -7]) {
        at.advance(hours * HOUR_MS);
        // A poll at this time.
        const before = await pollsOf(at);
        await eventually(async () => (await pollsOf(at)) > before);
      }
      await setBatchFaults(at.gateway, {});
      await expectPaidOnce(account, queued);
    });
  });

/** How often the provider was asked for its batches. */
async function pollsOf(at: ProviderFixture): Promise<number> {
  return Number((await at.simulated())["reads"] ?? 0);
}
