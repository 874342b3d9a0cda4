// A ledger in its own process: `ledger-process <kind> <address> <name>`. Commands on standard input, one per line:
//   hold <account> <key> <amount> <count>   makes `count` holds concurrently and prints their outcomes
//   hammer <account> <keys> <run>           makes calls until a budget rejects one; prints each settled call
//   exhaust <account> <keys> <run>          makes calls until a budget rejects one; prints when done

import { writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { bufferHolds } from "../../src/ledger/commit/hold-buffer.ts";
import { createLedger, startEpoch } from "../../src/ledger/ledger.ts";
import { sweepHolds } from "../../src/ledger/sweep.ts";
import type { Db } from "../../src/store/db.ts";
import { openPostgres } from "../../src/store/postgres.ts";
import { openSqlite } from "../../src/store/sqlite.ts";
import { insertUsage } from "../../src/usage/insert-usage.ts";
import type { UsageRecord } from "../../src/usage/usage.ts";
import { usageRecord } from "./fixtures.ts";

const CALLERS = 24;
const DEADLINE_MS = 60_000;

const [kind = "", address = "", name = ""] = process.argv.slice(2);
const bufferedDb =
  kind === "postgres" ? undefined : bufferHolds(openSqlite({ folder: address, lock: true }));
const db: Db = bufferedDb ?? openPostgres(address);
const epoch = await startEpoch(db, name, Date.now());
const swept = await sweepHolds(db, Date.now());
const ledger = createLedger<UsageRecord>({
  db,
  holdBuffer: bufferedDb,
  process: name,
  epoch,
  writeRecords: insertUsage,
});
printLine(`ready ${epoch} ${swept}`);

for await (const line of createInterface({ input: process.stdin })) {
  const [verb = "", ...words] = line.split(" ");
  if (verb === "hold") await hold(words);
  if (verb === "exhaust") {
    await Promise.all(Array.from({ length: CALLERS }, (_, caller) => exhaust(words, caller)));
    printLine("exhausted");
  }
  if (verb === "hammer")
    for (let caller = 0; caller < CALLERS; caller++) void hammer(words, caller);
}
process.exit(0);

async function hold([
  accountId = "",
  keyId = "",
  amount = "0",
  count = "0",
]: readonly string[]): Promise<void> {
  const now = Date.now();
  const holds = Array.from({ length: Number(count) }, () =>
    ledger.hold({
      id: crypto.randomUUID(),
      accountId,
      keyId,
      amount: BigInt(amount),
      now,
      expiresAt: now + DEADLINE_MS,
    }),
  );
  const outcomes = await Promise.all(holds);
  printLine(`held ${outcomes.map((one) => one.status).join(" ")}`);
}

async function exhaust(
  [accountId = "", keys = "", run = ""]: readonly string[],
  caller: number,
): Promise<void> {
  const keyIds = keys.split(",");
  for (let count = 0; ; count++) {
    const now = Date.now();
    const call = {
      id: `e${run}.${caller}.${count}`,
      accountId,
      keyId: keyIds[count % keyIds.length] ?? "",
      now,
    };
    const held = await ledger.hold({ ...call, amount: 70n, expiresAt: now + DEADLINE_MS });
    if (held.status === "budget") return;
    if (held.status !== "held") throw new Error(`hold ${call.id}: ${held.status}`);
    const cost = BigInt((count * 7 + caller) % 90);
    const record = usageRecord({ ...call, cost, createdAt: now });
    await ledger.settle({ ...call, cost, record });
  }
}

// Each line is written before the next call starts, so the parent has seen every settlement that a client could have
// seen.
async function hammer(
  [accountId = "", keys = "", run = ""]: readonly string[],
  caller: number,
): Promise<void> {
  const keyIds = keys.split(",");
  for (let count = 0; ; count++) {
    const id = `r${run}.${caller}.${count}`;
    const keyId = keyIds[count % keyIds.length] ?? "";
    const now = Date.now();
    const held = await ledger.hold({
      id,
      accountId,
      keyId,
      amount: 50n,
      now,
      expiresAt: now + DEADLINE_MS,
    });
    if (held.status === "budget") return;
    if (held.status !== "held") throw new Error(`hold ${id}: ${held.status}`);
    if (count % 3 === 1) await Bun.sleep(1);
    const cost = BigInt((count * 7 + caller) % 70);
    const record = usageRecord({ id, accountId, keyId, cost, createdAt: now });
    const settled = await ledger.settle({ id, accountId, keyId, cost, now, record });
    if (settled.status !== "settled") throw new Error(`settle ${id}: ${settled.status}`);
    printLine(`settled ${id} ${cost} ${settled.charged} ${settled.overrun}`);
  }
}

function printLine(line: string): void {
  writeSync(1, `${line}\n`);
}
