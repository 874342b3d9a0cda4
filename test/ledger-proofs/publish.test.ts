// Random accounts and entries on both stores: each proof verifies, the total is that of the wallets, and a run that is killed
// at any write ends with the same record.

import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { type JsonObject, objectIn, parseObject, stringIn } from "../../src/base/json.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../src/base/time.ts";
import { publishDueDays } from "../../src/ledger-proofs/publish-day.ts";
import { verifyProof } from "../../src/ledger-proofs/verify-proof.ts";
import type { Db } from "../../src/store/db.ts";
import { createRandom, TEST_SEED } from "../support/random.ts";
import { rejectionMessage } from "../support/rejection.ts";
import { openStore, STORE_KINDS, type TestStore } from "../support/stores/stores.ts";
import {
  createWorld,
  dayName,
  dueAt,
  FIRST_DAY,
  ISSUER,
  master,
  publicKeyOf,
  type World,
} from "./fixtures.ts";

const DAYS = 3;
const ACCOUNTS = 24;

describe.each(STORE_KINDS)("the ledger's roots on %s", (kind) => {
  let store: TestStore;
  let world: World;
  beforeEach(async () => {
    store = await openStore(kind);
    world = await createWorld(store.db);
  });
  afterEach(() => store.close());

  test("prove every balance and entry of random days, and the sum of all balances", async () => {
    const random = createRandom(TEST_SEED);
    const balances = new Map<string, bigint>();
    const entries = new Map<string, number>();
    const add = (account: string, change: bigint, day: number): void => {
      balances.set(account, (balances.get(account) ?? 0n) + change);
      entries.set(`${account} ${day}`, (entries.get(`${account} ${day}`) ?? 0) + 1);
    };
    for (let day = 0; day < DAYS; day++) {
      const from = FIRST_DAY + day * DAY_MS;
      for (let index = 0; index < ACCOUNTS / DAYS; index++)
        balances.set(await world.createAccount(from + index), 0n);
      for (const account of balances.keys())
        for (let entry = random(4); entry > 0; entry--) {
          const time = from + HOUR_MS + random(DAY_MS - HOUR_MS);
          const balance = balances.get(account) ?? 0n;
          const cost = BigInt(random(1_000_000) + 1);
          if (cost < balance) {
            // Some calls are charged long after they began.
            const late = random(4) === 0 ? 30 * HOUR_MS : 0;
            await world.charge(account, cost, time, Math.max(0, time - late));
            add(account, -cost, day);
          } else {
            const amount = BigInt(random(1_000_000_000) + 1);
            await world.deposit(account, amount, time);
            add(account, amount, day);
          }
        }
      const expected = new Map(balances);
      // What is posted before the record is published, but on the next day, does not count.
      const [first] = balances.keys();
      await world.deposit(first ?? "", 1n, from + DAY_MS);
      add(first ?? "", 1n, day + 1);
      expect(await world.publish(dueAt(day))).toEqual([dayName(day)]);
      const total = [...expected.values()].reduce((sum, balance) => sum + balance, 0n);
      for (const [account, balanceNano] of expected) {
        const proof = await world.proofOf(account, dayName(day));
        const count = entries.get(`${account} ${day}`) ?? 0;
        expect(verifyProof(proof, publicKeyOf, { account, day: dayName(day) })).toMatchObject({
          iss: ISSUER,
          balanceNano,
          liabilitiesNano: total,
          entries: count,
          verifiedEntries: count,
        });
      }
    }
    const records = (await world.deps.log.read()).map(({ record }) => parseObject(record));
    expect(records.map((record) => record?.["difference_nano"])).toEqual([null, "0", "0"]);
  });

  test("are due 90 minutes after the end of the day, and each day once, also after an outage", async () => {
    const account = await world.createAccount(FIRST_DAY);
    const midnight = FIRST_DAY + DAY_MS;
    expect(await world.publish(midnight + 90 * MINUTE_MS - 1)).toEqual([]);
    expect(await world.publish(midnight + 90 * MINUTE_MS)).toEqual([dayName(0)]);
    expect(await world.publish(midnight + 5 * HOUR_MS)).toEqual([]);
    await world.deposit(account, 10n, FIRST_DAY + 2 * DAY_MS);
    expect(await world.publish(dueAt(3))).toEqual([dayName(1), dayName(2), dayName(3)]);
    const verified = verifyProof(await world.proofOf(account, dayName(1)), publicKeyOf);
    expect(verified).toMatchObject({ day: dayName(1), balanceNano: 0n });
  });

  test("are not published before there is an account", async () => {
    await world.createAccount(FIRST_DAY + DAY_MS);
    expect(await world.publish(dueAt(0))).toEqual([]);
    expect(await world.publish(dueAt(1))).toEqual([dayName(1)]);
  });

  test("are the same after a run that was killed at any of its writes", async () => {
    const accounts: string[] = [];
    for (let index = 0; index < 5; index++) accounts.push(await world.createAccount(FIRST_DAY));
    for (const account of accounts) await world.deposit(account, 1_000n, FIRST_DAY + 1);
    let writes = 0;
    // A write that throws after its commit: the run is killed before it hears of it.
    const killedAt = (kill: number, isCommitted: boolean): Db => ({
      ...store.db,
      write: async (work, durability) => {
        writes += 1;
        if (writes === kill && !isCommitted) throw new Error("killed");
        const result = await store.db.write(work, durability);
        if (writes === kill) throw new Error("killed");
        return result;
      },
    });
    const publish = (db: Db) => publishDueDays({ db, master, baseUrl: ISSUER }, dueAt(0));
    const roots = new Set<string>();
    for (let kill = 1; kill <= 3; kill++)
      for (const isCommitted of [false, true]) {
        writes = 0;
        expect(await rejectionMessage(publish(killedAt(kill, isCommitted)))).toContain("killed");
        await publish(store.db);
        roots.add(String((await store.db.get("select record from ledger_day"))?.["record"]));
        const verified = verifyProof(await world.proofOf(accounts[0] ?? ""), publicKeyOf);
        expect(verified.liabilitiesNano).toBe(5_000n);
        await store.db.write((tx) => tx.run("delete from ledger_day"));
        if (kill === 3) break;
      }
    expect(roots.size).toBe(1);
  });

  test("are published once by two processes at the same time", async () => {
    await world.createAccount(FIRST_DAY);
    await Promise.all([world.publish(dueAt(2)), world.publish(dueAt(2))]);
    const rows = await store.db.all("select number, day from ledger_day order by number");
    expect(rows.map((row) => [Number(row["number"]), row["day"]])).toEqual([[0, dayName(2)]]);
  });

  test("of a day stay provable for 31 days, and the log for good", async () => {
    const account = await world.createAccount(FIRST_DAY);
    await world.publish(dueAt(0));
    await world.publish(dueAt(30));
    expect(verifyProof(await world.proofOf(account, dayName(0)), publicKeyOf).day).toBe(dayName(0));
    await world.publish(dueAt(31));
    expect(await rejectionMessage(world.proofOf(account, dayName(0)))).toContain("no ledger proof");
    expect(await world.deps.log.read()).toHaveLength(32);
  });

  test("say by how much an entry that was posted too late changed a balance", async () => {
    const account = await world.createAccount(FIRST_DAY);
    await world.deposit(account, 1n, FIRST_DAY + 1);
    await world.publish(dueAt(0));
    await world.deposit(account, 500n, FIRST_DAY + HOUR_MS);
    await world.publish(dueAt(1));
    expect(await rejectionMessage(world.proofOf(account, dayName(0)))).toContain("not those of");
    expect(verifyProof(await world.proofOf(account), publicKeyOf).balanceNano).toBe(501n);
    const record = parseObject((await world.deps.log.read())[1]?.record ?? "");
    expect(record).toMatchObject({ difference_nano: "500", entries: { net_nano: "0" } });
  });

  test("have no account beside another one by its age", async () => {
    const accounts: string[] = [];
    for (let index = 0; index < 12; index++)
      accounts.push(await world.createAccount(FIRST_DAY + index));
    await world.publish(dueAt(1));
    const placesOn = async (day: string): Promise<readonly number[]> =>
      (await Promise.all(accounts.map((account) => world.proofOf(account, day)))).map(firstPlace);
    const first = await placesOn(dayName(1));
    expect(first).not.toEqual(first.toSorted((one, other) => one - other));
    await world.publish(dueAt(2));
    expect(await placesOn(dayName(2))).not.toEqual(first);
  });

  test("with many pages prove the first, the last and a middle account", async () => {
    const accounts: string[] = [];
    for (let index = 0; index < 1_100; index++) {
      const account = `acct_${String(index).padStart(6, "0")}`;
      accounts.push(account);
    }
    await store.db.write(async (tx) => {
      for (const [index, account] of accounts.entries())
        await tx.run("insert into wallet (account_id, promo, paid, held) values (?, 0, ?, 0)", [
          account,
          index,
        ]);
    });
    await world.publish(dueAt(0));
    for (const index of [0, 1, 550, 1_099]) {
      const proof = await world.proofOf(accounts[index] ?? "");
      expect(verifyProof(proof, publicKeyOf)).toMatchObject({
        balanceNano: BigInt(index),
        liabilitiesNano: (1_099n * 1_100n) / 2n,
      });
    }
  });
});

function firstPlace(proof: JsonObject): number {
  // Safe because each proof has two shares.
  const [share] = proof["balance"] as readonly unknown[];
  expect(stringIn(objectIn(share)?.["leaf"])).toContain('"share":0');
  return Number(objectIn(share)?.["index"]);
}
