// A node of a distributed store that does not respond, while a gateway starts, serves calls and runs its jobs. Runs on a
// PostgreSQL that only looks like Citus, or on Citus with POSTERN_TEST_CITUS_URL.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { secret } from "../../src/base/crypto/secret.ts";
import { createIdempotency } from "../../src/idempotency/idempotency.ts";
import type { HoldRequest } from "../../src/ledger/decide.ts";
import { getWallet, type Ledger, startEpoch } from "../../src/ledger/ledger.ts";
import { listDebtors } from "../../src/ledger/payments/payments.ts";
import { sweepHolds } from "../../src/ledger/sweep.ts";
import { readAllAccounts } from "../../src/store/all-accounts.ts";
import { type Db, type Row, text } from "../../src/store/db.ts";
import type { UsageRecord } from "../../src/usage/usage.ts";
import { verifyLedger } from "../../src/verification/verify.ts";
import { startLedger, usageRecord } from "../ledger/fixtures.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { runJobs } from "../support/run-jobs.ts";
import {
  type DistributedNodes,
  openDistributedNodes,
} from "../support/stores/distributed-nodes.ts";

/** They fail if a node does not respond, and are run again. */
const WAITING_JOBS: ReadonlySet<string> = new Set([
  "delete expired records",
  "delete old sessions of agents",
  "erase closed accounts",
]);

describe("a gateway while a node is down", () => {
  let nodes: DistributedNodes;
  let gateway: Gateway;
  let reachable: TestAccount;
  let unreachable: TestAccount;
  let node: string;

  beforeAll(async () => {
    nodes = await openDistributedNodes();
    const { databaseUrl } = nodes;
    const before = await startGateway({ databaseUrl });
    reachable = await registerAccount(before);
    const reachableNode = await nodes.nodeOf(reachable.id);
    do unreachable = await registerAccount(before);
    while ((node = await nodes.nodeOf(unreachable.id)) === reachableNode);
    await before.stop();
    await leaveRunningKeys(nodes.db, [reachable, unreachable]);
    await leaveDebtsAndHolds(nodes.db, [reachable, unreachable]);
    await nodes.takeDown(node);
    gateway = await startGateway({ databaseUrl });
  });
  afterAll(async () => {
    await gateway.stop();
    await nodes.close();
  });

  const call = async (
    { headers }: TestAccount,
    stream: boolean,
    extra: object = {},
  ): Promise<number> => {
    const messages = [{ role: "user", content: "hello" }];
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { ...headers, ...extra },
      body: JSON.stringify({ model: "sim/echo", max_tokens: 10, messages, stream }),
    });
    await response.text();
    return response.status;
  };
  const statuses = (account: TestAccount): Promise<readonly number[]> =>
    Promise.all([
      call(account, false),
      call(account, true),
      call(account, false, { "idempotency-key": "while-a-node-is-down" }),
    ]);
  const runningKeys = (): Promise<readonly Row[]> =>
    readAllAccounts(
      nodes.db,
      "idempotent_answer",
      "select id from idempotent_answer where state = 'running'",
    );

  test("starts, and releases the holds and keys of dead processes on the other nodes", async () => {
    expect(await nodes.holders()).toEqual([]);
    expect(await runningKeys()).toEqual([]);
  });

  test("runs its jobs, except deletions of old rows", async () => {
    const failed = await runJobs(gateway.config);
    expect([...failed].filter(([job]) => !WAITING_JOBS.has(job))).toEqual([]);
    expect(await getWallet(nodes.db, reachable.id)).not.toHaveProperty("owed");
  });

  test("serves the accounts of the other nodes, and responds 503 to those of the node", async () => {
    expect(await statuses(reachable)).toEqual([200, 200, 200]);
    expect(await statuses(unreachable)).toEqual([503, 503, 503]);
  });

  test("goes on with the accounts of the node once it responds", async () => {
    await nodes.bringUp(node);
    await sweepHolds(nodes.db, Date.now());
    expect(await nodes.holders()).toEqual([]);
    expect(await runningKeys()).toHaveLength(1);
    expect([...(await runJobs(gateway.config))]).toEqual([]);
    expect(await runningKeys()).toEqual([]);
    expect(await statuses(unreachable)).toEqual([200, 200, 200]);
    expect((await verifyLedger(nodes.db)).problems).toEqual([]);
  });
});

/** Each account has the key of a call that died with its process before its hold. */
async function leaveRunningKeys(db: Db, accounts: readonly TestAccount[]): Promise<void> {
  const dead = createIdempotency(secret("the master secret of this test"), {
    name: "dead",
    epoch: 1,
  });
  const call = { scope: "chat", key: "left", body: "{}", now: Date.now() };
  for (const { id } of accounts)
    await db.write((tx) => dead.begin(tx, { ...call, accountId: id, holdId: `${id}.4` }));
}

/** Each account has a debt that its credit can pay, and a hold of a process that has started again since. */
async function leaveDebtsAndHolds(db: Db, accounts: readonly TestAccount[]): Promise<void> {
  const now = Date.now();
  const keys = await Promise.all(accounts.map(({ id }) => keyOf(db, id)));
  const indebted = await startLedger(db, "dead", now);
  for (const key of keys) {
    const { promo } = await getWallet(db, key.accountId);
    await hold(indebted, { ...key, id: `${key.accountId}.1`, amount: 20n });
    await hold(indebted, { ...key, id: `${key.accountId}.2`, amount: promo - 20n });
    const call = { ...key, id: `${key.accountId}.1`, cost: 100n };
    await indebted.settle({ ...call, now, record: usageRecord({ ...call, createdAt: now }) });
  }
  await startEpoch(db, "dead", now);
  await sweepHolds(db, now);
  expect((await listDebtors(db, 500)).toSorted()).toEqual(accounts.map(({ id }) => id).toSorted());
  const dead = await startLedger(db, "dead", now);
  for (const key of keys) await hold(dead, { ...key, id: `${key.accountId}.3`, amount: 0n });
  await startEpoch(db, "dead", now);
}

async function keyOf(db: Db, accountId: string): Promise<{ accountId: string; keyId: string }> {
  const row = await db.get("select id from api_key where account_id = ?", [accountId]);
  return { accountId, keyId: row === undefined ? "" : text(row, "id") };
}

async function hold(
  ledger: Ledger<UsageRecord>,
  request: Pick<HoldRequest, "id" | "accountId" | "keyId" | "amount">,
): Promise<void> {
  const now = Date.now();
  const { status } = await ledger.hold({ ...request, now, expiresAt: now + 60_000 });
  expect(status).toBe("held");
}
