// Runs the items of batches as calls of low priority. A batch is run by one process at a time. An item is pending until the
// transaction of its charge, or of its error, ends it: what a crash interrupts is run again, and only one run can end it.

import { endedKeyFault, Fault, type FaultCode } from "../base/fault.ts";
import { newId } from "../base/id.ts";
import { isDue, SECOND_MS } from "../base/time.ts";
import { requireScope } from "../http/steps/authenticate.ts";
import type { CallInput } from "../inference/lifecycle/call.ts";
import { isUnavailable } from "../store/db.ts";
import type { ProviderRunDeps, RunControl } from "./at-provider/provider-job.ts";
import { runProviderBatch } from "./at-provider/run-provider-batch.ts";
import { openSealer, type Sealer } from "./batch-encryption.ts";
import {
  type Batch,
  claimBatch,
  findWaiting,
  readOwned,
  releaseBatch,
  releaseBatches,
} from "./batch-rows.ts";
import { type BatchEnd, type FinishDeps, finishBatch } from "./finish-batch.ts";
import { itemInput } from "./item-call.ts";
import { endInError, toBatchItem } from "./item-ends.ts";
import { countFailure, isPending, type PendingItem, readPending } from "./item-rows.ts";
import { createSlots, type Slot, type Slots } from "./slots.ts";

/** Calls of batches in this process, of a batch, and batches at a time. */
const RUNNING_MAX = 64;
const RUNNING_PER_BATCH_MAX = 16;
const BATCHES_MAX = 32;
/** A batch that can do nothing for longer yields until then. */
const SHORT_WAIT_MS = 5 * SECOND_MS;
/** Batches of one account at a time, so that those of others do not wait for it. */
const BATCHES_PER_ACCOUNT_MAX = 8;
/** Batches that providers run: nearly all of them wait. */
const PROVIDER_BATCHES_MAX = 500;
const PROVIDER_BATCHES_PER_ACCOUNT_MAX = 50;
/** Submissions and results of such batches that are in memory at a time. */
const EXCLUSIVE_MAX = 4;
const PAGE_ITEMS = 64;
/** How long a batch waits at most before it looks again whether it was canceled, has expired, or may go on. */
const WAIT_MS = 250;
const REFRESH_MS = SECOND_MS;
/** Of a batch that failed, or whose account is frozen. */
const FAILED_PAUSE_MS = 15 * SECOND_MS;
const PAUSE_MAX_MS = 30 * SECOND_MS;
/** So often an item is run again after its provider has failed. */
const FAILURES_MAX = 3;

export interface BatchRunnerDeps extends ProviderRunDeps, Pick<FinishDeps, "endResponse"> {
  readonly infer: (input: CallInput) => Promise<Response>;
  /** Whether calls of connected callers use all that the process can serve. */
  readonly isBusy: () => boolean;
  /** Batches of a kind at a time; fewer for tests. */
  readonly slotsMax?: number | undefined;
}

export interface BatchRunner {
  /** Begins to run batches that no process runs. */
  readonly claim: () => Promise<void>;
  /** Starts no further item. */
  readonly stop: () => void;
  /** Resolves once the running items have ended, and others may run the batches. */
  readonly whenIdle: () => Promise<void>;
}

interface QueuedItem extends PendingItem {
  /** Not before this time. */
  readonly at: number;
}

interface BatchRun {
  readonly batch: Batch;
  readonly sealer: Sealer;
  readonly running: Set<Promise<void>>;
  queue: QueuedItem[];
  readonly retried: QueuedItem[];
  /** The last position that was read. */
  after: number;
  isRead: boolean;
  pausedUntil: number;
  refreshedAt: number;
  end: BatchEnd | "lost" | undefined;
  /** Set if it yields: when it may go on. */
  dueAt: number | undefined;
}

export function createBatchRunner(deps: BatchRunnerDeps): BatchRunner {
  const { db, now, process, epoch, slotsMax } = deps;
  const state: RunnerState = { running: 0, isStopping: false, wake: createWake() };
  const stopping = new AbortController();
  // Apart from `state.wake`, which each item wakes.
  const pauses = createWake();
  const wait = (ms: number): Promise<void> =>
    state.isStopping ? Promise.resolve() : pauses.wait(ms);
  const control = { signal: stopping.signal, wait, exclusively: createLimit(EXCLUSIVE_MAX) };
  const gateway: BatchKind = {
    by: "gateway",
    slots: createSlots(slotsMax ?? BATCHES_MAX, BATCHES_PER_ACCOUNT_MAX, now),
    run: (batch, slot) => runBatch(deps, state, batch, slot),
  };
  const provider: BatchKind = {
    by: "provider",
    slots: createSlots(slotsMax ?? PROVIDER_BATCHES_MAX, PROVIDER_BATCHES_PER_ACCOUNT_MAX, now),
    run: (batch, slot) => runAtProvider(deps, control, batch, slot),
  };
  const { claim, works } = createClaims(deps, state, wait);
  let claiming: Promise<void> = Promise.resolve();
  return {
    claim: () => {
      claiming = claiming
        .catch(() => {})
        .then(async () => {
          for (const kind of [gateway, provider]) await claim(kind);
        });
      return claiming;
    },
    stop: () => {
      state.isStopping = true;
      stopping.abort();
      state.wake.all();
      pauses.all();
    },
    whenIdle: async () => {
      await claiming.catch(() => {});
      await Promise.all(works.values());
      await db.write((tx) => releaseBatches(tx, { process, epoch }));
    },
  };
}

/** Batches that are run in one way. */
interface BatchKind {
  readonly by: "gateway" | "provider";
  readonly slots: Slots;
  /** Returns when the batch may go on if it yields. */
  readonly run: (batch: Batch, slot: Slot) => Promise<number | undefined>;
}

interface Claims {
  readonly claim: (kind: BatchKind) => Promise<void>;
  /** By batch. One that is being released is not claimed: a repeated release would end its next run. */
  readonly works: ReadonlyMap<string, Promise<void>>;
}

function createClaims(
  { db, log, now, process, epoch }: BatchRunnerDeps,
  state: RunnerState,
  wait: (ms: number) => Promise<void>,
): Claims {
  const owner = { process, epoch };
  const works = new Map<string, Promise<void>>();
  const track = (id: string, work: Promise<void>): void => {
    works.set(id, work);
    void work.finally(() => works.delete(id));
  };
  const release = async (id: string, dueAt: number): Promise<void> => {
    while (!state.isStopping)
      try {
        return await db.write((tx) => releaseBatch(tx, id, owner, dueAt));
      } catch (cause) {
        log.error("a batch was not released", { batch: id, cause });
        await wait(FAILED_PAUSE_MS);
      }
  };
  const begin = ({ slots, run }: BatchKind, batch: Batch): void => {
    const slot = slots.take(batch.accountId);
    const work = run(batch, slot)
      .catch((cause: unknown) => {
        log.error("a batch failed", { batch: batch.id, cause });
        // It is tried again later, perhaps by another process.
        return now() + FAILED_PAUSE_MS;
      })
      .then((dueAt) => (dueAt === undefined ? undefined : release(batch.id, dueAt)))
      .finally(slot.release);
    track(batch.id, work);
  };
  const claim = async (kind: BatchKind): Promise<void> => {
    const { by, slots } = kind;
    const free = slots.free();
    const filter = { ...slots.filter(), limit: Math.max(1, free), now: now() };
    const found = await findWaiting(db, by, filter);
    slots.setWanted(free === 0 && found.length > 0);
    for (const { id } of free === 0 ? [] : found) {
      if (state.isStopping) return;
      if (works.has(id)) continue;
      try {
        const batch = await db.write((tx) => claimBatch(tx, id, owner));
        if (batch !== undefined) begin(kind, batch);
      } catch (error) {
        // The claim may be committed: no process would run the batch.
        track(id, release(id, now()));
        throw error;
      }
    }
  };
  return { claim, works };
}

/** Returns when the batch may go on if it yields. */
async function runAtProvider(
  deps: BatchRunnerDeps,
  control: RunControl,
  batch: Batch,
  slot: Slot,
): Promise<number | undefined> {
  const end = await runProviderBatch(deps, control, batch, slot.mustYield);
  if (typeof end === "number") return end;
  if (end !== undefined && end !== "lost") await finishBatch(deps, batch, end);
  return undefined;
}

/** Runs at most so many tasks at a time. */
function createLimit(max: number): RunControl["exclusively"] {
  let running = 0;
  const waiting: (() => void)[] = [];
  return async (task) => {
    if (running >= max) await new Promise<void>((resolve) => waiting.push(resolve));
    running += 1;
    try {
      return await task();
    } finally {
      running -= 1;
      waiting.shift()?.();
    }
  };
}

interface RunnerState {
  running: number;
  isStopping: boolean;
  readonly wake: Wake;
}

/** Returns when the batch may go on if it yields. */
async function runBatch(
  deps: BatchRunnerDeps,
  state: RunnerState,
  batch: Batch,
  slot: Slot,
): Promise<number | undefined> {
  const run: BatchRun = {
    batch,
    sealer: openSealer(deps.kek, batch, batch.dataKey),
    running: new Set(),
    queue: [],
    retried: [],
    after: -1,
    isRead: false,
    pausedUntil: 0,
    refreshedAt: Number.NEGATIVE_INFINITY,
    end: undefined,
    dueAt: undefined,
  };
  const { now } = deps;
  while (!state.isStopping) {
    await refresh(deps, run);
    if (run.end === undefined && slot.mustYield()) run.dueAt ??= now();
    if (run.end !== undefined || run.dueAt !== undefined) break;
    const item = canStart(deps, state, run) ? await nextItem(deps, run) : undefined;
    if (item !== undefined) start(deps, state, run, item);
    else if (isDone(run)) run.end = "completed";
    else if (run.running.size === 0 && run.pausedUntil > now() + SHORT_WAIT_MS)
      run.dueAt = run.pausedUntil;
    else await state.wake.wait(WAIT_MS);
  }
  if (run.dueAt !== undefined) slot.release();
  await Promise.all(run.running);
  if (run.end !== undefined && run.end !== "lost") await finishBatch(deps, batch, run.end);
  return run.dueAt;
}

/** Whether the batch goes on: it may be canceled, expired, or taken over by another process. */
async function refresh(deps: BatchRunnerDeps, run: BatchRun): Promise<void> {
  const { db, now, isFrozen, process, epoch } = deps;
  const { id, accountId, expiresAt } = run.batch;
  if (Math.abs(now() - run.refreshedAt) < REFRESH_MS) return;
  run.refreshedAt = now();
  const owned = await readOwned(db, id, { process, epoch });
  if (owned === undefined) run.end = "lost";
  else if (owned.status === "canceling") run.end = "canceled";
  else if (now() >= expiresAt) run.end = "expired";
  else if (await isFrozen(accountId)) run.dueAt = now() + FAILED_PAUSE_MS;
}

function canStart({ isBusy, now }: BatchRunnerDeps, state: RunnerState, run: BatchRun): boolean {
  if (state.running >= RUNNING_MAX || run.running.size >= RUNNING_PER_BATCH_MAX) return false;
  return isDue(run.pausedUntil, now(), PAUSE_MAX_MS) && !isBusy();
}

function isDone({ isRead, queue, retried, running }: BatchRun): boolean {
  return isRead && queue.length + retried.length + running.size === 0;
}

async function nextItem(
  { db, now }: BatchRunnerDeps,
  run: BatchRun,
): Promise<QueuedItem | undefined> {
  const due = run.retried.findIndex(({ at }) => isDue(at, now(), PAUSE_MAX_MS));
  const [retried] = due === -1 ? [] : run.retried.splice(due, 1);
  if (retried !== undefined) return retried;
  if (run.queue.length === 0 && !run.isRead) {
    const read = await readPending(db, run.batch.id, { after: run.after, limit: PAGE_ITEMS });
    run.queue = read.map((item) => ({ ...item, at: 0 }));
    run.after = read.at(-1)?.position ?? run.after;
    run.isRead = read.length === 0;
  }
  return run.queue.shift();
}

function start(deps: BatchRunnerDeps, state: RunnerState, run: BatchRun, item: QueuedItem): void {
  state.running += 1;
  const work = runItem(deps, run, item)
    .catch((cause: unknown) => {
      const { position } = item;
      deps.log.error("an item of a batch is run again", { batch: run.batch.id, position, cause });
      run.retried.push({ ...item, at: deps.now() + SECOND_MS });
    })
    .finally(() => {
      state.running -= 1;
      run.running.delete(work);
      state.wake.all();
    });
  run.running.add(work);
}

async function runItem(deps: BatchRunnerDeps, run: BatchRun, item: QueuedItem): Promise<void> {
  const { findKey, infer } = deps;
  const { keyId, endpoint, headers } = run.batch;
  const now = deps.now();
  const requestId = newId("req", now);
  try {
    const caller = await findKey(keyId, now);
    if (caller === undefined) throw endedKeyFault("the batch's key was revoked or has expired");
    requireScope({ scope: "models:write" }, caller);
    const text = run.sealer.open(`request/${item.position}`, item.sealedRequest);
    const batchItem = toBatchItem(run, item);
    await infer(itemInput({ endpoint, headers, caller, text, requestId, now, batchItem }));
  } catch (error) {
    // Without the store, nothing is known of the item.
    if (isUnavailable(error)) throw error;
    const fault = error instanceof Fault ? error : unexpectedFault(deps, run, item, error);
    const delayMs = retryDelay(fault, item.failures);
    if (delayMs === undefined) return endInError(deps.db, run, item, { fault, requestId });
    const isFailure = FAILURES.has(fault.code);
    // Another process, which was taken for dead, has ended it: each further call would cost and could not be charged.
    if (!(await isOpen(deps, run, item, isFailure))) return;
    if (!isFailure) run.pausedUntil = deps.now() + delayMs;
    const failures = item.failures + (isFailure ? 1 : 0);
    run.retried.push({ ...item, failures, at: deps.now() + delayMs });
  }
}

/** Whether the item has not ended. Stores a failure, so that it counts in the next run of the batch. */
async function isOpen(
  { db }: BatchRunnerDeps,
  { batch: { id } }: BatchRun,
  { position }: QueuedItem,
  isFailure: boolean,
): Promise<boolean> {
  return isFailure
    ? await db.write((tx) => countFailure(tx, id, position))
    : await isPending(db, id, position);
}

/** An item that the gateway fails at ends after some repetitions, too: else it would be repeated until its batch expires. */
function unexpectedFault(
  { log }: BatchRunnerDeps,
  { batch: { id } }: BatchRun,
  { position }: QueuedItem,
  cause: unknown,
): Fault {
  log.error("an item of a batch failed unexpectedly", { batch: id, position, cause });
  return new Fault("internal", "an item of a batch failed unexpectedly", { cause });
}

/** The gateway, the key or the account takes no call now: the whole batch waits. */
const WAITS: ReadonlySet<FaultCode> = new Set(["rate_limited", "overloaded", "workspace_frozen"]);
const FAILURES: ReadonlySet<FaultCode> = new Set([
  "upstream_error",
  "upstream_timeout",
  "internal",
  "conflict",
]);

/** Undefined for an error that the item ends with. */
function retryDelay({ code, status, options }: Fault, failures: number): number | undefined {
  if (code === "workspace_frozen") return FAILED_PAUSE_MS;
  if (WAITS.has(code)) return Math.min(PAUSE_MAX_MS, (options.retryAfterSeconds ?? 1) * SECOND_MS);
  const canPass = FAILURES.has(code) && (status >= 500 || status === 409);
  return canPass && failures < FAILURES_MAX ? SECOND_MS * 2 ** failures : undefined;
}

interface Wake {
  /** Resolves after this time, or when `all` is called. */
  readonly wait: (ms: number) => Promise<void>;
  readonly all: () => void;
}

function createWake(): Wake {
  const waiting = new Set<() => void>();
  return {
    wait: (ms) =>
      new Promise((resolve) => {
        const end = (): void => {
          clearTimeout(timer);
          waiting.delete(end);
          resolve();
        };
        const timer = setTimeout(end, ms);
        waiting.add(end);
      }),
    all: () => {
      for (const end of waiting) end();
    },
  };
}
