// Responses that run in the background: accepted at once, asked for by their id, cancelled, and never left hanging.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import {
  errorOf,
  expectSettledLedger,
  expectEnvelope,
  type Json,
  countOpenHolds,
  usageRecordsOf,
  simStats,
  waitUntil,
  readWallet,
} from "../inference/support/harness.ts";
import { createTempFolder, startPostern, stopAll } from "../commands/run-postern.ts";
import {
  registerAccount,
  type TestAccount,
  type Gateway,
  startGateway,
} from "../support/gateway.ts";
import { testPostgres } from "../support/stores/postgres.ts";
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
  textOf,
} from "./harness.ts";

// The first of these tests starts a PostgreSQL, on a machine that may be busy.
setDefaultTimeout(60_000);

const SLOW = "[[sim: tokens=400 chunks=400 pace=20]] slowly";

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

    const begin = (input: string, more: Json = {}): Promise<Json> =>
      createResponse(gateway, account, {
        model: "sim/echo",
        input,
        background: true,
        store: true,
        ...more,
      });

    for (const [wire, model] of Object.entries(MODELS))
      test(`are answered at once and end by themselves (${wire})`, async () => {
        const accepted = await begin("[[sim: latency=300]] later", { model });
        expect(accepted).toMatchObject({
          object: "response",
          status: "in_progress",
          background: true,
          store: true,
          output: [],
        });
        const whole = await waitUntilEnded(gateway, account, accepted["id"]);
        expect(whole).toMatchObject({
          id: accepted["id"],
          object: "response",
          status: "completed",
          background: true,
          store: true,
        });
        expect(textOf(whole)).toBe("You said: later");
        expect((whole["usage"] as Json)["cost"]).toBeGreaterThan(0);
      });

    test("have one usage record and one charge, as any call", async () => {
      const mine = await fundedAccount(gateway);
      const before = await readWallet(gateway.server.db, mine.id);
      const accepted = await call(gateway, mine, "POST /v1/responses", {
        body: { model: "sim/echo", input: "count me", background: true, store: true },
      });
      await waitUntilEnded(gateway, mine, accepted.json["id"]);
      const records = await usageRecordsOf(gateway.server.db, mine.id);
      expect(records.map(({ id, outcome }) => [id, outcome])).toEqual([
        [accepted.headers.get("x-request-id"), "completed"],
      ]);
      const after = await readWallet(gateway.server.db, mine.id);
      expect(before.promo - after.promo).toBe(BigInt(String(records[0]?.["cost_nano"])));
      expect(after.held).toBe(0n);
    });

    test("are gone on from when they have ended, and not before", async () => {
      const { id } = await begin("[[sim: latency=400]] first");
      const early = await call(gateway, account, "POST /v1/responses", {
        body: { model: "sim/echo", input: "x", previous_response_id: id },
      });
      expect([early.status, errorOf(early.json)["param"]]).toEqual([400, "previous_response_id"]);
      expect(String(errorOf(early.json)["message"])).toContain("in progress");
      await waitUntilEnded(gateway, account, id);
      const next = await begin("second", { previous_response_id: id });
      const whole = await waitUntilEnded(gateway, account, next["id"]);
      expect([whole["status"], whole["previous_response_id"]]).toEqual(["completed", String(id)]);
    });

    test("list their input while they run", async () => {
      const { id } = await begin(SLOW);
      const page = await getResponse(gateway, account, id, "/input_items");
      expect(JSON.stringify(page.json["data"])).toContain("slowly");
      await cancelResponse(gateway, account, id);
    });

    test("stop when they are cancelled: the provider is left, what was metered is charged, and it can be repeated", async () => {
      const mine = await fundedAccount(gateway);
      const { id } = await createResponse(gateway, mine, {
        model: "sim/echo",
        input: SLOW,
        background: true,
        store: true,
      });
      const streams = async (): Promise<number> => (await simStats(gateway)).open_streams;
      await waitUntil(streams, (open) => open > 0);
      await Bun.sleep(200);
      for (let turn = 0; turn < 2; turn++) {
        const answer = await cancelResponse(gateway, mine, id);
        expect([answer.status, answer.json["status"]]).toEqual([200, "cancelled"]);
      }
      await waitUntil(streams, (open) => open === 0);
      await waitUntil(
        () => countOpenHolds(gateway.server.db),
        (open) => open === 0,
      );
      const [record] = await usageRecordsOf(gateway.server.db, mine.id);
      expect(record?.["outcome"]).toBe("client_aborted");
      expect(BigInt(String(record?.["cost_nano"]))).toBeGreaterThan(0n);
      expect((await getResponse(gateway, mine, id)).json).toMatchObject({
        status: "cancelled",
        output: [],
        usage: {
          input_tokens: Number(record?.["input_tokens"]),
          output_tokens: Number(record?.["output_tokens"]),
          cost: Number(record?.["cost_nano"]) / 1e9,
        },
      });
      const on = await call(gateway, mine, "POST /v1/responses", {
        body: { model: "sim/echo", input: "x", previous_response_id: id },
      });
      expect([on.status, errorOf(on.json)["param"]]).toEqual([400, "previous_response_id"]);
    });

    test("cannot be cancelled when they have ended", async () => {
      const { id } = await begin("quick");
      await waitUntilEnded(gateway, account, id);
      const answer = await cancelResponse(gateway, account, id);
      expect([answer.status, errorOf(answer.json)["param"]]).toEqual([400, "id"]);
      expect((await getResponse(gateway, account, id)).json["status"]).toBe("completed");
    });

    test("stop when they are deleted", async () => {
      const { id } = await begin(SLOW);
      await waitUntil(
        async () => (await simStats(gateway)).open_streams,
        (open) => open > 0,
      );
      const gone = await call(gateway, account, `DELETE /v1/responses/${String(id)}`);
      expect(gone.status).toBe(200);
      await waitUntil(
        async () => (await simStats(gateway)).open_streams,
        (open) => open === 0,
      );
      expect((await getResponse(gateway, account, id)).status).toBe(404);
    });

    test.each(["status=500", "cut=2 chunks=5", "fail=2 chunks=5", "status=400"])(
      "fail where the provider does (%s), with a reason and without a charge",
      async (order) => {
        const mine = await fundedAccount(gateway);
        const before = await readWallet(gateway.server.db, mine.id);
        const { id } = await createResponse(gateway, mine, {
          model: "sim/echo",
          input: `[[sim: ${order} latency=100]] x`,
          background: true,
          store: true,
        });
        const whole = await waitUntilEnded(gateway, mine, id);
        expect(whole).toMatchObject({ status: "failed", error: { code: "server_error" } });
        expect(String((whole["error"] as Json)["message"]).length).toBeGreaterThan(10);
        await waitUntil(
          () => countOpenHolds(gateway.server.db),
          (open) => open === 0,
        );
        expect(await readWallet(gateway.server.db, mine.id)).toEqual(before);
      },
    );

    test("are refused at once with what any call is refused with", async () => {
      const poor = await registerAccount(gateway);
      const refused = async (more: Json): Promise<readonly unknown[]> => {
        const answer = await call(gateway, poor, "POST /v1/responses", {
          body: { model: "sim/echo", input: "x", background: true, store: true, ...more },
        });
        expectEnvelope("responses", answer.json);
        return [answer.status, errorOf(answer.json)["code"]];
      };
      expect(await refused({ model: "sim/nothing" })).toEqual([404, "model_not_found"]);
      expect(await refused({ model: "openai/gpt-5", max_output_tokens: 100_000 })).toEqual([
        402,
        "insufficient_credits",
      ]);
      const rows = await gateway.server.db.all(
        "select id from stored_response where account_id = ?",
        [poor.id],
      );
      expect(rows).toEqual([]);
    });

    test("are begun once under one Idempotency-Key", async () => {
      const mine = await fundedAccount(gateway);
      const sent = {
        headers: { "idempotency-key": "begin-once" },
        body: { model: "sim/echo", input: "once", background: true, store: true },
      };
      const first = await call(gateway, mine, "POST /v1/responses", sent);
      await waitUntilEnded(gateway, mine, first.json["id"]);
      const second = await call(gateway, mine, "POST /v1/responses", sent);
      expect(second.json).toEqual(first.json);
      expect((await usageRecordsOf(gateway.server.db, mine.id)).length).toBe(1);
    });

    test("are bounded: sixteen of one account at once", async () => {
      const mine = await fundedAccount(gateway);
      const answers = await Promise.all(
        Array.from({ length: 20 }, () =>
          call(gateway, mine, "POST /v1/responses", {
            body: {
              model: "sim/echo",
              input: SLOW,
              max_output_tokens: 400,
              background: true,
              store: true,
            },
          }),
        ),
      );
      const statuses = answers.map(({ status }) => status).sort((one, other) => one - other);
      expect(statuses).toEqual([...Array.from({ length: 16 }, () => 200), 429, 429, 429, 429]);
      const refused = answers.find(({ status }) => status === 429);
      expect(Number(refused?.headers.get("retry-after"))).toBeGreaterThan(0);
      for (const { status, json } of answers)
        if (status === 200) await cancelResponse(gateway, mine, json["id"]);
      await waitUntil(
        () => countOpenHolds(gateway.server.db),
        (open) => open === 0,
      );
    });
  });
}

describe("a background response whose process died", () => {
  test("has failed after the restart, and holds nothing", async () => {
    const place = createTempFolder();
    const first = await startPostern(["serve"], place.settings);
    const account = await registerAccount(first);
    const accepted = await createResponse(first, account, {
      model: "sim/echo",
      input: SLOW,
      background: true,
      store: true,
    });
    const done = await createResponse(first, account, {
      model: "sim/echo",
      input: "kept",
      store: true,
    });
    process.kill(-Number(first.process.pid), "SIGKILL");
    await first.exited;
    const second = await startPostern(["serve"], place.settings);
    const { json } = await getResponse(second, account, accepted["id"]);
    expect(json).toMatchObject({ status: "failed", error: { code: "server_error" } });
    expect((await getResponse(second, account, done["id"])).json).toEqual(done);
    const wallet = await call(second, account, "GET /v1/account");
    expect(wallet.json["balance"]).toMatchObject({ held_credits: 0 });
    process.kill(-Number(second.process.pid), "SIGKILL");
    await second.exited;
    place.remove();
  });
});

describe("a process that is killed while it stores", () => {
  test("has every response that a client saw complete, after each of five kills", async () => {
    const place = createTempFolder();
    let running = await startPostern(["serve"], place.settings);
    const account = await registerAccount(running);
    const seen = new Map<unknown, Json>();
    for (let kill = 0; kill < 5; kill++) {
      const target = running;
      const stopping = new AbortController();
      const hammer = async (worker: number): Promise<void> => {
        for (let turn = 0; !stopping.signal.aborted; turn++) {
          const body = {
            model: "sim/tiny",
            input: `${kill} ${worker} ${turn}`,
            max_output_tokens: 16,
            stream: worker % 2 === 0,
            store: true,
          };
          const response = await createResponse(target, account, body).catch(() => undefined);
          if (response === undefined) return;
          if (response["status"] === "completed") seen.set(response["id"], response);
        }
      };
      const workers = Array.from({ length: 8 }, (_, worker) => hammer(worker));
      const before = seen.size;
      await waitUntil(
        () => seen.size,
        (size) => size > before + 20,
        20_000,
      );
      process.kill(-Number(target.process.pid), "SIGKILL");
      stopping.abort();
      await Promise.all([target.exited, ...workers]);
      running = await startPostern(["serve"], place.settings);
    }
    for (const [id, response] of seen) {
      const answer = await getResponse(running, account, id);
      expect([answer.status, answer.json]).toEqual([200, response]);
    }
    expect(seen.size).toBeGreaterThan(100);
    process.kill(-Number(running.process.pid), "SIGKILL");
    await running.exited;
    place.remove();
  });
});

describe("two processes on one PostgreSQL", () => {
  test("a response is read, gone on from and cancelled through either", async () => {
    const databaseUrl = await testPostgres();
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
      input: SLOW,
      background: true,
      store: true,
      previous_response_id: first["id"],
    });
    expect((await getResponse(two, account, slow["id"])).json["status"]).toBe("in_progress");
    await waitUntil(
      async () => (await simStats(one)).open_streams,
      (open) => open > 0,
    );
    const cancelled = await call(two, account, `POST /v1/responses/${String(slow["id"])}/cancel`);
    expect([cancelled.status, cancelled.json["status"]]).toEqual([200, "cancelled"]);
    await waitUntil(
      async () => (await simStats(one)).open_streams,
      (open) => open === 0,
    );
    await expectSettledLedger(one.server.db);
    for (const gateway of gateways) await gateway.stop();
  });
});
