// Gateways serve calls while they, their store and the connections between them fail. After each fault the ledger must be
// exact, and at the end nothing may hang or stay open. Faults and calls come from the seed; their timing does not.

import { startEpoch } from "../../src/ledger/ledger.ts";
import { sweepHolds } from "../../src/ledger/sweep.ts";
import { type Db, text } from "../../src/store/db.ts";
import { verifyLedger } from "../../src/verification/verify.ts";
import { type Random, randomFor } from "../fuzz/random.ts";
import { eventually, eventuallyPasses } from "../support/eventually.ts";
import { startCitusTarget } from "./citus-target.ts";
import { CLIENTS } from "./clients.ts";
import { startPostgresTarget } from "./postgres-target.ts";
import { startSqliteTarget } from "./sqlite-target.ts";
import { CALLERS, CALLS_PER_FAULT, type ChaosTarget, HANG_MS } from "./target.ts";

const TARGETS = {
  sqlite: startSqliteTarget,
  postgres: startPostgresTarget,
  citus: startCitusTarget,
} as const;

export type ChaosStore = keyof typeof TARGETS;

/** Those that need nothing which is not installed with the packages. */
export const DEFAULT_STORES: readonly ChaosStore[] = ["sqlite", "postgres"];
export const STORES: readonly ChaosStore[] = [...DEFAULT_STORES, "citus"];

/** Before the next call of a caller whose call was refused. While a gateway restarts, its calls do not count. */
const REFUSED_PAUSE_MS = 20;

/** Clients whose calls the gateway may count as abandoned. */
const ABANDONING: ReadonlySet<string> = new Set([
  "vanishes",
  "half-closes",
  "pipelines",
  "provider fault",
]);
const ABANDON_INTERVAL_MS = 500;

export interface ChaosOptions {
  readonly store: ChaosStore;
  readonly seed: number;
  readonly faults: number;
  /** Only faults with this word in their name. */
  readonly only?: string;
  /** Whether all calls are of one key: on PostgreSQL, gateways then decide more holds on credit leases. */
  readonly hasBusyKey?: boolean;
  readonly onFault?: (name: string) => void;
  /** Called once the ledger was verified after a fault. */
  readonly onVerified?: (ledger: InspectedLedger) => void;
}

interface InspectedLedger {
  readonly problems: readonly string[];
  readonly openLeases: number;
}

export interface ChaosResult {
  readonly failures: readonly string[];
  readonly calls: number;
  /** Calls whose whole reply arrived. */
  readonly completed: number;
  /** Credit leases that were open after the faults. */
  readonly leases: number;
}

interface ChaosRun {
  readonly seed: number;
  readonly target: ChaosTarget;
  readonly completed: string[];
  readonly failures: string[];
  calls: number;
  abandonedAt: number;
  isOver: boolean;
}

export async function runChaos({
  store,
  seed,
  faults,
  only = "",
  hasBusyKey = false,
  onFault,
  onVerified,
}: ChaosOptions): Promise<ChaosResult> {
  const random = randomFor(seed, -1);
  const target = await TARGETS[store](random, hasBusyKey);
  const names = Object.keys(target.faults).filter((name) => name.includes(only));
  let leases = 0;
  const run: ChaosRun = {
    seed,
    target,
    completed: [],
    failures: [],
    calls: 0,
    abandonedAt: 0,
    isOver: false,
  };
  // However long that takes on a busy machine: a call that hangs is reported, and counts.
  const waitForCalls = async (count: number): Promise<void> => {
    const until = run.calls + count;
    await eventually(() => run.calls >= until, { timeoutMs: Infinity });
  };
  try {
    const callers = Array.from({ length: CALLERS }, (_, caller) => runCaller(run, caller));
    for (const name of faultOrder(names, random, faults)) {
      await waitForCalls(CALLS_PER_FAULT);
      onFault?.(name);
      await target.faults[name]?.(waitForCalls);
      const ledger = await inspectLedger(target);
      const { problems, openLeases } = ledger;
      onVerified?.(ledger);
      leases += openLeases;
      run.failures.push(...problems.map((problem) => `after "${name}": ${problem}`));
    }
    // Calls are served again.
    const until = run.completed.length + CALLS_PER_FAULT;
    await eventually(() => run.completed.length >= until, { timeoutMs: Infinity });
    run.isOver = true;
    await Promise.all(callers);
    await stopAndCheck(run);
  } finally {
    target.end();
  }
  const { failures, calls, completed } = run;
  return { failures, calls, completed: completed.length, leases };
}

/** Every fault once, in an order from the seed, before one repeats: a short run has most of them. */
function faultOrder(faults: readonly string[], random: Random, count: number): readonly string[] {
  const names: string[] = [];
  while (faults.length > 0 && names.length < count) {
    const left = [...faults];
    while (left.length > 0) names.push(...left.splice(random.integer(left.length), 1));
  }
  return names.slice(0, count);
}

async function runCaller(run: ChaosRun, caller: number): Promise<void> {
  const { urls, keys } = run.target;
  for (let call = 0; !run.isOver; call++) {
    const random = randomFor(run.seed, caller + call * CALLERS);
    const name = clientFor(run, random.pickFrom(Object.keys(CLIENTS)) ?? "");
    const called = { url: random.pickFrom(urls) ?? "", key: random.pickFrom(keys) ?? "" };
    const hung = Promise.withResolvers<string>();
    const timer = setTimeout(() => hung.resolve("hung"), HANG_MS);
    const served = CLIENTS[name]?.(called, random).catch((error) =>
      isConnectionRefused(error) ? "refused" : undefined,
    );
    const outcome = await Promise.race([served, hung.promise]);
    clearTimeout(timer);
    if (outcome === "hung")
      run.failures.push(`a call hung: ${name}, caller ${caller}, call ${call}`);
    else if (outcome === undefined || outcome === "refused") await Bun.sleep(REFUSED_PAUSE_MS);
    else run.completed.push(outcome);
    if (outcome !== "refused") run.calls += 1;
  }
}

/** A gateway refuses the calls of a key that abandoned 60 within a minute. */
function clientFor(run: ChaosRun, name: string): string {
  if (!ABANDONING.has(name)) return name;
  const at = performance.now();
  if (at - run.abandonedAt < ABANDON_INTERVAL_MS) return "json";
  run.abandonedAt = at;
  return name;
}

function isConnectionRefused(error: unknown): boolean {
  return (
    error instanceof Error &&
    "code" in error &&
    (error.code === "ECONNREFUSED" || error.code === "ConnectionRefused")
  );
}

/** In one snapshot, while calls are served; again if the store is not available yet. */
async function inspectLedger({ openStore }: ChaosTarget): Promise<InspectedLedger> {
  const db = openStore();
  let problems: readonly string[] = [];
  let openLeases = 0;
  try {
    await eventuallyPasses(async () => {
      openLeases = (await db.all("select id from hold where lease is not null")).length;
      ({ problems } = await verifyLedger(db));
    });
    return { problems, openLeases };
  } finally {
    await db.close();
  }
}

async function stopAndCheck({ target, failures, completed }: ChaosRun): Promise<void> {
  for (const url of target.urls)
    await eventually(async () => (await heldByRequests(url)) === 0).catch(() =>
      failures.push(`bytes or ledger operations of ended requests remain at ${url}`),
    );
  await eventually(async () => (await openStreams(target.simulatorUrl)) === 0).catch(() =>
    failures.push("streams of the provider are open"),
  );
  failures.push(...(await target.stop()));
  const db = target.openStore();
  failures.push(...(await findStoreProblems(db, completed)));
  await db.close();
}

const HELD_BY_REQUESTS = /^postern_(?:request_body_bytes|ledger_queue) (\d+)$/gm;

/** Sum of the gauges that are zero without requests. */
async function heldByRequests(url: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const values = [...text.matchAll(HELD_BY_REQUESTS)].map(([, value]) => Number(value));
  return values.length === 2 ? values.reduce((sum, value) => sum + value, 0) : Number.NaN;
}

async function openStreams(simulatorUrl: string): Promise<number> {
  const response = await fetch(`${simulatorUrl}/sim/stats`);
  // Safe: without the number the condition never becomes true, which is reported.
  return ((await response.json()) as { open_streams: number }).open_streams;
}

async function findStoreProblems(db: Db, completed: readonly string[]): Promise<readonly string[]> {
  // A start ends the epoch of the process before, as after a crash.
  for (const row of await db.all("select name from process"))
    await startEpoch(db, text(row, "name"), Date.now());
  // A transaction of two phases that a crash interrupted keeps its rows locked until it is recovered.
  await eventually(async () => {
    await sweepHolds(db, Date.now());
    return (await db.all("select id from hold")).length === 0;
  }).catch(() => {});
  const { problems, checked } = await verifyLedger(db);
  const rows = await db.all("select id from usage_record");
  const recorded = new Set(rows.map((row) => text(row, "id")));
  return [
    ...problems,
    ...(checked.holds === 0 ? [] : [`${checked.holds} holds are open`]),
    ...completed
      .filter((id) => !recorded.has(id))
      .map((id) => `call ${id} was served and not recorded`),
  ];
}
