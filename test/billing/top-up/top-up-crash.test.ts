// A real process is killed while it charges a saved method: another one finds what became of it, and nobody is charged
// twice.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { listTopUps } from "../../../src/billing/top-up/top-up-rows.ts";
import type { Db } from "../../../src/store/db.ts";
import { openPostgres } from "../../../src/store/postgres.ts";
import {
  createTempFolder,
  type RunningProcess,
  startPostern,
  stopPostern,
  stopAll,
} from "../../commands/run-postern.ts";
import { type TestAccount, registerAccount } from "../../support/gateway.ts";
import { testPostgres } from "../../support/stores/postgres.ts";
import { type FakeStripe, startFakeStripe } from "../../support/fakes/stripe.ts";
import {
  api,
  NANO_PER_CENT,
  expectLedgerValid,
  ledgerBalanceOf,
  NANO_PER_USD,
  readWallet,
} from "../fixtures.ts";
import { enableTopUp, createBillingHarness, saveMethod, type BillingHarness } from "../harness.ts";

// The first test starts PostgreSQL.
setDefaultTimeout(90_000);

const WAIT_MS = 30_000;
const CHARGE = "POST /v1/payment_intents";

const place = createTempFolder();
let stripe: FakeStripe;
let db: Db;
let harness: BillingHarness;
let env: Readonly<Record<string, string>>;
beforeAll(async () => {
  stripe = startFakeStripe();
  const databaseUrl = await testPostgres();
  env = {
    ...place.settings,
    ...stripe.env,
    DATABASE_URL: databaseUrl,
    POSTERN_SECRET: "one secret for all of the processes",
  };
  // The first process brings the store to its schema.
  await stopPostern(await start("first"));
  db = openPostgres(databaseUrl);
  harness = await createBillingHarness(db, stripe.env);
});
afterAll(async () => {
  stopAll();
  await db.close();
  await stripe.stop();
  place.remove();
});

const start = (name: string): Promise<RunningProcess> =>
  startPostern(["serve"], { ...env, POSTERN_PROCESS_NAME: name });

async function waitUntil(what: string, isSo: () => Promise<boolean> | boolean): Promise<void> {
  for (const end = Date.now() + WAIT_MS; Date.now() < end; await Bun.sleep(20))
    if (await isSo()) return;
  throw new Error(`it was waited in vain until ${what}`);
}

async function latestTopUpOf({ id }: TestAccount) {
  const [topUp] = await listTopUps(db, id, 1);
  return topUp;
}

test("killed while the charge is on its way: one attempt, one charge, one credit", async () => {
  const one = await start("one");
  const account = await registerAccount(one);
  await saveMethod(harness, stripe, account.id);
  stripe.fault = "slow";
  harness.clock.now = Date.now();
  await enableTopUp(harness, account.id);
  await waitUntil("it is charged", () => stripe.calls.includes(CHARGE));
  process.kill(-(one.process.pid ?? 0), "SIGKILL");
  await one.exited;
  stripe.fault = "fine";
  await waitUntil("Stripe has made the charge", () => stripe.intents.size === 1);
  expect(await latestTopUpOf(account)).toMatchObject({ state: "charging", isOpen: true });
  expect((await readWallet(db, account.id)).paid).toBe(0n);

  // The lease of the dead process ends, and two others are there at once.
  await db.write((tx) => tx.run("update top_up set due_at = 1 where due_at is not null"));
  const others = await Promise.all([start("two"), start("three")]);
  await waitUntil("it is paid", async () => (await latestTopUpOf(account))?.state === "paid");
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
