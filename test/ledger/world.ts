// Runs a world of histories against the real ledger, and holds every answer and every row against the model. Acts that
// happen at the same time may have happened in any order, so the model looks for one that explains what was seen.

import { getBudgets, setBudgets } from "../../src/ledger/budgets.ts";
import type { HoldOutcome } from "../../src/ledger/decide.ts";
import { deposit, heartbeat } from "../../src/ledger/ledger.ts";
import { sweepHolds } from "../../src/ledger/sweep.ts";
import { verifyLedger } from "../../src/ledger/verify.ts";
import type { Db, Tx } from "../../src/store/db.ts";
import {
  type AdminPlan,
  type CallPlan,
  type EventPlan,
  KEYS,
  PROCESSES,
  type WorldPlan,
} from "./history.ts";
import { act, type Act, balances, budgetUsed, type Clock, emptyModel } from "./model.ts";
import { type Account, explain, keysOf, readRows, riddle, rowsOf, type Thread } from "./explain.ts";
import type { Counts } from "./counts.ts";
import { newProcess, type Process } from "./weather.ts";
import { openAccount, usageRecord } from "./record.ts";

const SWEEP: Thread = [
  { acts: [{ kind: "pick" }], heard: [null] },
  { acts: [{ kind: "sweep" }], heard: [null] },
  { acts: [{ kind: "forget" }], heard: [null] },
];
const PACE = { intervalMs: 40, burst: 2 };

interface World {
  readonly db: Db;
  readonly tag: string;
  readonly counts: Counts;
  readonly processes: Process[];
  readonly accounts: readonly Account[];
  readonly seen: number[];
  now: number;
}

export async function runWorld(
  db: Db,
  plan: WorldPlan,
  tag: string,
  counts: Counts,
): Promise<void> {
  const now = Date.UTC(2026, 0, 28, 23, 59, 59, 900);
  const accounts = plan.histories.map((history, place): Account => ({
    id: `${tag}.a${place}`,
    plan: history,
    asked: [],
    model: emptyModel(now, KEYS),
  }));
  const world: World = { db, tag, counts, processes: [], accounts, seen: [], now };
  await db.write((tx) => forgetEverything(tx));
  await db.write(async (tx) => {
    for (const account of accounts) await openAccount(tx, account.id, keysOf(account), now);
  });
  for (let place = 0; place < PROCESSES; place++) {
    world.processes.push(await newProcess(db, `${tag}.p${place}`, now));
    world.seen.push(now);
  }
  await Promise.all(accounts.map((account) => start(world, account)));
  const rounds = Math.max(...accounts.map((account) => account.plan.rounds.length));
  for (let round = 0; round < rounds; round++)
    await runRound(world, plan.events[round] ?? { kind: "sweep" }, round);
  await endWorld(world);
  counts.histories += accounts.length;
}

async function start({ db, now }: World, account: Account): Promise<void> {
  for (const bucket of ["promo", "paid"] as const) {
    const amount = BigInt(account.plan[bucket]);
    if (amount === 0n) continue;
    const what = { kind: "deposit", id: `${account.id}.start.${bucket}`, bucket, amount } as const;
    await makeDeposit(db, account, what, now);
    [account.model] = act(account.model, what, { now, epochs: [], seen: [] });
  }
}

async function runRound(world: World, event: EventPlan, round: number): Promise<void> {
  const sweeps = await beginRound(world, event);
  const clock: Clock = {
    now: world.now,
    epochs: world.processes.map((one) => one.epoch),
    seen: world.seen,
  };
  const silent = world.processes
    .map(({ name, epoch }, place) => ({ name, epoch, seenAt: world.seen[place] ?? 0 }))
    .filter(({ seenAt }) => seenAt < world.now - 30_000);
  if (round % 2 === 0) await getKnown(world);
  const sweeping = sweeps ? sweepHolds(world.db, world.now, silent) : Promise.resolve(0);
  const threads = await Promise.all(
    world.accounts.map((account) => runAccount(world, account, round)),
  );
  await sweeping;
  const rows = await readRows(world.db);
  for (const [place, account] of world.accounts.entries()) {
    const mine = [...(threads[place] ?? []), ...(sweeps ? [SWEEP] : [])];
    const seen = rows.get(account.id) ?? "no rows";
    const explained = explain(
      account.model,
      mine,
      clock,
      (model) => rowsOf(account, model) === seen,
    );
    if (explained === undefined) throw new Error(riddle(account, mine, clock, { seen, round }));
    account.model = explained;
  }
  await endRound(world, event);
}

/** Has a ledger read what holds rest on, by asking for the end of calls that there are not: a store that keeps that knows it then. */
async function getKnown({ accounts, processes, now }: World): Promise<void> {
  const asked = processes.find(({ weather }) => weather === "fine");
  if (asked === undefined) return;
  const ends = accounts.flatMap((account) =>
    keysOf(account).map((keyId) => {
      const owner = { accountId: account.id, keyId, now };
      return asked.ledger.settle({ ...owner, id: `${account.id}.none`, cost: 0n });
    }),
  );
  for (const end of await Promise.all(ends))
    if (end.status !== "already") throw new Error("a call that was never made has ended");
}

/** Answers whether the sweeper runs at the same time. */
async function beginRound(world: World, event: EventPlan): Promise<boolean> {
  world.now += 3;
  if (event.kind === "time") world.now += event.ms;
  if (event.kind === "silence") world.now += 31_000;
  if (event.kind === "restart") await restart(world, event.process);
  for (const [place, process] of world.processes.entries()) {
    process.weather = "fine";
    if ("process" in event && event.process === place) {
      if (event.kind === "silence") continue;
      if (event.kind === "reply lost") process.weather = "reply lost";
      if (event.kind === "crash")
        process.weather = event.committed ? "crash after commit" : "crash before commit";
    }
    if (!(await heartbeat(world.db, process.name, process.epoch, world.now)))
      throw new Error("a living process is not known");
    world.seen[place] = world.now;
  }
  return event.kind === "sweep" || event.kind === "silence" || event.kind === "restart";
}

async function endRound(world: World, event: EventPlan): Promise<void> {
  if (event.kind === "sweep") world.counts.sweeps += 1;
  if (event.kind === "reply lost") world.counts.repeats += 1;
  if (event.kind !== "crash") return;
  world.counts.crashes += 1;
  await restart(world, event.process);
}

async function restart(world: World, place: number): Promise<void> {
  const name = world.processes[place]?.name ?? "";
  world.processes[place] = await newProcess(world.db, name, world.now);
  world.seen[place] = world.now;
}

/** Answers what was done by each that acts on its own, in its order. */
async function runAccount(
  world: World,
  account: Account,
  round: number,
): Promise<readonly Thread[]> {
  const plan = account.plan.rounds[round];
  if (plan === undefined) return [];
  const known = [...account.asked];
  const running = world.processes.map((process, place) =>
    runCalls(
      world,
      account,
      process,
      (plan.calls[place] ?? []).map((call) => toAct(world, account, place, { call, known })),
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
  world: World,
  account: Account,
  process: Process,
  acts: readonly Act[],
): Promise<Thread> {
  if (acts.length === 0) return [];
  const { weather } = process;
  const answers = acts.map((what) => runCall(world, account, process, what));
  if (weather === "fine") return inTheirOrder(acts, answers);
  const unheard = { acts, heard: acts.map(() => null) };
  if (weather === "reply lost") return [unheard, { acts, heard: await allOf(answers) }];
  await process.died.promise;
  return weather === "crash after commit" ? [unheard] : [];
}

// What is decided at once stands alone, and comes before what goes into a batch together.
async function inTheirOrder(
  acts: readonly Act[],
  answers: readonly (string | Promise<string>)[],
): Promise<Thread> {
  const thread: Thread[number][] = [];
  const later: number[] = [];
  for (const [place, what] of acts.entries()) {
    const answer = answers[place];
    if (typeof answer === "string") thread.push({ acts: [what], heard: [answer] });
    else later.push(place);
  }
  if (later.length === 0) return thread;
  const heard = await allOf(later.map((place) => answers[place] ?? ""));
  return [...thread, { acts: later.flatMap((place) => acts[place] ?? []), heard }];
}

function allOf(answers: readonly (string | Promise<string>)[]): Promise<readonly string[]> {
  return Promise.all(answers.map((answer) => Promise.resolve(answer)));
}

function toAct(
  world: World,
  account: Account,
  process: number,
  { call, known }: { call: CallPlan; known: readonly string[] },
): Act {
  if (call.kind === "hold") {
    const id = `${account.id}.h${account.asked.length}`;
    account.asked.push(id);
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
  world: World,
  account: Account,
  process: Process,
  what: Act,
): string | Promise<string> {
  if (what.kind === "hold") return runHold(world, account, process, what);
  if (what.kind === "settle") return runSettle(world, account, process, what);
  throw new Error("not a call");
}

function runHold(
  world: World,
  account: Account,
  { ledger }: Process,
  what: Act & { kind: "hold" },
): string | Promise<string> {
  world.counts.holds += 1;
  const { id, amount, expiresAt } = what;
  const request = {
    id,
    accountId: account.id,
    keyId: keysOf(account)[what.key] ?? "",
    amount,
    now: world.now,
    expiresAt,
    ...(what.minimum === null ? {} : { minimum: what.minimum }),
    ...(what.pace === null ? {} : { pace: PACE }),
    ...(what.openMax === null ? {} : { openCallsMax: what.openMax }),
  };
  const count = (outcome: HoldOutcome): string => {
    if (outcome.status !== "held") world.counts.refusals += 1;
    if (outcome.status === "budget") world.counts.overBudget += 1;
    return inWords(outcome);
  };
  const now = ledger.holdNow(request);
  if (now === undefined) return ledger.hold(request).then(count);
  world.counts.heldAtOnce += 1;
  return count(now);
}

function inWords(outcome: HoldOutcome): string {
  switch (outcome.status) {
    case "held":
      return `held ${outcome.amount}`;
    case "insufficient_credits":
      return `insufficient_credits ${outcome.available} ${outcome.posted}`;
    case "frozen":
      return `frozen ${outcome.owed}`;
    case "key_limit":
      return `key_limit ${outcome.room}`;
    case "budget":
      return `budget ${outcome.blocked.window} ${outcome.blocked.room}`;
    case "key_refused":
      return `key_refused ${outcome.why}`;
    case "too_fast":
      return `too_fast ${outcome.retryAfterMs}`;
    case "too_many_open":
      return `too_many_open ${outcome.open}`;
  }
}

async function runSettle(
  world: World,
  account: Account,
  { ledger }: Process,
  what: Act & { kind: "settle" },
): Promise<string> {
  world.counts.settles += 1;
  const { now } = world;
  const { id, cost, byok } = what;
  const keyId = keysOf(account)[account.model.holds.get(id)?.key ?? 0] ?? "";
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
  world: World,
  account: Account,
  plan: AdminPlan,
  round: number,
): Promise<Thread> {
  const { db, now } = world;
  if (plan.kind === "deposit") {
    const again = plan.again && account.plan.promo > 0;
    const id = again ? `${account.id}.start.promo` : `${account.id}.d${round}`;
    const what = { kind: "deposit", id, bucket: plan.bucket, amount: BigInt(plan.amount) } as const;
    return [{ acts: [what], heard: [String(await makeDeposit(db, account, what, now))] }];
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
  const keyId = keysOf(account)[plan.key] ?? "";
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
  return [{ acts: [{ kind: "key", key: plan.key, change: changes[plan.kind] }], heard: [null] }];
}

async function setBudget(
  { db, now, counts }: World,
  account: Account,
  { day, month }: AdminPlan & { kind: "budget" },
): Promise<Thread[number]> {
  const change = {
    ...(day === undefined ? {} : { day: day === null ? null : BigInt(day) }),
    ...(month === undefined ? {} : { month: month === null ? null : BigInt(month) }),
  };
  await db.write((tx) => setBudgets(tx, account.id, change, now));
  counts.budgets += 1;
  return { acts: [{ kind: "budget", change }], heard: [null] };
}

function makeDeposit(
  db: Db,
  account: Account,
  { id, bucket, amount }: Act & { kind: "deposit" },
  now: number,
): Promise<boolean> {
  const from = bucket === "promo" ? "system:promo_expense" : "system:clearing";
  return db.write((tx) =>
    deposit(tx, { id, accountId: account.id, bucket, from, amount, kind: "grant", ref: id, now }),
  );
}

/** Every process is started anew and swept: nothing may stay held, and all must add up. */
async function endWorld(world: World): Promise<void> {
  for (let place = 0; place < PROCESSES; place++) await restart(world, place);
  const clock: Clock = {
    now: world.now,
    epochs: world.processes.map((one) => one.epoch),
    seen: world.seen,
  };
  await sweepHolds(world.db, world.now);
  const rows = await readRows(world.db);
  for (const account of world.accounts) {
    const model = explain(
      account.model,
      [SWEEP],
      clock,
      (state) => rowsOf(account, state) === rows.get(account.id),
    );
    if (model === undefined)
      throw new Error(
        riddle(account, [SWEEP], clock, { seen: rows.get(account.id) ?? "", round: -1 }),
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

async function forgetEverything(tx: Tx): Promise<void> {
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
