// Measures how a gateway behaves as its usage grows: fills a store with usage records and prints the milliseconds of a
// start, calls, lists, summaries, every console page, the report, verify-ledger and a backup at each size. On a busy machine the
// fastest of several times says most, and for what runs in this process its CPU. With --pages only the pages.
// Run it with `npm run bench:growth -- [records…] [--store sqlite|postgres] [--pages]`; the default is 10000 100000 1000000.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { DAY_MS } from "../src/base/time.ts";
import type { Db } from "../src/store/db.ts";
import { openPostgres } from "../src/store/postgres.ts";
import { openSqlite } from "../src/store/sqlite.ts";
import { readReport } from "../src/verification/report.ts";
import { readTransferSums } from "../src/verification/transfer-sums.ts";
import { verifyFromCheckpoint, verifyLedger } from "../src/verification/verify.ts";
import { testPostgres } from "../test/support/stores/postgres.ts";
import { createPageOwner, type PageOwner, timePages } from "./growth-pages.ts";
import { createFilledAccount, fillStore, type FilledAccount } from "./growth-records.ts";
import { startServer } from "./server-process.ts";

const REPEATS = 9;
const DAYS = 30;
const SECRET = "a secret of the growth benchmark, 32 bytes";
/** Small accounts beside the large one, per record. */
const RECORDS_PER_SMALL_ACCOUNT = 50;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { store: { type: "string" }, pages: { type: "boolean" } },
});
const sizes = positionals.length === 0 ? [10_000, 100_000, 1_000_000] : positionals.map(Number);
const rows = new Map<string, string[]>();
for (const kind of ["sqlite", "postgres"] as const)
  if (values.store === undefined || values.store === kind) await measureStore(kind);
console.log(`| Milliseconds | ${sizes.map((size) => size.toLocaleString("en")).join(" | ")} |`);
console.log(`| --- |${sizes.map(() => " ---: |").join("")}`);
for (const [name, cells] of rows) console.log(`| ${name} | ${cells.join(" | ")} |`);
process.exit(0);

async function measureStore(kind: "sqlite" | "postgres"): Promise<void> {
  const folder = mkdtempSync(path.join(tmpdir(), "postern-growth-"));
  const url = kind === "postgres" ? await testPostgres() : undefined;
  const env = {
    POSTERN_DATA_DIR: folder,
    POSTERN_SECRET: SECRET,
    ...(url === undefined ? {} : { DATABASE_URL: url }),
  };
  const account = await createAccount(env);
  for (const records of sizes) {
    const db = url === undefined ? openSqlite({ folder, lock: false }) : openPostgres(url);
    const now = Date.now();
    await fillStore(db, account, {
      records,
      smallAccounts: Math.ceil(records / RECORDS_PER_SMALL_ACCOUNT),
      days: DAYS,
      now,
    });
    if (kind === "postgres") await db.write((tx) => tx.run("analyze"));
    const owner = await createPageOwner(db, { ...account, secret: SECRET, folder });
    if (values.pages !== true) await measureFunctions(kind, db, folder);
    await db.close();
    await measurePages(kind, env, owner, account.apiKey);
    if (values.pages !== true) await measureServer(kind, env, account);
  }
  rmSync(folder, { recursive: true, force: true });
}

async function createAccount(env: Readonly<Record<string, string>>): Promise<FilledAccount> {
  const server = await startServer(["serve"], env);
  const account = await createFilledAccount(server.url);
  await server.stop();
  return account;
}

async function measureServer(
  kind: string,
  env: Readonly<Record<string, string>>,
  { apiKey }: FilledAccount,
): Promise<void> {
  const startedAt = performance.now();
  const server = await startServer(["serve"], env);
  addCell(`${kind}: start`, performance.now() - startedAt);
  const authorization = `Bearer ${apiKey}`;
  const get = (query: string) => async (): Promise<void> => {
    await readBody(await fetch(`${server.url}${query}`, { headers: { authorization } }));
  };
  const from = new Date(Date.now() - 7 * DAY_MS).toISOString();
  await measure(`${kind}: call`, async () => {
    const response = await fetch(`${server.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization, "content-type": "application/json" },
      body: JSON.stringify({ model: "sim/tiny", messages: [{ role: "user", content: "hi" }] }),
    });
    await readBody(response);
  });
  await measure(`${kind}: list`, get("/v1/usage?limit=50"));
  await measure(`${kind}: list, rare model`, get("/v1/usage?limit=50&model=sim/rare"));
  await measure(`${kind}: list, failed calls`, get("/v1/usage?limit=50&outcome=failed"));
  await measure(`${kind}: summary by day`, get("/v1/usage/summary"));
  await measure(`${kind}: summary by model`, get("/v1/usage/summary?group_by=model"));
  await measure(
    `${kind}: summary by day in a time zone`,
    get("/v1/usage/summary?time_zone=Europe/Berlin"),
  );
  await measure(`${kind}: summary by label`, get("/v1/usage/summary?group_by=label"));
  await measure(
    `${kind}: summary of 7 days, to the millisecond`,
    get(`/v1/usage/summary?from=${from}&group_by=key`),
  );
  await measureDelay(kind, server.url, get("/v1/usage/summary?group_by=model"));
  await server.stop();
}

async function measurePages(
  kind: string,
  env: Readonly<Record<string, string>>,
  owner: PageOwner,
  apiKey: string,
): Promise<void> {
  const server = await startServer(["serve"], env);
  for (const { page, p50, fastest, max } of await timePages(server.url, owner)) {
    addCell(`${kind}: ${page}, p50`, p50);
    addCell(`${kind}: ${page}, fastest`, fastest);
    addCell(`${kind}: ${page}, max`, max);
  }
  const headers = { authorization: `Bearer ${apiKey}` };
  for (const path of ["/v1/usage/summary", "/v1/usage/summary?group_by=model"])
    await measure(`${kind}: ${path}`, async () =>
      readBody(await fetch(server.url + path, { headers })),
    );
  await server.stop();
}

async function readBody(response: Response): Promise<void> {
  const text = await response.text();
  if (!response.ok) throw new Error(`${response.status} ${text}`);
}

/** The longest that a request of another client waits while four summaries are read again and again. */
async function measureDelay(kind: string, url: string, read: () => Promise<void>): Promise<void> {
  let worst = 0;
  const isDone = new AbortController();
  const probe = (async () => {
    while (!isDone.signal.aborted) {
      const began = performance.now();
      await fetch(`${url}/healthz`);
      worst = Math.max(worst, performance.now() - began);
    }
  })();
  for (let round = 0; round < REPEATS; round++) await Promise.all([read(), read(), read(), read()]);
  isDone.abort();
  await probe;
  addCell(`${kind}: longest wait of another client beside four summaries`, worst);
}

async function measureFunctions(kind: string, db: Db, folder: string): Promise<void> {
  const now = Date.now();
  await measureWithLag(`${kind}: admin report`, () =>
    db.snapshot(async (reader) =>
      readReport(reader, { from: 0, to: now + 1 }, await readTransferSums(reader)),
    ),
  );
  await measureWithLag(`${kind}: verify-ledger --full`, async () => {
    const { problems } = await verifyLedger(db);
    if (problems.length > 0) throw new Error(problems.join("\n"));
  });
  await verifyFromCheckpoint(db, { now });
  if (db.kind === "sqlite")
    await measureWithLag(`${kind}: backup`, () => db.backup(path.join(folder, `${now}.backup`)));
  await measureWithLag(`${kind}: verify-ledger after a checkpoint`, async () => {
    const { problems } = await verifyFromCheckpoint(db, { now });
    if (problems.length > 0) throw new Error(problems.join("\n"));
  });
}

/** Also measures how long the event loop was blocked at most. */
async function measureWithLag(name: string, run: () => Promise<unknown>): Promise<void> {
  let last = performance.now();
  let lag = 0;
  const timer = setInterval(() => {
    lag = Math.max(lag, performance.now() - last);
    last = performance.now();
  }, 1);
  const began = performance.now();
  const cpuBefore = process.cpuUsage();
  await run();
  const { user, system } = process.cpuUsage(cpuBefore);
  const elapsed = performance.now() - began;
  lag = Math.max(lag, performance.now() - last);
  clearInterval(timer);
  addCell(name, elapsed);
  addCell(`${name}: CPU of this process`, (user + system) / 1_000);
  addCell(`${name}: longest block of the event loop`, lag);
}

async function measure(name: string, run: () => Promise<unknown>): Promise<void> {
  const times: number[] = [];
  for (let repeat = 0; repeat < REPEATS; repeat++) {
    const began = performance.now();
    await run();
    times.push(performance.now() - began);
  }
  times.sort((one, other) => one - other);
  addCell(`${name}, p50`, times[Math.floor(REPEATS / 2)] ?? 0);
  addCell(`${name}, fastest`, times[0] ?? 0);
}

function addCell(name: string, ms: number): void {
  const cells = rows.get(name) ?? [];
  cells.push(ms < 10 ? ms.toFixed(1) : Math.round(ms).toLocaleString("en"));
  rows.set(name, cells);
  console.error(`${name}: ${cells.at(-1)}`);
}
