// Runs a world of histories against the real ledger, and holds every answer and every row against the model. Acts that
// happen at the same time may have happened in any order, so the model looks for one that explains what was seen.

import { getBudgets, setBudgets } from "../../../src/ledger/budgets.ts";
import type { HoldOutcome } from "../../../src/ledger/decide.ts";
import { deposit, heartbeat } from "../../../src/ledger/ledger.ts";
import { sweepHolds } from "../../../src/ledger/sweep.ts";
import { verifyLedger } from "../../../src/ledger/verify.ts";
import type { Db, Tx } from "../../../src/store/db.ts";
import {
  type AdminPlan,
  type CallPlan,
  type EventPlan,
  KEYS,
  PROCESSES,
  type RunPlan,
} from "./generators.ts";
import {
  applyOperation,
  type ModelOperation,
  balances,
  budgetUsed,
  type Clock,
  emptyModel,
} from "./reference-model.ts";
import {
  type HistoryAccount,
  findLinearization,
  keyIdsOf,
  readSummaries,
  describeFailure,
  modelSummary,
  type Thread,
} from "./linearizability.ts";
import type { RunStatistics } from "./run-statistics.ts";
import { startFaultyProcess, type FaultyProcess } from "./faulty-process.ts";
import { openAccount, usageRecord } from "../fixtures.ts";

const SWEEP: Thread = [
  { operations: [{ kind: "pick" }], replies: [null] },
  { operations: [{ kind: "sweep" }], replies: [null] },
  { operations: [{ kind: "forget" }], replies: [null] },
];
const PACE = { intervalMs: 40, burst: 2 };

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
  const world: HistoryRun = { db, tag, counts, processes: [], accounts, seen: [], now };
  await db.write((tx) => deleteAllRows(tx));
  await db.write(async (tx) => {
    for (const account of accounts) await openAccount(tx, account.id, keyIdsOf(account), now);
  });
  for (let index = 0; index < PROCESSES; index++) {
    world.processes.push(await startFaultyProcess(db, `${tag}.p${index}`, now));
    world.seen.push(now);
  }
  await Promise.all(accounts.map((account) => fundAccount(world, account)));
  const rounds = Math.max(...accounts.map((account) => account.plan.rounds.length));
  for (let round = 0; round < rounds; round++)
    await runRound(world, plan.events[round] ?? { kind: "sweep" }, round);
  await finishRun(world);
  counts.histories += accounts.length;
}

async function fundAccount({ db, now }: HistoryRun, account: HistoryAccount): Promise<void> {
  for (const bucket of ["promo", "paid"] as const) {
    const amount = BigInt(account.plan[bucket]);
    if (amount === 0n) continue;
    const what = { kind: "deposit", id: `${account.id}.start.${bucket}`, bucket, amount } as const;
    await makeDeposit(db, account, what, now);
    [account.model] = applyOperation(account.model, what, { now, epochs: [], seen: [] });
  }
}

async function runRound(world: HistoryRun, event: EventPlan, round: number): Promise<void> {
  const sweeps = await beginRound(world, event);
  const clock: Clock = {
    now: world.now,
    epochs: world.processes.map((one) => one.epoch),
    seen: world.seen,
  };
  const silent = world.processes
    .map(({ name, epoch }, place) => ({ name, epoch, seenAt: world.seen[place] ?? 0 }))
    .filter(({ seenAt }) => seenAt < world.now - 30_000);
  if (round % 2 === 0) await warmRowCache(world);
  const sweeping = sweeps ? sweepHolds(world.db, world.now, silent) : Promise.resolve(0);
  const threads = await Promise.all(
    world.accounts.map((account) => runAccount(world, account, round)),
  );
  await sweeping;
  const rows = await readSummaries(world.db);
  for (const [place, account] of world.accounts.entries()) {
    const mine = [...(threads[place] ?? []), ...(sweeps ? [SWEEP] : [])];
    const seen = rows.get(account.id) ?? "no rows";
    const explained = findLinearization(
      account.model,
      mine,
      clock,
      (model) => modelSummary(account, model) === seen,
    );
    if (explained === undefined)
      throw new Error(describeFailure(account, mine, clock, { seen, round }));
    account.model = explained;
  }
  await endRound(world, event);
}

/** Has a ledger read what holds rest on, by asking for the end of calls that there are not: a store that keeps that knows it then. */
async function warmRowCache({ accounts, processes, now }: HistoryRun): Promise<void> {
  const healthy = processes.find(({ fault }) => fault === "fine");
  if (healthy === undefined) return;
  const ends = accounts.flatMap((account) =>
    keyIdsOf(account).map((keyId) => {
      const owner = { accountId: account.id, keyId, now };
      return healthy.ledger.settle({ ...owner, id: `${account.id}.none`, cost: 0n });
    }),
  );
  for (const end of await Promise.all(ends))
    if (end.status !== "already") throw new Error("a call that was never made has ended");
}

/** Answers whether the sweeper runs at the same time. */
async function beginRound(world: HistoryRun, event: EventPlan): Promise<boolean> {
  world.now += 3;
  if (event.kind === "time") world.now += event.ms;
  if (event.kind === "silence") world.now += 31_000;
  if (event.kind === "restart") await restart(world, event.process);
  for (const [place, process] of world.processes.entries()) {
    process.fault = "fine";
    if ("process" in event && event.process === place) {
      if (event.kind === "silence") continue;
      if (event.kind === "reply lost") process.fault = "reply lost";
      if (event.kind === "crash")
        process.fault = event.committed ? "crash after commit" : "crash before commit";
    }
    if (!(await heartbeat(world.db, process.name, process.epoch, world.now)))
      throw new Error("a living process is not known");
    world.seen[place] = world.now;
  }
  return event.kind === "sweep" || event.kind === "silence" || event.kind === "restart";
}

async function endRound(world: HistoryRun, event: EventPlan): Promise<void> {
  if (event.kind === "sweep") world.counts.sweeps += 1;
  if (event.kind === "reply lost") world.counts.lostReplies += 1;
  if (event.kind !== "crash") return;
  world.counts.crashes += 1;
  await restart(world, event.process);
}

async function restart(world: HistoryRun, index: number): Promise<void> {
  const name = world.processes[index]?.name ?? "";
  world.processes[index] = await startFaultyProcess(world.db, name, world.now);
  world.seen[index] = world.now;
}

/** Answers what was done by each that acts on its own, in its order. */
async function runAccount(
  world: HistoryRun,
  account: HistoryAccount,
  round: number,
): Promise<readonly Thread[]> {
  const plan = account.plan.rounds[round];
  if (plan === undefined) return [];
  const known = [...account.holdIds];
  const running = world.processes.map((process, index) =>
    runCalls(
      world,
      account,
      process,
      (plan.calls[index] ?? []).map((call) => toAct(world, account, index, { call, known })),
    ),
  );
  // What is held at once is held before anybody writes.
  const admin =
    plan.admin === null
      ? []
      : [Promise.resolve(plan.admin).then((one) => runAdmin(world, account, one, round))];
  return Promise.all([...running, ...admin]);
}

async function runCalls(
  world: HistoryRun,
  account: HistoryAccount,
  process: FaultyProcess,
  operations: readonly ModelOperation[],
): Promise<Thread> {
  if (operations.length === 0) return [];
  const { fault } = process;
  const answers = operations.map((what) => runCall(world, account, process, what));
  if (fault === "fine") return orderAnswers(operations, answers);
  const unheard = { operations, replies: operations.map(() => null) };
  if (fault === "reply lost") return [unheard, { operations, replies: await allOf(answers) }];
  await process.died.promise;
  return fault === "crash after commit" ? [unheard] : [];
}

// What is decided at once stands alone, and comes before what goes into a batch together.
async function orderAnswers(
  acts: readonly ModelOperation[],
  answers: readonly (string | Promise<string>)[],
): Promise<Thread> {
  const thread: Thread[number][] = [];
  const later: number[] = [];
  for (const [place, what] of acts.entries()) {
    const answer = answers[place];
    if (typeof answer === "string") thread.push({ operations: [what], replies: [answer] });
    else later.push(place);
  }
  if (later.length === 0) return thread;
  const replies = await allOf(later.map((place) => answers[place] ?? ""));
  return [...thread, { operations: later.flatMap((place) => acts[place] ?? []), replies }];
}

function allOf(answers: readonly (string | Promise<string>)[]): Promise<readonly string[]> {
  return Promise.all(answers.map((answer) => Promise.resolve(answer)));
}

function toAct(
  world: HistoryRun,
  account: HistoryAccount,
  process: number,
  { call, known }: { call: CallPlan; known: readonly string[] },
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
      pace: call.paced ? { interval: PACE.intervalMs, burst: PACE.burst } : null,
      openMax: call.openMax,
      process,
      expiresAt: world.now + call.lifeMs,
    };
  }
  const id = known.length === 0 ? `${account.id}.never` : (known[call.pick % known.length] ?? "");
  const held = account.model.holds.get(id)?.amount ?? 10n;
  const costs = {
    nothing: 0n,
    byok: 0n,
    below: held / 3n,
    equal: held,
    above: held + 5n,
    "far above": held * 3n + 1_000n,
  };
  return { kind: "settle", id, cost: costs[call.cost], byok: call.cost === "byok" };
}

function runCall(
  world: HistoryRun,
  account: HistoryAccount,
  process: FaultyProcess,
  what: ModelOperation,
): string | Promise<string> {
  if (what.kind === "hold") return runHold(world, account, process, what);
  if (what.kind === "settle") return runSettle(world, account, process, what);
  throw new Error("not a call");
}

function runHold(
  world: HistoryRun,
  account: HistoryAccount,
  { ledger }: FaultyProcess,
  what: ModelOperation & { kind: "hold" },
): string | Promise<string> {
  world.counts.holds += 1;
  const { id, amount, expiresAt } = what;
  const request = {
    id,
    accountId: account.id,
    keyId: keyIdsOf(account)[what.key] ?? "",
    amount,
    now: world.now,
    expiresAt,
    ...(what.minimum === null ? {} : { minimum: what.minimum }),
    ...(what.pace === null ? {} : { rateLimit: PACE }),
    ...(what.openMax === null ? {} : { openCallsMax: what.openMax }),
  };
  const count = (outcome: HoldOutcome): string => {
    if (outcome.status !== "held") world.counts.refusals += 1;
    if (outcome.status === "budget") world.counts.overBudget += 1;
    return outcomeText(outcome);
  };
  const now = ledger.tryHoldSync(request);
  if (now === undefined) return ledger.hold(request).then(count);
  world.counts.heldSync += 1;
  return count(now);
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
    case "budget":
      return `budget ${outcome.blocked.window} ${outcome.blocked.remaining}`;
    case "key_rejected":
      return `key_rejected ${outcome.reason}`;
    case "rate_limited":
      return `rate_limited ${outcome.retryAfterMs}`;
    case "too_many_calls":
      return `too_many_calls ${outcome.open}`;
  }
}

async function runSettle(
  world: HistoryRun,
  account: HistoryAccount,
  { ledger }: FaultyProcess,
  what: ModelOperation & { kind: "settle" },
): Promise<string> {
  world.counts.settles += 1;
  const { now } = world;
  const { id, cost, byok } = what;
  const keyId = keyIdsOf(account)[account.model.holds.get(id)?.key ?? 0] ?? "";
  const record = usageRecord({
    id,
    accountId: account.id,
    keyId,
    cost: byok ? 7n : cost,
    createdAt: now,
    byok,
  });
  const outcome = await ledger.settle({ id, accountId: account.id, keyId, cost, now, record });
  if (outcome.status === "already") return "already";
  if (outcome.late) world.counts.lateSettles += 1;
  return `settled ${outcome.charged} ${outcome.overrun} ${outcome.late}`;
}

async function runAdmin(
  world: HistoryRun,
  account: HistoryAccount,
  plan: AdminPlan,
  round: number,
): Promise<Thread> {
  const { db, now } = world;
  if (plan.kind === "deposit") {
    const again = plan.again && account.plan.promo > 0;
    const id = again ? `${account.id}.start.promo` : `${account.id}.d${round}`;
    const what = { kind: "deposit", id, bucket: plan.bucket, amount: BigInt(plan.amount) } as const;
    return [{ operations: [what], replies: [String(await makeDeposit(db, account, what, now))] }];
  }
  if (plan.kind === "budget") return [await setBudget(world, account, plan)];
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

/** Every process is started anew and swept: nothing may stay held, and all must add up. */
async function finishRun(world: HistoryRun): Promise<void> {
  for (let place = 0; place < PROCESSES; place++) await restart(world, place);
  const clock: Clock = {
    now: world.now,
    epochs: world.processes.map((one) => one.epoch),
    seen: world.seen,
  };
  await sweepHolds(world.db, world.now);
  const rows = await readSummaries(world.db);
  for (const account of world.accounts) {
    const model = findLinearization(
      account.model,
      [SWEEP],
      clock,
      (state) => modelSummary(account, state) === rows.get(account.id),
    );
    if (model === undefined)
      throw new Error(
        describeFailure(account, [SWEEP], clock, { seen: rows.get(account.id) ?? "", round: -1 }),
      );
    if (balances(model).held !== 0n) throw new Error("something is held when nothing is open");
    const { day, month } = await getBudgets(world.db, account.id, world.now);
    const used = budgetUsed(model, world.now);
    if (day.used !== used.day || month.used !== used.month)
      throw new Error(
        `${account.id} shows ${day.used}, ${month.used} for ${used.day}, ${used.month}`,
      );
  }
  const { problems, checked } = await verifyLedger(world.db);
  if (problems.length > 0) throw new Error(problems.join("\n"));
  if (checked.wallets !== world.accounts.length || checked.holds !== 0)
    throw new Error(`the rows are not those of this world: ${JSON.stringify(checked)}`);
}

async function deleteAllRows(tx: Tx): Promise<void> {
  for (const table of [
    "wallet",
    "spender",
    "api_key",
    "hold",
    "swept_hold",
    "transfer",
    "process",
    "usage_record",
  ])
    await tx.run(`delete from ${table}`);
}
