// A process is killed while it charges a saved method. Another process finds the charge, and there is no second one.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { listTopUps } from "../../../src/billing/top-up/top-up-rows.ts";
import type { Db } from "../../../src/store/db.ts";
import {
  createTempFolder,
  type RunningProcess,
  startPostern,
  stopPostern,
  stopAll,
} from "../../commands/run-postern.ts";
import { eventually } from "../../support/eventually.ts";
import { type FakeStripe, startFakeStripe } from "../../support/fakes/stripe.ts";
import { type TestAccount, registerAccount } from "../../support/gateway.ts";
import { migratedPostgres } from "../../support/stores/postgres.ts";
import { openStoreAt } from "../../support/stores/stores.ts";
import {
  api,
  NANO_PER_CENT,
  expectLedgerValid,
  ledgerBalanceOf,
  NANO_PER_USD,
  readWallet,
} from "../fixtures.ts";
import { enableTopUp, createBillingHarness, saveMethod, type BillingHarness } from "../harness.ts";

const CHARGE = "POST /v1/payment_intents";

const folder = createTempFolder();
let stripe: FakeStripe;
let db: Db;
let harness: BillingHarness;
let env: Readonly<Record<string, string>>;
beforeAll(async () => {
  stripe = startFakeStripe();
  const databaseUrl = await migratedPostgres();
  env = {
    ...folder.settings,
    ...stripe.env,
    DATABASE_URL: databaseUrl,
    POSTERN_SECRET: "one secret for all of the processes",
  };
  // The first process migrates the store.
  await stopPostern(await start("first"));
  db = openStoreAt({ kind: "postgres", address: databaseUrl });
  harness = await createBillingHarness(db, stripe.env);
});
afterAll(async () => {
  stopAll();
  await db.close();
  await stripe.stop();
  folder.remove();
});

const start = (name: string): Promise<RunningProcess> =>
  startPostern(["serve"], { ...env, POSTERN_PROCESS_NAME: name });

async function latestTopUpOf({ id }: TestAccount) {
  const [topUp] = await listTopUps(db, id, 1);
  return topUp;
}

test("a process killed during the charge leaves one top-up, one charge and one credit", async () => {
  const one = await start("one");
  const account = await registerAccount(one);
  await saveMethod(harness, stripe, account.id);
  stripe.fault = "slow";
  harness.clock.now = Date.now();
  await enableTopUp(harness, account.id);
  await eventually(() => stripe.calls.includes(CHARGE));
  process.kill(-(one.process.pid ?? 0), "SIGKILL");
  await one.exited;
  stripe.fault = "ok";
  await eventually(() => stripe.intents.size === 1);
  expect(await latestTopUpOf(account)).toMatchObject({ state: "charging", isOpen: true });
  expect((await readWallet(db, account.id)).paid).toBe(0n);

  // The lease of the dead process expires, and two other processes start at once.
  await db.write((tx) => tx.run("update top_up set due_at = 1 where due_at is not null"));
  const others = await Promise.all([start("two"), start("three")]);
  await eventually(async () => (await latestTopUpOf(account))?.state === "paid");
  expect(stripe.intents.size).toBe(1);
  expect(stripe.calls.filter((call) => call === CHARGE)).toHaveLength(1);
  expect((await readWallet(db, account.id)).paid).toBe(10n * NANO_PER_USD);
  expect(await ledgerBalanceOf(db, "system:clearing:stripe")).toBe(-1_050n * NANO_PER_CENT);
  const [two] = others;
  if (two === undefined) throw new Error("no process");
  const { body } = await api(two, account, ["GET", "/v1/billing/auto-top-up"]);
  expect(body).toMatchObject({ status: "on", bought_this_month_usd: 10, failures_in_a_row: 0 });
  await expectLedgerValid(db);
  await Promise.all(others.map(stopPostern));
});
