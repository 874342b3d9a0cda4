// Runs histories against the real ledger and compares every reply and every row with the reference model. Concurrent
// operations may have been applied in any order, so the check searches for one that explains the result.

import type { HoldOutcome } from "../../../src/ledger/decide.ts";
import { deposit, getWallet, heartbeat } from "../../../src/ledger/ledger.ts";
import { collectDebt } from "../../../src/ledger/payments/payments.ts";
import { sweepHolds } from "../../../src/ledger/sweep.ts";
import { getBudgets, setBudgets } from "../../../src/ledger/wallet-budgets.ts";
import type { Db, Tx } from "../../../src/store/db.ts";
import { verifyLedger } from "../../../src/verification/verify.ts";
import { LEDGER_TABLES, openAccount, usageRecord } from "../fixtures.ts";
import { startFaultyProcess, type FaultyProcess } from "./faulty-process.ts";
import {
  type AdminPlan,
  type CallPlan,
  type EventPlan,
  KEYS,
  PROCESSES,
  type RunPlan,
} from "./generators.ts";
import {
  type HistoryAccount,
  findLinearization,
  keyIdsOf,
  readSummaries,
  describeFailure,
  modelSummary,
  type Thread,
} from "./linearizability.ts";
import {
  applyOperation,
  type ModelOperation,
  balances,
  budgetUsed,
  type Clock,
  emptyModel,
} from "./reference-model.ts";
import type { RunStatistics } from "./run-statistics.ts";

const SWEEP: Thread = [
  { operations: [{ kind: "select dead" }], replies: [null] },
  { operations: [{ kind: "sweep" }], replies: [null] },
  { operations: [{ kind: "delete old" }], replies: [null] },
];
const RATE_LIMIT = { intervalMs: 40, burst: 2 };

interface HistoryRun {
  readonly db: Db;
  readonly tag: string;
  readonly counts: RunStatistics;
  readonly processes: FaultyProcess[];
  readonly accounts: readonly HistoryAccount[];
  readonly seen: number[];
  now: number;
}

export async function runHistories(
  db: Db,
  plan: RunPlan,
  tag: string,
  counts: RunStatistics,
): Promise<void> {
  const now = Date.UTC(2026, 0, 28, 23, 59, 59, 900);
  const accounts = plan.histories.map((history, index): HistoryAccount => ({
    id: `${tag}.a${index}`,
    plan: history,
    holdIds: [],
    model: emptyModel(now, KEYS),
  }));
  const run: HistoryRun = { db, tag, counts, processes: [], accounts, seen: [], now };
  await db.write((tx) => deleteAllRows(tx));
  await db.write(async (tx) => {
    for (const account of accounts) await openAccount(tx, account.id, keyIdsOf(account), now);
  });
  for (let index = 0; index < PROCESSES; index++) {
    run.processes.push(await startFaultyProcess(db, `${tag}.p${index}`, now));
    run.seen.push(now);
  }
  await Promise.all(accounts.map((account) => fundAccount(run, account)));
  const rounds = Math.max(...accounts.map((account) => account.plan.rounds.length));
  for (let round = 0; round < rounds; round++)
    await runRound(run, plan.events[round] ?? { kind: "sweep" }, round);
  await finishRun(run);
  counts.histories += accounts.length;
}

async function fundAccount({ db, now }: HistoryRun, account: HistoryAccount): Promise<void> {
  for (const bucket of ["promo", "paid"] as const) {
    const amount = BigInt(account.plan[bucket]);
    if (amount === 0n) continue;
    const operation = {
      kind: "deposit",
      id: `${account.id}.start.${bucket}`,
      bucket,
      amount,
    } as const;
    await makeDeposit(db, account, operation, now);
    [account.model] = applyOperation(account.model, operation, { now, epochs: [], seen: [] });
  }
}

async function runRound(run: HistoryRun, event: EventPlan, round: number): Promise<void> {
  const sweeps = await beginRound(run, event);
  const clock: Clock = {
    now: run.now,
    epochs: run.processes.map((one) => one.epoch),
    seen: run.seen,
  };
  const deadProcesses = run.processes
    .map(({ name, epoch }, index) => ({ name, epoch, seenAt: run.seen[index] ?? 0 }))
    .filter(({ seenAt }) => seenAt < run.now - 30_000);
  if (round % 2 === 0) await warmRowCache(run);
  const sweeping = sweeps ? sweepHolds(run.db, run.now, deadProcesses) : Promise.resolve(0);
  const threads = await Promise.all(run.accounts.map((account) => runAccount(run, account, round)));
  await sweeping;
  const rows = await readSummaries(run.db);
  for (const [index, account] of run.accounts.entries()) {
    const accountThreads = [...(threads[index] ?? []), ...(sweeps ? [SWEEP] : [])];
    const summary = rows.get(account.id) ?? "no rows";
    const model = findLinearization(
      account.model,
      accountThreads,
      clock,
      (state) => modelSummary(account, state) === summary,
    );
    if (model === undefined)
      throw new Error(describeFailure(account, accountThreads, clock, { rows: summary, round }));
    account.model = model;
  }
  await endRound(run, event);
}

/** Settles unknown calls, so that a ledger with a row cache has read the rows of every account. */
async function warmRowCache({ accounts, processes, now }: HistoryRun): Promise<void> {
  const healthy = processes.find(({ fault }) => fault === "none");
  if (healthy === undefined) return;
  const settlements = accounts.flatMap((account) =>
    keyIdsOf(account).map((keyId) => {
      const owner = { accountId: account.id, keyId, now };
      return healthy.ledger.settle({ ...owner, id: `${account.id}.none`, cost: 0n });
    }),
  );
  for (const { status } of await Promise.all(settlements))
    if (status !== "already") throw new Error("an unknown call was settled");
}

/** Returns true if the sweeper runs concurrently with the round. */
async function beginRound(run: HistoryRun, event: EventPlan): Promise<boolean> {
  run.now += 3;
  if (event.kind === "time") run.now += event.ms;
  if (event.kind === "silence") run.now += 31_000;
  if (event.kind === "restart") await restart(run, event.process);
  for (const [index, process] of run.processes.entries()) {
    process.fault = "none";
    if ("process" in event && event.process === index) {
      if (event.kind === "silence") continue;
      if (event.kind === "reply lost") process.fault = "reply lost";
      if (event.kind === "crash")
        process.fault = event.isCommitted ? "crash after commit" : "crash before commit";
    }
    if (!(await heartbeat(run.db, process.name, process.epoch, run.now)))
      throw new Error("the heartbeat of a live process failed");
    run.seen[index] = run.now;
  }
  return event.kind === "sweep" || event.kind === "silence" || event.kind === "restart";
}

async function endRound(run: HistoryRun, event: EventPlan): Promise<void> {
  if (event.kind === "sweep") run.counts.sweeps += 1;
  if (event.kind === "reply lost") run.counts.lostReplies += 1;
  if (event.kind !== "crash") return;
  run.counts.crashes += 1;
  await restart(run, event.process);
}

async function restart(run: HistoryRun, index: number): Promise<void> {
  const name = run.processes[index]?.name ?? "";
  run.processes[index] = await startFaultyProcess(run.db, name, run.now);
  run.seen[index] = run.now;
}

/** Returns one thread for each process, in its order, and one for the administrative change. */
async function runAccount(
  run: HistoryRun,
  account: HistoryAccount,
  round: number,
): Promise<readonly Thread[]> {
  const plan = account.plan.rounds[round];
  if (plan === undefined) return [];
  const holdIds = [...account.holdIds];
  const running = run.processes.map((process, index) =>
    runCalls(
      run,
      account,
      process,
      (plan.calls[index] ?? []).map((call) => toOperation(run, account, index, { call, holdIds })),
    ),
  );
  // Holds decided from cached rows come before any write.
  const admin =
    plan.admin === null
      ? []
      : [Promise.resolve(plan.admin).then((change) => runAdmin(run, account, change, round))];
  return Promise.all([...running, ...admin]);
}

async function runCalls(
  run: HistoryRun,
  account: HistoryAccount,
  process: FaultyProcess,
  operations: readonly ModelOperation[],
): Promise<Thread> {
  if (operations.length === 0) return [];
  const { fault } = process;
  const pendingReplies = operations.map((operation) => runCall(run, account, process, operation));
  if (fault === "none") return orderReplies(operations, pendingReplies);
  const unanswered = { operations, replies: operations.map(() => null) };
  if (fault === "reply lost")
    return [unanswered, { operations, replies: await resolveAll(pendingReplies) }];
  await process.died.promise;
  return fault === "crash after commit" ? [unanswered] : [];
}

// Each synchronous decision is a transaction of its own, before the batch of the others.
async function orderReplies(
  operations: readonly ModelOperation[],
  pendingReplies: readonly (string | Promise<string>)[],
): Promise<Thread> {
  const thread: Thread[number][] = [];
  const later: number[] = [];
  for (const [index, operation] of operations.entries()) {
    const reply = pendingReplies[index];
    if (typeof reply === "string") thread.push({ operations: [operation], replies: [reply] });
    else later.push(index);
  }
  if (later.length === 0) return thread;
  const replies = await resolveAll(later.map((index) => pendingReplies[index] ?? ""));
  return [...thread, { operations: later.flatMap((index) => operations[index] ?? []), replies }];
}

function resolveAll(
  pendingReplies: readonly (string | Promise<string>)[],
): Promise<readonly string[]> {
  return Promise.all(pendingReplies.map((reply) => Promise.resolve(reply)));
}

function toOperation(
  run: HistoryRun,
  account: HistoryAccount,
  process: number,
  { call, holdIds }: { call: CallPlan; holdIds: readonly string[] },
): ModelOperation {
  if (call.kind === "hold") {
    const id = `${account.id}.h${account.holdIds.length}`;
    account.holdIds.push(id);
    return {
      kind: "hold",
      id,
      key: call.key,
      amount: BigInt(call.amount),
      minimum: call.minimum === null ? null : BigInt(call.minimum),
      rateLimit: call.isRateLimited
        ? { interval: RATE_LIMIT.intervalMs, burst: RATE_LIMIT.burst }
        : null,
      openMax: call.openMax,
      process,
      expiresAt: run.now + call.lifetimeMs,
    };
  }
  const id =
    holdIds.length === 0 ? `${account.id}.never` : (holdIds[call.pick % holdIds.length] ?? "");
  if (call.kind === "raise") return { kind: "raise", id, amount: BigInt(call.amount) };
  const held = account.model.holds.get(id)?.amount ?? 10n;
  const costs = {
    zero: 0n,
    byok: 0n,
    below: held / 3n,
    equal: held,
    above: held + 5n,
    "far above": held * 3n + 1_000n,
  };
  return { kind: "settle", id, cost: costs[call.cost], byok: call.cost === "byok" };
}

function runCall(
  run: HistoryRun,
  account: HistoryAccount,
  process: FaultyProcess,
  operation: ModelOperation,
): string | Promise<string> {
  if (operation.kind === "hold") return runHold(run, account, process, operation);
  if (operation.kind === "raise") return runRaise(run, account, process, operation);
  if (operation.kind === "settle") return runSettle(run, account, process, operation);
  throw new Error("not a call");
}

function runHold(
  run: HistoryRun,
  account: HistoryAccount,
  { ledger }: FaultyProcess,
  operation: ModelOperation & { kind: "hold" },
): string | Promise<string> {
  run.counts.holds += 1;
  const { id, amount, expiresAt } = operation;
  const request = {
    id,
    accountId: account.id,
    keyId: keyIdsOf(account)[operation.key] ?? "",
    amount,
    now: run.now,
    expiresAt,
    session: sessionOf(id),
    ...(operation.minimum === null ? {} : { minimum: operation.minimum }),
    ...(operation.rateLimit === null ? {} : { rateLimit: RATE_LIMIT }),
    ...(operation.openMax === null ? {} : { openCallsMax: operation.openMax }),
  };
  const count = (outcome: HoldOutcome): string => {
    if (outcome.status !== "held") run.counts.rejections += 1;
    if (outcome.status === "budget") run.counts.overBudget += 1;
    return outcomeText(outcome);
  };
  const outcome = ledger.tryHoldSync(request);
  if (outcome === undefined) return ledger.hold(request).then(count);
  run.counts.heldSync += 1;
  return count(outcome);
}

/** Every third call has no session, and the others share two. */
function sessionOf(holdId: string): { readonly id: string } | undefined {
  const index = Number(holdId.slice(holdId.lastIndexOf("h") + 1)) % 3;
  return index > 0 ? { id: `s${index}` } : undefined;
}

function outcomeText(outcome: HoldOutcome): string {
  switch (outcome.status) {
    case "held":
      return `held ${outcome.amount}`;
    case "insufficient_credits":
      return `insufficient_credits ${outcome.available} ${outcome.posted}`;
    case "frozen":
      return `frozen ${outcome.owed}`;
    case "key_limit":
      return `key_limit ${outcome.remaining}`;
    case "session_stopped":
    case "session_limit":
      throw new Error(`sessions without a limit refused a hold: ${outcome.status}`);
    case "budget":
      return `budget ${outcome.blocked.window} ${outcome.blocked.remaining}`;
    case "key_rejected":
      return `key_rejected ${outcome.reason}`;
    case "key_changed":
      return "key_changed";
    case "rate_limited":
      return `rate_limited ${outcome.retryAfterMs}`;
    case "too_many_calls":
      return `too_many_calls ${outcome.open}`;
  }
}

async function runRaise(
  run: HistoryRun,
  account: HistoryAccount,
  { ledger }: FaultyProcess,
  { id, amount }: ModelOperation & { kind: "raise" },
): Promise<string> {
  const outcome = await ledger.raise({
    id,
    accountId: account.id,
    keyId: keyOfHold(account, id),
    amount,
    now: run.now,
    sessionId: sessionOf(id)?.id,
  });
  if (outcome.status !== "raised") return outcome.status;
  run.counts.raises += 1;
  return `raised ${outcome.amount}`;
}

function keyOfHold(account: HistoryAccount, id: string): string {
  return keyIdsOf(account)[account.model.holds.get(id)?.key ?? 0] ?? "";
}

async function runSettle(
  run: HistoryRun,
  account: HistoryAccount,
  { ledger }: FaultyProcess,
  operation: ModelOperation & { kind: "settle" },
): Promise<string> {
  run.counts.settles += 1;
  const { now } = run;
  const { id, cost, byok } = operation;
  const keyId = keyOfHold(account, id);
  const record = usageRecord({
    id,
    accountId: account.id,
    keyId,
    cost: byok ? 7n : cost,
    createdAt: now,
    byok,
  });
  const { id: sessionId } = sessionOf(id) ?? {};
  const request = { id, accountId: account.id, keyId, cost, now, record, sessionId };
  const outcome = await ledger.settle(request);
  if (outcome.status !== "settled") return outcome.status;
  if (outcome.late) run.counts.lateSettles += 1;
  return `settled ${outcome.charged} ${outcome.overrun} ${outcome.late}`;
}

async function runAdmin(
  run: HistoryRun,
  account: HistoryAccount,
  plan: AdminPlan,
  round: number,
): Promise<Thread> {
  const { db, now } = run;
  if (plan.kind === "deposit") {
    const isRepeated = plan.isRepeated && account.plan.promo > 0;
    const id = isRepeated ? `${account.id}.start.promo` : `${account.id}.d${round}`;
    const operation = {
      kind: "deposit",
      id,
      bucket: plan.bucket,
      amount: BigInt(plan.amount),
    } as const;
    return [
      {
        operations: [operation],
        replies: [String(await makeDeposit(db, account, operation, now))],
      },
      await collect(run, account, round),
    ];
  }
  if (plan.kind === "budget") return [await setBudget(run, account, plan)];
  const changes = {
    revoke: { revoked: true },
    expire:
      plan.kind === "expire"
        ? { expiresAt: plan.afterMs === null ? null : now + plan.afterMs }
        : {},
    limit:
      plan.kind === "limit"
        ? { limit: plan.limit === null ? null : BigInt(plan.limit), window: plan.window }
        : {},
  };
  const keyId = keyIdsOf(account)[plan.key] ?? "";
  await db.write((tx) => {
    switch (plan.kind) {
      case "revoke":
        return tx.run("update api_key set revoked_at = ? where id = ?", [now, keyId]);
      case "expire":
        return tx.run("update api_key set expires_at = ? where id = ?", [
          changes.expire.expiresAt ?? null,
          keyId,
        ]);
      case "limit":
        return tx.run("update api_key set limit_nano = ?, limit_window = ? where id = ?", [
          plan.limit,
          plan.window,
          keyId,
        ]);
    }
  });
  return [
    { operations: [{ kind: "key", key: plan.key, change: changes[plan.kind] }], replies: [null] },
  ];
}

/** Pays the account's debt, if its credits cover a part of it. */
async function collect(
  { db, now, counts }: HistoryRun,
  { id: accountId }: HistoryAccount,
  round: number,
): Promise<Thread[number]> {
  const { owed = 0n } = await getWallet(db, accountId);
  if (owed > 0n) counts.debts += 1;
  await db.write((tx) => collectDebt(tx, { id: `${accountId}.debt${round}`, accountId, now }));
  return { operations: [{ kind: "collect" }], replies: [null] };
}

async function setBudget(
  { db, now, counts }: HistoryRun,
  account: HistoryAccount,
  { day, month }: AdminPlan & { kind: "budget" },
): Promise<Thread[number]> {
  const change = {
    ...(day === undefined ? {} : { day: day === null ? null : BigInt(day) }),
    ...(month === undefined ? {} : { month: month === null ? null : BigInt(month) }),
  };
  await db.write((tx) => setBudgets(tx, account.id, change, now));
  counts.budgets += 1;
  return { operations: [{ kind: "budget", change }], replies: [null] };
}

function makeDeposit(
  db: Db,
  account: HistoryAccount,
  { id, bucket, amount }: ModelOperation & { kind: "deposit" },
  now: number,
): Promise<boolean> {
  const from = bucket === "promo" ? "system:promo_expense" : "system:clearing";
  return db.write((tx) =>
    deposit(tx, { id, accountId: account.id, bucket, from, amount, kind: "grant", ref: id, now }),
  );
}

/** Restarts and sweeps every process: afterwards nothing may be held, and the ledger must be intact. */
async function finishRun(run: HistoryRun): Promise<void> {
  for (let index = 0; index < PROCESSES; index++) await restart(run, index);
  const clock: Clock = {
    now: run.now,
    epochs: run.processes.map((one) => one.epoch),
    seen: run.seen,
  };
  await sweepHolds(run.db, run.now);
  const rows = await readSummaries(run.db);
  for (const account of run.accounts) {
    const model = findLinearization(
      account.model,
      [SWEEP],
      clock,
      (state) => modelSummary(account, state) === rows.get(account.id),
    );
    if (model === undefined)
      throw new Error(
        describeFailure(account, [SWEEP], clock, { rows: rows.get(account.id) ?? "", round: -1 }),
      );
    if (balances(model).held !== 0n) throw new Error("credit is held without an open call");
    const { day, month } = await getBudgets(run.db, account.id, run.now);
    const used = budgetUsed(model, run.now);
    if (day.used !== used.day || month.used !== used.month)
      throw new Error(
        `${account.id} shows ${day.used}, ${month.used} for ${used.day}, ${used.month}`,
      );
  }
  const { problems, checked } = await verifyLedger(run.db);
  if (problems.length > 0) throw new Error(problems.join("\n"));
  if (checked.wallets !== run.accounts.length || checked.holds !== 0)
    throw new Error(`unexpected numbers of rows: ${JSON.stringify(checked)}`);
}

async function deleteAllRows(tx: Tx): Promise<void> {
  for (const table of LEDGER_TABLES) await tx.run(`delete from ${table}`);
}
