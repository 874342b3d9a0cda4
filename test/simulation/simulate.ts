// Runs one seed: three gateways, their clients and the faults between them, and then a time without faults in which
// everything must come to its end.

import { Database } from "bun:sqlite";
import { LEASE_STATE } from "../../src/ledger/credit-lease.ts";
import { insertKeySpend } from "../../src/ledger/ledger-rows.ts";
import { deposit, openWallet } from "../../src/ledger/ledger.ts";
import { type Db, type Row, text, type Tx, type Value, type Values } from "../../src/store/db.ts";
import { migrate } from "../../src/store/migrate.ts";
import { promoDeposit } from "../ledger/fixtures.ts";
import {
  AMOUNT,
  CALL_ACCOUNTS,
  CLAIMED_ACCOUNTS,
  type ClientWorld,
  emptyObservations,
  type Observations,
  PEOPLE,
  runCaller,
  runClaim,
  runOperators,
  runPayer,
  runSponsor,
} from "./clients.ts";
import {
  type GatewayModel,
  type GatewayModelDeps,
  RESTART_MS,
  type SimulatedCall,
  START,
  startGatewayModel,
} from "./gateway-model.ts";
import {
  BALANCE_TABLES,
  checkBalances,
  checkEnd,
  checkWaiting,
  type Query,
  TRACK_POSTED,
} from "./invariants.ts";
import { createStoreEngine, type StoreEngine } from "./store-engine.ts";
import { createStoreModel, type StoreModel } from "./store-model.ts";
import { type Actor, createWorld, type World } from "./world.ts";

const GATEWAYS = 3;
const CALLERS = 8;
const FAULTS_MS = 80_000;
/** Longer than the silence of a dead process, a lock timeout and every retry of an unavailable store. */
const QUIET_MS = 150_000;
/** A key that was claimed by a process which died before its hold is taken over after five minutes. */
const ABANDONED_KEYS_MS = 400_000;
const QUIET_STEP_MS = 10_000;
const FAULT_INTERVAL_MS = 5_000;
const LAG_MAX_MS = 5_000;
const CLOCK_JUMP_MAX_MS = 7_200_000;
/** Longer than the silence after which a process counts as dead, with a part of the time beside it. */
const FREEZE_MS = { min: 30_000, max: 75_000 };

export interface SimulationResult {
  readonly seed: number;
  readonly problems: readonly string[];
  readonly events: number;
  readonly served: number;
  /** Calls whose hold was decided on a lease. */
  readonly leased: number;
  /** Whole replies that were collected from a stream, and those of them that were cut. */
  readonly collected: number;
  readonly cut: number;
  /** Equal for two runs of a seed. */
  readonly hash: number;
}

interface Simulation {
  readonly world: World;
  readonly query: Query;
  readonly engine: StoreEngine;
  readonly observed: Observations;
  readonly store: StoreModel;
  readonly gateways: readonly GatewayModel[];
}

/** Writes that no gateway makes. */
const OUTSIDE: Actor = { name: "outside", life: 0, frozenUntil: 0, clockOffsetMs: 0 };

type Fault = (simulation: Simulation, gateway: GatewayModel) => void;

const FAULTS: Readonly<Record<string, Fault>> = {
  kill: ({ world }, gateway) => gateway.kill(world.random.integer(30_000)),
  // Their starts sweep the same holds at the same time.
  killAll: ({ gateways }) => {
    for (const gateway of gateways) gateway.kill(RESTART_MS);
  },
  freeze: ({ world }, gateway) => gateway.freeze(freezeMs(world)),
  freezeAtSettlement: ({ world }, gateway) => {
    gateway.freezesAtSettlementMs = freezeMs(world);
  },
  outage: ({ world, store }) => store.setOutage(world.now() + world.random.integer(10_000)),
  clock: ({ world }, gateway) => {
    gateway.clockOffsetMs = (world.random.next() - 0.5) * 2 * CLOCK_JUMP_MAX_MS;
  },
  // Others release its holds at once, so it cannot repeat a charge that a promoted standby has lost.
  deleteProcess: ({ store }, gateway) => {
    gateway.interruptions += 1;
    const { name } = gateway;
    const write = store
      .dbOf(OUTSIDE)
      .write((tx) => tx.run("delete from process where name = ?", [name]));
    write.catch(() => {});
  },
  errors: ({ world, store }) => {
    const rate = world.random.next() / 20;
    store.setFaults({
      serializationFailure: rate * world.random.next(),
      connectionLost: rate * world.random.next(),
      commitLost: rate,
      commitReplyLost: 3 * rate,
      slowStatement: rate * world.random.next(),
    });
  },
  slow: ({ world, store }) =>
    store.setFaults({ ...NO_FAULTS, slowStatement: world.random.next() / 5 }),
};

function freezeMs({ random }: World): number {
  return FREEZE_MS.min + random.integer(FREEZE_MS.max - FREEZE_MS.min);
}

const NO_FAULTS = {
  serializationFailure: 0,
  connectionLost: 0,
  commitLost: 0,
  commitReplyLost: 0,
  slowStatement: 0,
};

/** A standby that is some seconds behind is promoted: what was committed since is gone. */
function promoteLaggingStandby({ world, store, engine, query, observed }: Simulation): void {
  const restore = engine.save();
  world.schedule(undefined, LAG_MAX_MS * world.random.next(), () => {
    world.trace("promote");
    store.dropAll();
    const before = findCalls(query);
    restore();
    const after = findCalls(query);
    for (const [id, amount] of before)
      if (amount > (after.get(id) ?? -1n)) observed.lostCalls.add(id);
    store.setOutage(world.now() + world.random.integer(LAG_MAX_MS));
  });
}

/** The calls that the store knows, and what each holds or has cost. If its raise was lost, it holds less. */
function findCalls(query: Query): ReadonlyMap<string, bigint> {
  const rows = query(
    `select id, cast(amount as text) as amount from hold
      union select id, '0' from swept_hold
      union select id, cast(cost_nano as text) from usage_record`,
  );
  return new Map(rows.map((row) => [text(row, "id"), BigInt(text(row, "amount"))]));
}

export interface Simulator {
  readonly run: (seed: number) => SimulationResult;
}

export async function createSimulator(): Promise<Simulator> {
  const database = new Database(":memory:");
  await migrate(plainDb(database), START);
  database.run(TRACK_POSTED);
  const engine = createStoreEngine(database);
  return { run: (seed) => runSeed(seed, engine) };
}

function runSeed(seed: number, engine: StoreEngine): SimulationResult {
  const world = createWorld(seed);
  engine.reset();
  return world.inside(() => simulate(seed, world, engine));
}

function simulate(seed: number, world: World, engine: StoreEngine): SimulationResult {
  const problems = new Set<string>();
  const query = (sql: string, params: Values = []): readonly Row[] =>
    engine.read(undefined, sql, params);
  const onCommit = (tables: ReadonlySet<string>): void => {
    if (problems.size > 0 || tables.isDisjointFrom(BALANCE_TABLES)) return;
    for (const problem of checkBalances(query)) problems.add(`after a commit: ${problem}`);
  };
  const observed = emptyObservations();
  // Its acknowledged payments and claims are lost too, so there are none.
  const isPromoted = world.random.chance(0.2);
  const onServed: GatewayModelDeps["onServed"] = (gateway, call, served) => {
    const { id: callId, accountId } = call;
    const { cost, holdId, interruptions } = served;
    observed.costs.set(callId, cost);
    observed.servers.set(callId, () => gateway.interruptions === interruptions);
    if (isPromoted) return;
    const rows = query(
      "select 1 from hold where id = ? and account_id = ? union all select 1 from usage_record where id = ? and account_id = ? limit 1",
      [holdId, accountId, callId, accountId],
    );
    if (rows.length === 0) problems.add(`${callId} was served without a hold or a charge`);
  };
  const store = createStoreModel({ world, engine, onCommit });
  insertFixtures(world, store);
  let [leased, collected] = [0, 0];
  const onLeased = ({ id, accountId, keyId }: SimulatedCall): void => {
    leased += 1;
    for (const stopped of [accountId, keyId])
      if (observed.stopped.has(stopped))
        problems.add(`${id} began on a lease after ${stopped} was stopped`);
  };
  const onRaise = watchRaises(world, query, (problem) => problems.add(problem));
  const onCollected: GatewayModelDeps["onCollected"] = (callId, cost, isCut) => {
    collected += 1;
    // Its process may die before it is served; a repetition then gets the reply that is stored.
    observed.costs.set(callId, cost);
    if (isCut) observed.cuts.add(callId);
  };
  const gateways = Array.from({ length: GATEWAYS }, (_, index) =>
    startGatewayModel({ world, store, onServed, onCollected, onLeased, onRaise }, `p${index}`),
  );
  const clients: ClientWorld = { world, gateways, observed };
  const begin = world.now();
  for (let caller = 0; caller < CALLERS; caller++)
    void runCaller(clients, caller, begin + FAULTS_MS);
  // Without new credits, each hold that is released too early is spent by another call.
  const isScarce = !isPromoted && world.random.chance(0.5);
  if (!isScarce) void runSponsor(clients, begin + FAULTS_MS);
  if (!isPromoted) {
    for (let payer = 0; payer < (isScarce ? 1 : 2); payer++)
      void runPayer(clients, payer, FAULTS_MS);
    for (let claim = 0; claim < 4; claim++) void runClaim(clients, FAULTS_MS);
  }
  if (world.hasLeases && !isPromoted) runOperators(clients, FAULTS_MS);
  const simulation = { world, store, gateways, engine, query, observed };
  scheduleFaults(simulation, begin + FAULTS_MS);
  if (isPromoted)
    // Late, because a process that is killed afterwards writes no charge again.
    world.schedule(undefined, FAULTS_MS - LAG_MAX_MS * (1 + world.random.next()), () =>
      promoteLaggingStandby(simulation),
    );
  world.runUntil(begin + FAULTS_MS);
  store.setFaults(NO_FAULTS);
  store.setOutage(0);
  for (const gateway of gateways) gateway.freezesAtSettlementMs = 0;
  if (!isPromoted)
    for (const problem of findStaleHolds(world, { gateways, query })) problems.add(problem);
  const isQuiet = (): boolean =>
    observed.waiting.size === 0 &&
    gateways.every((gateway) => gateway.frozenUntil < world.now() && !gateway.isBusy()) &&
    query("select id from hold limit 1").length === 0;
  runUntilQuiet(world, QUIET_MS, isQuiet);
  // The key of a call whose hold was lost is taken over later.
  if (!isPromoted) for (const problem of checkWaiting(observed, false)) problems.add(problem);
  runUntilQuiet(world, ABANDONED_KEYS_MS, isQuiet);
  for (const row of query("select id from hold where lease is not null"))
    problems.add(`${text(row, "id")} is a lease without calls`);
  const isSurvivor = (id: string): boolean => observed.servers.get(id)?.() ?? false;
  if (isPromoted)
    for (const id of observed.served.keys()) if (!isSurvivor(id)) observed.lostCalls.add(id);
  for (const gateway of gateways) gateway.kill(0);
  world.runUntil(world.now() + QUIET_MS / 10);
  let isChecked = false;
  void checkEnd(query, observed).then((found) => {
    isChecked = true;
    for (const problem of found) problems.add(problem);
  });
  world.runUntil(world.now());
  world.schedule(undefined, 0, () => {});
  world.runUntil(world.now() + 1);
  if (!isChecked) problems.add("the check of the ledger did not end");
  return {
    seed,
    problems: [...problems],
    events: world.events(),
    served: observed.served.size,
    leased,
    collected,
    cut: observed.cuts.size,
    hash: world.hash(),
  };
}

/** Longer than a recall takes while statements are slow. */
const OLD_LEASE_MS = 15_000;

/** A raise that gets less than all has recalled the leases of its account, unless a transaction of its process failed. */
function watchRaises(
  world: World,
  query: Query,
  onProblem: (problem: string) => void,
): GatewayModelDeps["onRaise"] {
  const seenAt = new Map<string, number>();
  const findOpen = (accountId: string): readonly string[] =>
    query(`select id from hold where account_id = ? and lease = ${LEASE_STATE.open}`, [
      accountId,
    ]).map((row) => text(row, "id"));
  return (gateway, accountId) => {
    if (!world.hasLeases) return () => {};
    const { interruptions, failures } = gateway;
    const open = findOpen(accountId);
    for (const id of open) if (!seenAt.has(id)) seenAt.set(id, world.now());
    const isOld = (id: string): boolean => (seenAt.get(id) ?? 0) <= world.now() - OLD_LEASE_MS;
    const old = new Set(open.filter(isOld));
    return (callId) => {
      if (gateway.interruptions !== interruptions || gateway.failures !== failures) return;
      for (const id of findOpen(accountId))
        if (old.has(id)) onProblem(`${callId} could not raise its hold, and ${id} is open`);
    };
  };
}

const STALE_HOLD_CHECKS_MS = 10_000;

/** Holds of running processes whose calls have ended: a rejected hold that was committed is released at once. */
function findStaleHolds(
  world: World,
  { gateways, query }: Pick<Simulation, "gateways" | "query">,
): readonly string[] {
  const find = (): readonly string[] =>
    gateways.flatMap(({ name, running, frozenUntil }) => {
      if (running === undefined || frozenUntil > world.now()) return [];
      const { epoch, openCalls, ledger } = running;
      if (ledger.queueDepth() > 0) return [];
      const rows = query("select id from hold where process = ? and epoch = ? and lease is null", [
        name,
        epoch,
      ]);
      return rows.map((row) => text(row, "id")).filter((id) => !openCalls.has(id));
    });
  // Faults end just now.
  world.runUntil(world.now() + STALE_HOLD_CHECKS_MS);
  const suspects = new Set(find());
  world.runUntil(world.now() + STALE_HOLD_CHECKS_MS);
  return find()
    .filter((id) => suspects.has(id))
    .map((id) => `${id} has ended and its hold is open`);
}

/** Ends early, because heartbeats and sweeps without work would be most of the time. */
function runUntilQuiet(world: World, maxMs: number, isQuiet: () => boolean): void {
  const end = world.now() + maxMs;
  do world.runUntil(Math.min(end, world.now() + QUIET_STEP_MS));
  while (world.now() < end && !isQuiet());
}

function scheduleFaults(simulation: Simulation, end: number): void {
  const { world, gateways } = simulation;
  world.schedule(undefined, world.random.integer(FAULT_INTERVAL_MS * 2), () => {
    if (world.now() > end) return;
    const name = world.random.pick(Object.keys(FAULTS));
    world.trace(name);
    FAULTS[name]?.(simulation, world.random.pick(gateways));
    scheduleFaults(simulation, end);
  });
}

/** Accounts with credit for a few calls at a time. */
function insertFixtures(world: World, store: StoreModel): void {
  const db = store.dbOf(OUTSIDE);
  // With leases, some accounts are busy until the end.
  const credit = (world.hasLeases ? world.random.pick([3n, 10n, 100n]) : 3n) * AMOUNT;
  world.schedule(undefined, 0, () => {
    void db.write(async (tx) => {
      for (const id of CLAIMED_ACCOUNTS) await insertAccount(tx, id);
      for (const id of CALL_ACCOUNTS) await deposit(tx, promoDeposit(`d.${id}`, id, credit, START));
      if (world.hasLeases) for (const id of CALL_ACCOUNTS) await insertKey(tx, `${id}.other`, id);
      for (const id of PEOPLE)
        await tx.run(
          "insert into person (id, issuer, subject, email, created_at, signed_in_at) values (?, 'https://id.example', ?, ?, ?, ?)",
          [id, id, `${id}@example.com`, START, START],
        );
    });
  });
  world.runUntil(1_000);
}

async function insertAccount(tx: Tx, id: string): Promise<void> {
  await tx.run("insert into account (id, created_at, created_from) values (?, ?, 'simulation')", [
    id,
    START,
  ]);
  await openWallet(tx, id);
  await insertKey(tx, `${id}.key`, id);
}

async function insertKey(tx: Tx, keyId: string, accountId: string): Promise<void> {
  await tx.run(
    "insert into api_key (id, account_id, hash, prefix, last4, created_at) values (?, ?, ?, 'pst', '0000', ?)",
    [keyId, accountId, keyId, START],
  );
  await insertKeySpend(tx, keyId, accountId, START);
}

/** For the migrations. */
function plainDb(database: Database): Db {
  const all = async (sql: string, params: Values = []): Promise<readonly Row[]> =>
    database.query<Row, Value[]>(sql).all(...params);
  const reader = {
    kind: "sqlite" as const,
    all,
    get: async (sql: string, params?: Values) => (await all(sql, params))[0],
    run: async (sql: string, params: Values = []) =>
      database.query<Row, Value[]>(sql).run(...params).changes,
  };
  // Safe: a migration only runs statements.
  return {
    ...reader,
    write: (work: (tx: Tx) => Promise<unknown>) => work(reader as unknown as Tx),
  } as unknown as Db;
}
