// Gateways as separate processes: several on one database, and one that is killed under load.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { createSimulator } from "@postern/simulator";
import { grant } from "../../../src/ledger/ledger.ts";
import { type Db, text, integer } from "../../../src/store/db.ts";
import { verifyLedger } from "../../../src/verification/verify.ts";
import { eventually } from "../../support/eventually.ts";
import { freePort } from "../../support/free-port.ts";
import { IS_FULL } from "../../support/full.ts";
import { registerAccount } from "../../support/gateway.ts";
import { TEST_SEED, createRandom } from "../../support/random.ts";
import {
  migratedStoreLocation,
  newStoreLocation,
  openStoreAt,
  type StoreLocation,
  STORE_KINDS,
} from "../../support/stores/stores.ts";
import { startGatedSimulator } from "../support/gated-simulator.ts";
import {
  type GatewayProcess,
  startGatewayProcessOnFreePort,
  startGatewayProcess,
} from "../support/gateway-process.ts";
import {
  bodyOf,
  expectSettledLedger,
  isCompleteStream,
  countOpenHolds,
  postCall,
  usageRecordsOf,
  STREAMED_APIS,
  waitUntil,
  USD,
  readWallet,
  withHeaders,
} from "../support/harness.ts";

const SECRET = "a secret of these tests, and of nothing else";
const KILLS = IS_FULL ? 40 : 1;
const CALLERS = 12;
const KILL_AFTER_MS_MAX = 300;
const WHOLE_HOLD = { "x-postern-hold": "full" };

function settingsFor(location: StoreLocation, simulatorUrl: string): Record<string, string> {
  return {
    POSTERN_SECRET: SECRET,
    SIM_BASE_URL: simulatorUrl,
    SIM_API_KEY: "upstream-test-key",
    ...(location.kind === "postgres"
      ? { DATABASE_URL: location.address }
      : { POSTERN_DATA_DIR: location.address }),
  };
}

async function give(db: Db, accountId: string, amount: bigint): Promise<void> {
  await db.write((tx) =>
    grant(tx, { id: `test.${accountId}`, accountId, amount, now: Date.now(), reason: "test" }),
  );
}

describe("three gateways on one PostgreSQL", () => {
  const gate = startGatedSimulator();
  let all: readonly GatewayProcess[];
  let first: GatewayProcess;
  let db: Db;
  beforeAll(async () => {
    const location = await newStoreLocation("postgres");
    const settings = settingsFor(location, gate.url);
    const started = await Promise.all(
      [1, 2, 3].map((number) =>
        startGatewayProcessOnFreePort({ ...settings, POSTERN_PROCESS_NAME: `three-${number}` }),
      ),
    );
    if (started[0] === undefined) throw new Error("no process");
    [first] = [started[0]];
    all = started;
    db = openStoreAt(location);
  });
  afterAll(async () => {
    await Promise.all(all.map((one) => one.stop()));
    await db.close();
    await gate.stop();
  });

  for (const stream of [false, true]) {
    test(`serve exactly 10 of 64 concurrent calls on a balance that affords 10${stream ? ", streamed" : ""}`, async () => {
      gate.close();
      const account = withHeaders(await registerAccount(first), WHOLE_HOLD);
      const body = bodyOf("chat", "[[sim: tokens=20]] once", { stream, max_tokens: 4_000 });
      // A stream of another account shows the hold: leaving it costs its input.
      const leaving = new AbortController();
      const prober = {
        ...withHeaders(await registerAccount(first), WHOLE_HOLD),
        signal: leaving.signal,
      };
      const probe = postCall(first, prober, "chat", { ...body, stream: true }).catch(() => {});
      const { held } = await waitUntil(
        () => readWallet(db, prober.id),
        (wallet) => wallet.held > 0n,
      );
      leaving.abort();
      await probe;
      await expectSettledLedger(db);
      const balance = held * 10n + held / 2n;
      await give(db, account.id, balance - 50_000_000n);
      let refused = 0;
      const pending = Promise.all(
        Array.from({ length: 64 }, async (_, index) => {
          const response = await postCall(all[index % 3] ?? first, account, "chat", body);
          // The credits are held by the ten.
          if (response.status === 429) refused += 1;
          return { status: response.status, text: await response.text() };
        }),
      );
      await waitUntil(
        () => refused,
        (count) => count >= 54,
        60_000,
      );
      gate.open();
      const responses = await pending;
      const served = responses.filter((response) => response.status === 200);
      expect([served.length, refused]).toEqual([10, 54]);
      if (stream)
        for (const response of served) expect(isCompleteStream("chat", response.text)).toBe(true);
      await expectSettledLedger(db);
      const records = await usageRecordsOf(db, account.id);
      const charged = records.reduce(
        (sum, record) => sum + BigInt(integer(record, "cost_nano")),
        0n,
      );
      const wallet = await readWallet(db, account.id);
      expect(wallet).toEqual({ promo: balance - charged, paid: 0n, held: 0n });
    });
  }
});

for (const kind of STORE_KINDS)
  test(`a call that ended with its process can be repeated with its key after a restart, on ${kind}`, async () => {
    const gate = startGatedSimulator();
    const location = await migratedStoreLocation(kind);
    const settings = { ...settingsFor(location, gate.url), POSTERN_PROCESS_NAME: "killed" };
    const port = await freePort();
    const killed = await startGatewayProcess(port, settings);
    const account = withHeaders(await registerAccount(killed), { "idempotency-key": "killed" });
    const body = bodyOf("chat", "hello");
    const lost = postCall(killed, account, "chat", body).catch(() => "lost");
    // On SQLite, the hold of so young a call is in memory only.
    await eventually(() => gate.waiting() === 1);
    await killed.kill();
    expect(await lost).toBe("lost");
    gate.open();
    const restarted = await startGatewayProcess(port, settings);
    expect((await postCall(restarted, account, "chat", body)).status).toBe(200);
    await restarted.stop();
    await gate.stop();
    if (location.kind === "sqlite") rmSync(location.address, { recursive: true, force: true });
  });

interface CompletedCall {
  readonly id: string;
  readonly costUsd: string;
  readonly keyed:
    | { readonly key: string; readonly body: Record<string, unknown>; readonly reply: string }
    | undefined;
}

for (const kind of STORE_KINDS) {
  test(`after ${KILLS} kills under load on ${kind}, every reply that a client saw complete is recorded and charged once, and nothing is held`, async () => {
    const began = performance.now();
    const simulator = createSimulator({ now: Date.now, acceptsAnyModel: true });
    const upstream = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      idleTimeout: 0,
      fetch: simulator.fetch,
    });
    const location = await migratedStoreLocation(kind);
    const settings = {
      ...settingsFor(location, `http://127.0.0.1:${upstream.port}`),
      POSTERN_PROCESS_NAME: "the-only-one",
    };
    const port = await freePort();
    let gateway: GatewayProcess = await startGatewayProcess(port, settings);
    const account = await registerAccount(gateway);
    await gateway.stop();
    const db = openStoreAt(location);
    await give(db, account.id, 100n * USD);

    const random = createRandom(TEST_SEED);
    const completed: CompletedCall[] = [];
    let started = 0;
    for (let kill = 0; kill < KILLS; kill++) {
      gateway = await startGatewayProcess(port, settings);
      expect(await countOpenHolds(db)).toBe(0);
      const killing = new AbortController();
      const caller = async (): Promise<void> => {
        while (!killing.signal.aborted) {
          const call = await makeRandomCall(gateway, account, (started += 1));
          if (call !== undefined) completed.push(call);
        }
      };
      const callers = Array.from({ length: CALLERS }, caller);
      // On a busy machine, the first replies take longer than the time to the kill.
      const completedBefore = completed.length;
      await eventually(() => completed.length > completedBefore + 1);
      // The kill comes at a random moment.
      await Bun.sleep(random(KILL_AFTER_MS_MAX));
      killing.abort();
      await gateway.kill();
      await Promise.all(callers);
      // Else each start on PostgreSQL watches the dead process for twelve seconds.
      await db.write((tx) => tx.run("update process set stopped_at = seen_at"));
    }
    gateway = await startGatewayProcess(port, settings);
    expect(await countOpenHolds(db)).toBe(0);
    await expectSettledLedger(db);
    const records = new Map(
      (await usageRecordsOf(db, account.id)).map((record) => [text(record, "id"), record]),
    );
    for (const { id, costUsd } of completed) {
      const record = records.get(id);
      expect([id, record?.["outcome"]]).toEqual([id, "completed"]);
      expect([id, Number(record?.["cost_nano"])]).toEqual([id, Math.round(Number(costUsd) * 1e9)]);
    }
    expect(new Set(completed.map((one) => one.id)).size).toBe(completed.length);
    const charged = [...records.values()].reduce(
      (sum, record) => sum + BigInt(integer(record, "cost_nano")),
      0n,
    );
    expect(await readWallet(db, account.id)).toEqual({
      promo: 100n * USD + 50_000_000n - charged,
      paid: 0n,
      held: 0n,
    });

    // A new process replays the responses of idempotent calls.
    const keyed = completed.flatMap((one) => one.keyed ?? []).slice(-40);
    for (const { key, body, reply } of keyed) {
      const asker = withHeaders(account, { "idempotency-key": key });
      const again = await postCall(gateway, asker, "chat", body);
      expect([key, again.headers.get("idempotent-replayed")]).toEqual([key, "true"]);
      expect(await again.text()).toBe(reply);
    }
    expect((await usageRecordsOf(db, account.id)).length).toBe(records.size);
    const { problems } = await verifyLedger(db);
    expect(problems).toEqual([]);
    console.log(
      `» ${kind}: ${KILLS} kills, ${started} calls started, ${completed.length} complete, ${records.size} recorded, ${keyed.length} started again, ${((performance.now() - began) / 1_000).toFixed(1)} s`,
    );
    expect(completed.length).toBeGreaterThan(KILLS);
    await gateway.stop();
    await db.close();
    await upstream.stop(true);
    if (location.kind === "sqlite") rmSync(location.address, { recursive: true, force: true });
  });
}

/** A call of a random kind; undefined if its client did not see it complete. */
async function makeRandomCall(
  gateway: GatewayProcess,
  account: Awaited<ReturnType<typeof registerAccount>>,
  count: number,
): Promise<CompletedCall | undefined> {
  const api = STREAMED_APIS[count % 3] ?? "chat";
  const stream = count % 2 === 0;
  const options = stream && api === "chat" ? { stream_options: { include_usage: true } } : {};
  const body = bodyOf(api, `[[sim: tokens=12 chunks=4 pace=2]] number ${count}`, {
    stream,
    ...options,
  });
  const key = api === "chat" && count % 4 < 2 ? `key-${count}` : undefined;
  try {
    const asker = key === undefined ? account : withHeaders(account, { "idempotency-key": key });
    const response = await postCall(gateway, asker, api, body);
    const reply = await response.text();
    const id = response.headers.get("x-request-id");
    if (response.status !== 200 || id === null) return undefined;
    if (stream ? !isCompleteStream(api, reply) : !isJson(reply)) return undefined;
    const costUsd = /"cost":([0-9.e-]+)/.exec(reply)?.[1] ?? "";
    return { id, costUsd, keyed: key === undefined ? undefined : { key, body, reply } };
  } catch {
    return undefined;
  }
}

function isJson(reply: string): boolean {
  try {
    JSON.parse(reply);
    return true;
  } catch {
    return false;
  }
}
