// A process is killed between a provider's reply and the settlement of its call. Another process settles it once.

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Db } from "../../../src/store/db.ts";
import {
  createTempFolder,
  startPostern,
  stopAll,
  stopPostern,
} from "../../commands/run-postern.ts";
import { eventually } from "../../support/eventually.ts";
import { startFacilitator, type TestFacilitator } from "../../support/fakes/x402-facilitator.ts";
import { migratedPostgres } from "../../support/stores/postgres.ts";
import { openStoreAt } from "../../support/stores/stores.ts";
import { expectLedgerValid, ledgerBalanceOf } from "../fixtures.ts";
import { approvedWallet, uptoEnv, uptoFetch } from "./upto.ts";

const folder = createTempFolder();
let facilitator: TestFacilitator;
let db: Db;
let env: Readonly<Record<string, string>>;
beforeAll(async () => {
  facilitator = startFacilitator();
  const databaseUrl = await migratedPostgres();
  env = {
    ...folder.settings,
    ...uptoEnv(facilitator),
    DATABASE_URL: databaseUrl,
    POSTERN_SECRET: "one secret for all of the processes",
  };
  db = openStoreAt({ kind: "postgres", address: databaseUrl });
});
afterAll(async () => {
  stopAll();
  await db.close();
  await facilitator.stop();
  folder.remove();
});

test("a call whose process is killed before its settlement is settled once", async () => {
  const one = await startPostern(["serve"], { ...env, POSTERN_PROCESS_NAME: "one" });
  const wallet = approvedWallet(facilitator, 100n);
  facilitator.onStep = (step) => (step === "settle" ? new Promise<void>(() => {}) : undefined);
  const body = {
    model: "sim/echo",
    max_tokens: 50,
    messages: [{ role: "user", content: "Hello" }],
  };
  const call = uptoFetch(wallet)(`${one.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  }).catch(() => undefined);
  await eventually(() => facilitator.calls.includes("settle"));
  process.kill(-(one.process.pid ?? 0), "SIGKILL");
  await one.exited;
  await call;
  const states = async () =>
    (await db.all("select state from metered_payment")).map(({ state }) => state);
  expect(await states()).toEqual(["due"]);
  expect(facilitator.chain.unitsOf(wallet.address)).toBe(1_000_000n);

  facilitator.onStep = () => {};
  // The lease of the dead process expires.
  await db.write((tx) => tx.run("update metered_payment set due_at = 1"));
  const two = await startPostern(["serve"], { ...env, POSTERN_PROCESS_NAME: "two" });
  await eventually(async () => (await states())[0] === "paid");
  const paid = 1_000_000n - facilitator.chain.unitsOf(wallet.address);
  expect(paid).toBeGreaterThan(0n);
  expect(-(await ledgerBalanceOf(db, "system:clearing:x402"))).toBe(paid * 1_000n);
  await expectLedgerValid(db);
  await stopPostern(two);
});
