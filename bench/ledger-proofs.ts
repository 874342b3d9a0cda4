// Publishes the roots of a day of many accounts with an entry each, on SQLite, and makes proofs of them.
//   node bin/bun.js bench/ledger-proofs.ts --accounts 100000

import { parseArgs } from "node:util";
import { newId } from "../src/base/id.ts";
import { HOUR_MS } from "../src/base/time.ts";
import { integer } from "../src/store/db.ts";
import { insertUsage } from "../src/usage/insert-usage.ts";
import { createWorld, dueAt, FIRST_DAY } from "../test/ledger-proofs/fixtures.ts";
import { usageRecord } from "../test/ledger/fixtures.ts";
import { openStore } from "../test/support/stores/stores.ts";

const { values } = parseArgs({ options: { accounts: { type: "string", default: "100000" } } });
const ROWS_PER_TRANSACTION = 500;
const PROOFS = 20;

const store = await openStore("sqlite");
const { db } = store;
const world = await createWorld(db);
const accounts = Array.from({ length: Number(values.accounts) }, (_, index) =>
  newId("acct", FIRST_DAY + index),
);
for (let from = 0; from < accounts.length; from += ROWS_PER_TRANSACTION) {
  const part = accounts.slice(from, from + ROWS_PER_TRANSACTION);
  const at = FIRST_DAY + HOUR_MS + from;
  const charge = { at, promo: 7n, paid: 0n, overrun: 0n };
  await db.write(async (tx) => {
    await tx.insertMany(
      "wallet",
      ["account_id:text", "promo:bigint", "paid:bigint", "held:bigint"],
      part.map((account, index) => [account, 100_000_000, index * 1_000, 0]),
    );
    const records = part.map((accountId) =>
      usageRecord({ id: newId("req", at), accountId, keyId: "key", cost: 7n, createdAt: at }),
    );
    await insertUsage(tx, records, { calls: records.map(() => charge), hours: [] });
  });
}

let longestMs = 0;
let isRunning = true;
const watch = (before: number): void => {
  const now = performance.now();
  longestMs = Math.max(longestMs, now - before);
  if (isRunning) setImmediate(watch, now);
};
setImmediate(watch, performance.now());
const cpu = process.cpuUsage();
const startedAt = performance.now();
await world.publish(dueAt(0));
const ms = performance.now() - startedAt;
isRunning = false;
const { user, system } = process.cpuUsage(cpu);
const stored = await db.get("select sum(length(content)) as bytes from ledger_proof_page");

const proofsAt = performance.now();
let bytes = 0;
for (const account of accounts.slice(0, PROOFS))
  bytes = Math.max(bytes, JSON.stringify(await world.proofOf(account)).length);
console.log({
  accounts: accounts.length,
  publishMs: Math.round(ms),
  publishCpuMs: Math.round((user + system) / 1_000),
  longestSliceMs: Math.round(longestMs),
  storedBytes: stored && integer(stored, "bytes"),
  proofMs: Math.round((performance.now() - proofsAt) / PROOFS),
  proofBytes: bytes,
});
await store.close();
