// A real process is killed while it charges a saved method: another one finds what became of it, and nobody is charged
// twice.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { listTopUps } from "../../src/billing/top-up-rows.ts";
import type { Db } from "../../src/store/db.ts";
import { openPostgres } from "../../src/store/postgres.ts";
import { makePlace, type Running, startPostern, stop, stopAll } from "../commands/postern.ts";
import { type Account, register } from "../support/gateway.ts";
import { testPostgres } from "../support/postgres.ts";
import { type FakeStripe, startStripe } from "../support/stripe-server.ts";
import { api, CENT, expectSound, sumOf, USD, walletOf } from "./desk.ts";
import { allow, openShop, saveMethod, type Shop } from "./world.ts";

// The first of these tests starts a PostgreSQL, on a machine that may be busy.
setDefaultTimeout(90_000);

const WAIT_MS = 30_000;
const CHARGE = "POST /v1/payment_intents";

const place = makePlace();
let stripe: FakeStripe;
let db: Db;
let shop: Shop;
let env: Readonly<Record<string, string>>;
beforeAll(async () => {
  stripe = startStripe();
  const databaseUrl = await testPostgres();
  env = {
    ...place.settings,
    ...stripe.env,
    DATABASE_URL: databaseUrl,
    POSTERN_SECRET: "one secret for all of the processes",
  };
  // The first process brings the store to its schema.
  await stop(await start("first"));
  db = openPostgres(databaseUrl);
  shop = await openShop(db, stripe.env);
});
afterAll(async () => {
  stopAll();
  await db.close();
  await stripe.stop();
  place.remove();
});

const start = (name: string): Promise<Running> =>
  startPostern(["serve"], { ...env, POSTERN_PROCESS_NAME: name });

async function until(what: string, isSo: () => Promise<boolean> | boolean): Promise<void> {
  for (const end = Date.now() + WAIT_MS; Date.now() < end; await Bun.sleep(20))
    if (await isSo()) return;
  throw new Error(`it was waited in vain until ${what}`);
}

async function lastOf({ id }: Account) {
  const [topUp] = await listTopUps(db, id, 1);
  return topUp;
}

test("killed while the charge is on its way: one attempt, one charge, one credit", async () => {
  const one = await start("one");
  const account = await register(one);
  await saveMethod(shop, stripe, account.id);
  stripe.weather = "slow";
  shop.clock.now = Date.now();
  await allow(shop, account.id);
  await until("it is charged", () => stripe.calls.includes(CHARGE));
  process.kill(-(one.process.pid ?? 0), "SIGKILL");
  await one.ended;
  stripe.weather = "fine";
  await until("Stripe has made the charge", () => stripe.intents.size === 1);
  expect(await lastOf(account)).toMatchObject({ state: "charging", isOpen: true });
  expect((await walletOf(db, account.id)).paid).toBe(0n);

  // The lease of the dead process ends, and two others are there at once.
  await db.write((tx) => tx.run("update top_up set due_at = 1 where due_at is not null"));
  const others = await Promise.all([start("two"), start("three")]);
  await until("it is paid", async () => (await lastOf(account))?.state === "paid");
  expect(stripe.intents.size).toBe(1);
  expect(stripe.calls.filter((call) => call === CHARGE)).toHaveLength(1);
  expect((await walletOf(db, account.id)).paid).toBe(10n * USD);
  expect(await sumOf(db, "system:clearing:stripe")).toBe(-1_050n * CENT);
  const [two] = others;
  if (two === undefined) throw new Error("no process");
  const { body } = await api(two, account, ["GET", "/v1/billing/auto-top-up"]);
  expect(body).toMatchObject({ status: "on", bought_this_month_usd: 10, failures_in_a_row: 0 });
  await expectSound(db);
  await Promise.all(others.map(stop));
});
