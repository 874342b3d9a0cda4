// Background responses: creation, polling, cancellation, failures and crashes.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createTempFolder, startPostern, stopAll } from "../commands/run-postern.ts";
import {
  errorOf,
  expectSettledLedger,
  expectEnvelope,
  type Json,
  usageRecordsOf,
  readWallet,
  releaseReplies,
} from "../inference/support/harness.ts";
import { eventually } from "../support/eventually.ts";
import { casesOn } from "../support/full.ts";
import {
  registerAccount,
  type TestAccount,
  type Gateway,
  startGateway,
} from "../support/gateway.ts";
import { migratedPostgres } from "../support/stores/postgres.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import {
  call,
  cancelResponse,
  createResponse,
  waitUntilEnded,
  getResponse,
  MODELS,
  openGateway,
  fundedAccount,
  noOpenHolds,
  openStreams,
  textOf,
} from "./harness.ts";

/** Begins, and does not end before it is canceled: nothing depends on how fast the machine is. */
const SLOW_INPUT = "[[sim: tokens=400 chunks=400 hang=20]] slowly";

afterAll(stopAll);

for (const store of STORE_KINDS) {
  describe(`background responses on ${store}`, () => {
    let gateway: Gateway;
    let account: TestAccount;
    beforeAll(async () => {
      gateway = await openGateway({ store });
      account = await fundedAccount(gateway);
    });
    afterAll(async () => {
      await expectSettledLedger(gateway.server.db);
      await gateway.stop();
    });

    const begin = (input: string, fields: Json = {}): Promise<Json> =>
      createResponse(gateway, account, {
        model: "sim/echo",
        input,
        background: true,
        store: true,
        ...fields,
      });

    for (const [wire, model] of casesOn(store, Object.entries(MODELS)))
      test(`are returned in progress and complete (${wire})`, async () => {
        const accepted = await begin("[[sim: latency=1000]] later", { model });
        expect(accepted).toMatchObject({
          object: "response",
          status: "in_progress",
          background: true,
          store: true,
          output: [],
        });
        const ended = await waitUntilEnded(gateway, account, accepted["id"]);
        expect(ended).toMatchObject({
          id: accepted["id"],
          object: "response",
          status: "completed",
          background: true,
          store: true,
        });
        expect(textOf(ended)).toBe("You said: later");
        expect((ended["usage"] as Json)["cost"]).toBeGreaterThan(0);
      });

    test("have one usage record and one charge", async () => {
      const ownAccount = await fundedAccount(gateway);
      const before = await readWallet(gateway.server.db, ownAccount.id);
      const accepted = await call(gateway, ownAccount, "POST /v1/responses", {
        body: { model: "sim/echo", input: "count me", background: true, store: true },
      });
      await waitUntilEnded(gateway, ownAccount, accepted.json["id"]);
      const records = await usageRecordsOf(gateway.server.db, ownAccount.id);
      expect(records.map(({ id, outcome }) => [id, outcome])).toEqual([
        [accepted.headers.get("x-request-id"), "completed"],
      ]);
      const after = await readWallet(gateway.server.db, ownAccount.id);
      expect(before.promo - after.promo).toBe(BigInt(String(records[0]?.["cost_nano"])));
      expect(after.held).toBe(0n);
    });

    test("can be continued only after they have completed", async () => {
      const { id } = await begin("[[sim: wait=first]] first");
      const early = await call(gateway, account, "POST /v1/responses", {
        body: { model: "sim/echo", input: "x", previous_response_id: id },
      });
      expect([early.status, errorOf(early.json)["param"]]).toEqual([400, "previous_response_id"]);
      expect(String(errorOf(early.json)["message"])).toContain("in progress");
      await releaseReplies(gateway, "first");
      await waitUntilEnded(gateway, account, id);
      const next = await begin("second", { previous_response_id: id });
      const ended = await waitUntilEnded(gateway, account, next["id"]);
      expect([ended["status"], ended["previous_response_id"]]).toEqual(["completed", String(id)]);
    });

    test("list their input while in progress", async () => {
      const { id } = await begin(SLOW_INPUT);
      const page = await getResponse(gateway, account, id, "/input_items");
      expect(JSON.stringify(page.json["data"])).toContain("slowly");
      await cancelResponse(gateway, account, id);
    });

    test("are aborted at the provider when canceled, and charge the usage so far", async () => {
      const ownAccount = await fundedAccount(gateway);
      const { id } = await createResponse(gateway, ownAccount, {
        model: "sim/echo",
        input: SLOW_INPUT,
        background: true,
        store: true,
      });
      await openStreams(gateway, true);
      for (let repetition = 0; repetition < 2; repetition++) {
        const response = await cancelResponse(gateway, ownAccount, id);
        expect([response.status, response.json["status"]]).toEqual([200, "cancelled"]);
      }
      await openStreams(gateway, false);
      await noOpenHolds(gateway);
      const [record] = await usageRecordsOf(gateway.server.db, ownAccount.id);
      expect(record?.["outcome"]).toBe("client_aborted");
      expect(BigInt(String(record?.["cost_nano"]))).toBeGreaterThan(0n);
      expect((await getResponse(gateway, ownAccount, id)).json).toMatchObject({
        status: "cancelled",
        output: [],
        usage: {
          input_tokens: Number(record?.["input_tokens"]),
          output_tokens: Number(record?.["output_tokens"]),
          cost: Number(record?.["cost_nano"]) / 1e9,
        },
      });
      const continued = await call(gateway, ownAccount, "POST /v1/responses", {
        body: { model: "sim/echo", input: "x", previous_response_id: id },
      });
      expect([continued.status, errorOf(continued.json)["param"]]).toEqual([
        400,
        "previous_response_id",
      ]);
    });

    test("cannot be canceled after they have completed", async () => {
      const { id } = await begin("quick");
      await waitUntilEnded(gateway, account, id);
      const response = await cancelResponse(gateway, account, id);
      expect([response.status, errorOf(response.json)["param"]]).toEqual([400, "id"]);
      expect((await getResponse(gateway, account, id)).json["status"]).toBe("completed");
    });

    test("are aborted at the provider when deleted", async () => {
      const { id } = await begin(SLOW_INPUT);
      await openStreams(gateway, true);
      const deleted = await call(gateway, account, `DELETE /v1/responses/${String(id)}`);
      expect(deleted.status).toBe(200);
      await openStreams(gateway, false);
      expect((await getResponse(gateway, account, id)).status).toBe(404);
    });

    test.each([
      ["status=500", "This error was requested by a directive."],
      ["cut=2 chunks=5", "The connection to Simulator was lost."],
      ["fail=2 chunks=5", "Overloaded"],
      ["status=400", "This error was requested by a directive."],
    ])(
      "fail with a reason and without a charge when the provider fails (%s)",
      async (directive, reason) => {
        const ownAccount = await fundedAccount(gateway);
        const before = await readWallet(gateway.server.db, ownAccount.id);
        const { id } = await createResponse(gateway, ownAccount, {
          model: "sim/echo",
          input: `[[sim: ${directive} latency=100]] x`,
          background: true,
          store: true,
        });
        const ended = await waitUntilEnded(gateway, ownAccount, id);
        expect(ended).toMatchObject({ status: "failed", error: { code: "server_error" } });
        expect((ended["error"] as Json)["message"]).toContain(reason);
        await noOpenHolds(gateway);
        expect(await readWallet(gateway.server.db, ownAccount.id)).toEqual(before);
      },
    );

    test("are rejected with the same errors as other calls", async () => {
      const unfunded = await registerAccount(gateway);
      const rejection = async (fields: Json): Promise<readonly unknown[]> => {
        const response = await call(gateway, unfunded, "POST /v1/responses", {
          body: { model: "sim/echo", input: "x", background: true, store: true, ...fields },
          headers: { "x-postern-hold": "full" },
        });
        expectEnvelope("responses", response.json);
        return [response.status, errorOf(response.json)["code"]];
      };
      expect(await rejection({ model: "sim/unknown" })).toEqual([404, "model_not_found"]);
      expect(await rejection({ model: "openai/gpt-5", max_output_tokens: 100_000 })).toEqual([
        402,
        "insufficient_credits",
      ]);
      const rows = await gateway.server.db.all(
        "select id from stored_response where account_id = ?",
        [unfunded.id],
      );
      expect(rows).toEqual([]);
    });

    test("are created once per Idempotency-Key", async () => {
      const ownAccount = await fundedAccount(gateway);
      const request = {
        headers: { "idempotency-key": "create-once" },
        body: { model: "sim/echo", input: "once", background: true, store: true },
      };
      const first = await call(gateway, ownAccount, "POST /v1/responses", request);
      await waitUntilEnded(gateway, ownAccount, first.json["id"]);
      const second = await call(gateway, ownAccount, "POST /v1/responses", request);
      expect(second.json).toEqual(first.json);
      expect((await usageRecordsOf(gateway.server.db, ownAccount.id)).length).toBe(1);
    });

    test("are limited to 16 per account", async () => {
      const ownAccount = await fundedAccount(gateway);
      const responses = await Promise.all(
        Array.from({ length: 20 }, () =>
          call(gateway, ownAccount, "POST /v1/responses", {
            body: {
              model: "sim/echo",
              input: SLOW_INPUT,
              max_output_tokens: 400,
              background: true,
              store: true,
            },
          }),
        ),
      );
      const statuses = responses.map(({ status }) => status).sort((left, right) => left - right);
      expect(statuses).toEqual([...Array.from({ length: 16 }, () => 200), 429, 429, 429, 429]);
      const limited = responses.find(({ status }) => status === 429);
      expect(Number(limited?.headers.get("retry-after"))).toBeGreaterThan(0);
      for (const { status, json } of responses)
        if (status === 200) await cancelResponse(gateway, ownAccount, json["id"]);
      await noOpenHolds(gateway);
    });
  });
}

describe("a background response of a dead process", () => {
  test("has failed after a restart, without a hold", async () => {
    const folder = createTempFolder();
    const first = await startPostern(["serve"], folder.settings);
    const account = await registerAccount(first);
    const accepted = await createResponse(first, account, {
      model: "sim/echo",
      input: SLOW_INPUT,
      background: true,
      store: true,
    });
    const completed = await createResponse(first, account, {
      model: "sim/echo",
      input: "done",
      store: true,
    });
    process.kill(-Number(first.process.pid), "SIGKILL");
    await first.exited;
    const second = await startPostern(["serve"], folder.settings);
    const { json } = await getResponse(second, account, accepted["id"]);
    expect(json).toMatchObject({ status: "failed", error: { code: "server_error" } });
    expect((await getResponse(second, account, completed["id"])).json).toEqual(completed);
    const wallet = await call(second, account, "GET /v1/account");
    expect(wallet.json["balance"]).toMatchObject({ held_credits: 0 });
    process.kill(-Number(second.process.pid), "SIGKILL");
    await second.exited;
    folder.remove();
  });
});

describe("a process killed while it stores responses", () => {
  test("has every response that a client received, after three kills", async () => {
    const folder = createTempFolder();
    let running = await startPostern(["serve"], folder.settings);
    const account = await registerAccount(running);
    const completed = new Map<unknown, Json>();
    for (let kill = 0; kill < 3; kill++) {
      const target = running;
      const abort = new AbortController();
      const sendUntilKilled = async (worker: number): Promise<void> => {
        for (let turn = 0; !abort.signal.aborted; turn++) {
          const body = {
            model: "sim/tiny",
            input: `${kill} ${worker} ${turn}`,
            max_output_tokens: 16,
            stream: worker % 2 === 0,
            store: true,
          };
          const response = await createResponse(target, account, body).catch(() => undefined);
          if (response === undefined) return;
          if (response["status"] === "completed") completed.set(response["id"], response);
        }
      };
      const workers = Array.from({ length: 8 }, (_, worker) => sendUntilKilled(worker));
      const before = completed.size;
      await eventually(() => completed.size > before + 20);
      process.kill(-Number(target.process.pid), "SIGKILL");
      abort.abort();
      await Promise.all([target.exited, ...workers]);
      running = await startPostern(["serve"], folder.settings);
    }
    for (const [id, response] of completed) {
      const stored = await getResponse(running, account, id);
      expect([stored.status, stored.json]).toEqual([200, response]);
    }
    expect(completed.size).toBeGreaterThan(60);
    process.kill(-Number(running.process.pid), "SIGKILL");
    await running.exited;
    folder.remove();
  });
});

describe("two processes on one PostgreSQL", () => {
  test("read, continue and cancel each other's responses", async () => {
    const databaseUrl = await migratedPostgres();
    const secret = "a-master-secret-for-both-processes-0123";
    const names = ["one", "two"] as const;
    const gateways: Gateway[] = [];
    for (const name of names)
      gateways.push(
        await startGateway({
          databaseUrl,
          providers: ["sim"],
          env: { POSTERN_SECRET: secret, POSTERN_PROCESS_NAME: name },
        }),
      );
    const [one, two] = gateways;
    if (one === undefined || two === undefined) throw new Error("no gateways");
    const account = await fundedAccount(one);
    const first = await createResponse(one, account, {
      model: "sim/echo",
      input: "x",
      store: true,
    });
    expect((await getResponse(two, account, first["id"])).json).toEqual(first);
    const slow = await createResponse(one, account, {
      model: "sim/echo",
      input: SLOW_INPUT,
      background: true,
      store: true,
      previous_response_id: first["id"],
    });
    expect((await getResponse(two, account, slow["id"])).json["status"]).toBe("in_progress");
    await openStreams(one, true);
    const canceled = await call(two, account, `POST /v1/responses/${String(slow["id"])}/cancel`);
    expect([canceled.status, canceled.json["status"]]).toEqual([200, "cancelled"]);
    await openStreams(one, false);
    await expectSettledLedger(one.server.db);
    for (const gateway of gateways) await gateway.stop();
  });
});
