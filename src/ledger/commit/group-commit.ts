// Group commit: one queue per process. A flush starts as soon as the writer is free and arrivals pause, so a single
// operation is committed immediately and a busy process commits hundreds at once.

import { Fault } from "../../base/fault.ts";
import { isLocked, isUnavailable } from "../../store/db.ts";
import { createLockBackoff, type LockBackoff } from "./lock-backoff.ts";

/**
 * "new" work is rejected while the queue is full or the store fails; "owed" work, such as a settlement, is always
 * admitted.
 */
type Admission = "new" | "owed";

const BATCH_MAX = 500;
const QUEUE_MAX = 20_000;
const GATHER_TICKS_MAX = 3;
/** In a busy process one tick brings enough operations for a batch, and another one would delay all of them. */
const GATHER_MAX_MS = 2;
/** After a commit of so many operations, the next one waits for more of them, as long as that commit took. */
const SHARED_MIN = 4;
const GATHER_PAUSE_MAX_MS = 10;
const ATTEMPTS_MAX = 3;
const PAUSE_MS = 50;
const PAUSE_DOUBLINGS_MAX = 4;
/**
 * How long an unavailable store is retried, in pauses: 1.5 seconds for new work, half an hour for owed work, as for locked
 * rows. It is a time because an attempt on a locked SQLite file takes seconds.
 */
const STORE_RETRY_PAUSES: Readonly<Record<Admission, number>> = { new: 30, owed: 36_000 };
const STORE_ATTEMPTS_MIN = 2;
/** How much of an attempt and its pause counts: the process may be suspended, and must then still retry owed work. */
const ATTEMPT_PAUSES_MAX = 100;
/** Owed work on locked rows is retried every 100 pauses (5 s), 360 times: for half an hour. */
const LOCK_RETRY_PAUSES = 100;
const LOCK_RETRIES_MAX = 360;

interface QueuedOperation<Operation, Outcome> {
  operation: Operation;
  readonly admission: Admission;
  /** The number of attempts that found its rows locked. */
  lockedTimes: number;
  /** True after an attempt whose outcome is unknown. */
  mayHaveCommitted: boolean;
  /** True once its caller no longer waits. */
  isDeferred: boolean;
  /** The number of times that it waited for locked rows. */
  pauses: number;
  readonly resolve: (outcome: Outcome) => void;
  readonly reject: (error: unknown) => void;
}

const NOT_ATTEMPTED = {
  lockedTimes: 0,
  mayHaveCommitted: false,
  isDeferred: false,
  pauses: 0,
} as const;

/**
 * `hasShortLockTimeout` is set if a lock timeout has delayed the batch already: it must not delay each part of it
 * again.
 */
type Commit<Operation, Outcome> = (
  operations: readonly Operation[],
  hasShortLockTimeout: boolean,
) => Promise<readonly Outcome[]>;

export interface GroupCommit<Operation, Outcome> {
  readonly submit: (operation: Operation, admission: Admission) => Promise<Outcome>;
  /** The number of waiting operations. */
  readonly queueDepth: () => number;
  /** True if the store was unavailable at the last commit. */
  readonly isFailing: () => boolean;
  /** Resolves when every submitted operation is committed or rejected. */
  readonly idle: () => Promise<void>;
}

/** What happens to owed work that cannot be committed soon: its caller gets an outcome, and it is retried without it. */
export interface Deferral<Operation, Outcome> {
  readonly afterMs: number;
  readonly outcome: Outcome;
  /** What is committed instead: a reply that its caller does not get is not charged. Usually the same operation. */
  readonly operationFor: (operation: Operation) => Operation;
  readonly onDeferred?: (operation: Operation) => void;
  readonly onCommitted: (operation: Operation, outcome: Outcome) => void;
  /** Called if the operation is abandoned. */
  readonly onLost: (operation: Operation, cause: unknown) => void;
}

export interface GroupCommitOptions<Operation, Outcome> {
  /** Without it, callers of owed work wait until it is committed or abandoned. */
  readonly deferral?: Deferral<Operation, Outcome> | undefined;
  /** An operation that undoes a rejected one that may have been committed. */
  readonly compensationFor?: (operation: Operation) => Operation | undefined;
  /** While rows are locked, only operations with the same key wait. */
  readonly lockKeyOf?: (operation: Operation) => string;
  /** For tests. */
  readonly monotonicNow?: () => number;
  /** After a commit of several operations, for as long as it took. Not with SQLite, where a commit occupies this process. */
  readonly pauseAfterCommit?: ((ms: number) => Promise<void>) | undefined;
}

const DEFAULTS = {
  deferral: undefined,
  compensationFor: () => undefined,
  lockKeyOf: () => "",
  monotonicNow: () => performance.now(),
  pauseAfterCommit: undefined,
};

/** `commit` must be idempotent: it may get an operation again whose first commit had no reply. */
export function createGroupCommit<Operation, Outcome>(
  commit: Commit<Operation, Outcome>,
  pauseMs = PAUSE_MS,
  options: GroupCommitOptions<Operation, Outcome> = {},
): GroupCommit<Operation, Outcome> {
  const all = { ...DEFAULTS, ...options };
  const { compensationFor, deferral, monotonicNow } = all;
  let queue: QueuedOperation<Operation, Outcome>[] = [];
  let running: Promise<void> | undefined;
  let unavailableFault: Fault | undefined;
  let isStoreFailing = false;
  const run = (): void => {
    // Waits for the next tick, so that all requests of this one share a commit.
    running ??= nextTick().then(flushAll);
  };
  const lockBackoff = createOperationBackoff<Operation, Outcome>({ ...all, pauseMs }, (more) => {
    if (queue.push(...more) > 0) run();
  });

  // An unavailable store would fail every half of a batch, so the whole batch is retried. Owed work is retried for
  // longer, because rejecting it loses a charge.
  const commitWithRetries = async (
    batch: readonly QueuedOperation<Operation, Outcome>[],
  ): Promise<void> => {
    let rest = batch;
    const measureRetries = createRetryTimer(pauseMs, monotonicNow);
    for (let attempts = 1; rest.length > 0; attempts++) {
      const uncommitted = await attempt({ commit, lockBackoff, deferral }, rest, () => queue);
      for (const queued of uncommitted?.rest ?? []) queued.mayHaveCommitted = true;
      // Releases succeed on a full disk, so only a new operation shows that the store works again.
      if (uncommitted !== undefined) isStoreFailing = true;
      else if (rest.some(({ admission }) => admission === "new")) isStoreFailing = false;
      if (uncommitted === undefined) break;
      rest = uncommitted.rest;
      const retriedMs = measureRetries();
      if (attempts >= STORE_ATTEMPTS_MIN && retriedMs > STORE_RETRY_PAUSES.new * pauseMs) {
        unavailableFault = overloadedFault("the store cannot be used", uncommitted.cause);
        queue = rejectAdmission(queue, "new", unavailableFault);
        queue.push(...compensations(rest, compensationFor));
        rest = rejectAdmission(rest, "new", unavailableFault);
        deferAll([...rest, ...queue], deferral, retriedMs);
        if (retriedMs > STORE_RETRY_PAUSES.owed * pauseMs)
          rest = rejectAdmission(rest, "owed", unavailableFault, deferral);
      }
      if (rest.length > 0) await sleep(pauseMs * 2 ** Math.min(attempts - 1, PAUSE_DOUBLINGS_MAX));
    }
    unavailableFault = undefined;
  };

  const flushAll = async (): Promise<void> => {
    while (queue.length > 0) {
      await waitForArrivals(() => queue.length, monotonicNow);
      const batch = queue.splice(0, lockBackoff.batchLimit(queue, BATCH_MAX));
      await pauseAfter(() => commitWithRetries(batch), batch.length, all);
    }
    running = undefined;
  };
  const submit = (operation: Operation, admission: Admission): Promise<Outcome> => {
    if (admission === "new" && (unavailableFault !== undefined || queue.length >= QUEUE_MAX))
      return Promise.reject(unavailableFault ?? overloadedFault("the ledger's queue is full"));
    const { promise: outcome, resolve, reject } = Promise.withResolvers<Outcome>();
    queue.push({ operation, admission, ...NOT_ATTEMPTED, resolve, reject });
    run();
    return outcome;
  };
  return {
    submit,
    queueDepth: () => queue.length + lockBackoff.pending(),
    isFailing: () => isStoreFailing,
    idle: async () => {
      await running;
      for (; lockBackoff.pending() > 0; await running) await lockBackoff.drained();
    },
  };
}

/** At most half of the time is commits: the slower they are, the more operations share one. */
async function pauseAfter(
  commit: () => Promise<void>,
  operations: number,
  {
    monotonicNow: now,
    pauseAfterCommit,
  }: Required<Pick<GroupCommitOptions<unknown, unknown>, "monotonicNow" | "pauseAfterCommit">>,
): Promise<void> {
  const startedAt = now();
  await commit();
  const pauseMs = Math.min(now() - startedAt, GATHER_PAUSE_MAX_MS);
  if (operations >= SHARED_MIN && pauseMs > 0) await pauseAfterCommit?.(pauseMs);
}

/** The returned function returns the sum of the times between its calls. */
function createRetryTimer(pauseMs: number, now: () => number): () => number {
  let [retriedMs, measuredAt] = [0, now()];
  return () => {
    const at = now();
    retriedMs += Math.min(at - measuredAt, ATTEMPT_PAUSES_MAX * pauseMs);
    measuredAt = at;
    return retriedMs;
  };
}

// Waits for another tick while the queue grows, because operations share the cost of a commit; a single one does not
// wait.
async function waitForArrivals(size: () => number, now: () => number): Promise<void> {
  const startedAt = now();
  for (let tick = 0, before = 1; tick < GATHER_TICKS_MAX && size() > before; tick++) {
    before = size();
    await nextTick();
    if (now() - startedAt > GATHER_MAX_MS) return;
  }
}

/** Resolves the caller of owed work, which goes on without it. */
function defer<Operation, Outcome>(
  queued: QueuedOperation<Operation, Outcome>,
  { outcome, operationFor, onDeferred }: Deferral<Operation, Outcome>,
): void {
  if (queued.isDeferred || queued.admission === "new") return;
  queued.isDeferred = true;
  queued.operation = operationFor(queued.operation);
  onDeferred?.(queued.operation);
  queued.resolve(outcome);
}

function deferAll<Operation, Outcome>(
  waiting: readonly QueuedOperation<Operation, Outcome>[],
  deferral: Deferral<Operation, Outcome> | undefined,
  waitedMs: number,
): void {
  if (deferral === undefined || waitedMs < deferral.afterMs) return;
  for (const queued of waiting) defer(queued, deferral);
}

/** An attempt may take long: a server that does not respond is noticed after 45 seconds. Callers do not wait for that. */
async function attempt<Operation, Outcome>(
  context: CommitContext<Operation, Outcome>,
  attempted: readonly QueuedOperation<Operation, Outcome>[],
  queue: () => readonly QueuedOperation<Operation, Outcome>[],
): Promise<UncommittedBatch<Operation, Outcome> | undefined> {
  const { deferral } = context;
  if (deferral === undefined) return commitBatch(attempted, context);
  const { afterMs, operationFor } = deferral;
  const timer = setInterval(() => {
    // What is attempted cannot be replaced: it may be committed.
    const kept = attempted.filter(({ operation }) => operationFor(operation) === operation);
    deferAll([...kept, ...queue()], deferral, afterMs);
  }, afterMs);
  try {
    return await commitBatch(attempted, context);
  } finally {
    clearInterval(timer);
  }
}

/** Rejects new work on locked rows; owed work comes back through `enqueue`. */
function createOperationBackoff<Operation, Outcome>(
  {
    pauseMs,
    compensationFor,
    deferral,
    lockKeyOf,
  }: Required<Omit<GroupCommitOptions<Operation, Outcome>, "monotonicNow" | "pauseAfterCommit">> & {
    readonly pauseMs: number;
  },
  enqueue: (more: readonly QueuedOperation<Operation, Outcome>[]) => void,
): LockBackoff<QueuedOperation<Operation, Outcome>> {
  return createLockBackoff({
    pauseMs: pauseMs * LOCK_RETRY_PAUSES,
    lockKeyOf: ({ operation }) => lockKeyOf(operation),
    deferOrReject: (queued, cause) => {
      if (queued.admission === "owed" && queued.lockedTimes <= LOCK_RETRIES_MAX) return "deferred";
      reject(queued, overloadedFault("the account's rows are locked", cause), deferral);
      if (queued.mayHaveCommitted) enqueue(compensations([queued], compensationFor));
      return "rejected";
    },
    onRetry: (deferred) => {
      const waitedMs = pauseMs * LOCK_RETRY_PAUSES;
      for (const queued of deferred) {
        queued.pauses += 1;
        deferAll([queued], deferral, queued.pauses * waitedMs);
      }
      enqueue(deferred);
    },
  });
}

function overloadedFault(detail: string, cause?: unknown): Fault {
  return new Fault("overloaded", detail, { retryAfterSeconds: 1, cause });
}

function nextTick(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Rejects the operations with this admission and returns the others. */
function rejectAdmission<Operation, Outcome>(
  waiting: readonly QueuedOperation<Operation, Outcome>[],
  admission: Admission,
  fault: Fault,
  deferral?: Deferral<Operation, Outcome>,
): QueuedOperation<Operation, Outcome>[] {
  for (const queued of waiting) if (queued.admission === admission) reject(queued, fault, deferral);
  return waiting.filter((queued) => queued.admission !== admission);
}

function reject<Operation, Outcome>(
  queued: QueuedOperation<Operation, Outcome>,
  error: unknown,
  deferral: Deferral<Operation, Outcome> | undefined,
): void {
  if (queued.isDeferred) deferral?.onLost(queued.operation, error);
  else queued.reject(error);
}

/** The part of a batch without an outcome, because the store was unavailable. */
interface UncommittedBatch<Operation, Outcome> {
  readonly rest: readonly QueuedOperation<Operation, Outcome>[];
  readonly cause: unknown;
}

/** An attempted operation may have been committed although its reply was lost, and its caller gets an error. */
function compensations<Operation, Outcome>(
  attempted: readonly QueuedOperation<Operation, Outcome>[],
  compensationFor: (operation: Operation) => Operation | undefined,
): readonly QueuedOperation<Operation, Outcome>[] {
  return attempted.flatMap(({ operation, admission }) => {
    const compensation = admission === "new" ? compensationFor(operation) : undefined;
    return compensation === undefined
      ? []
      : [
          {
            operation: compensation,
            admission: "owed",
            ...NOT_ATTEMPTED,
            resolve: () => {},
            reject: () => {},
          },
        ];
  });
}

interface CommitContext<Operation, Outcome> {
  readonly commit: Commit<Operation, Outcome>;
  readonly lockBackoff: LockBackoff<QueuedOperation<Operation, Outcome>>;
  readonly deferral: Deferral<Operation, Outcome> | undefined;
}

// A failing batch is split in halves, so that an operation that cannot be written fails alone.
async function commitBatch<Operation, Outcome>(
  operations: readonly QueuedOperation<Operation, Outcome>[],
  context: CommitContext<Operation, Outcome>,
  { attempt = 1, wasLocked = false }: { attempt?: number; wasLocked?: boolean } = {},
): Promise<UncommittedBatch<Operation, Outcome> | undefined> {
  const batch = context.lockBackoff.filterReady(operations);
  const [first] = batch;
  if (first === undefined) return undefined;
  const hasShortLockTimeout = wasLocked || batch.some(context.lockBackoff.isRetryDue);
  try {
    const outcomes = await context.commit(
      batch.map((waiting) => waiting.operation),
      hasShortLockTimeout,
    );
    batch.forEach((waiting, index) => {
      const outcome = outcomes[index];
      if (outcome === undefined)
        reject(waiting, new Error("the batch returned no outcome"), context.deferral);
      else if (waiting.isDeferred) context.deferral?.onCommitted(waiting.operation, outcome);
      else waiting.resolve(outcome);
    });
    context.lockBackoff.markUnlocked(batch);
    return undefined;
  } catch (error) {
    if (isUnavailable(error) && !isLocked(error)) return { rest: batch, cause: error };
    if (batch.length > 1)
      return commitHalves(batch, context, hasShortLockTimeout || isLocked(error));
    if (isLocked(error)) {
      first.lockedTimes += 1;
      context.lockBackoff.markLocked(first, error);
      return undefined;
    }
    if (attempt < ATTEMPTS_MAX)
      return commitBatch(batch, context, { attempt: attempt + 1, wasLocked });
    reject(first, error, context.deferral);
    return undefined;
  }
}

async function commitHalves<Operation, Outcome>(
  batch: readonly QueuedOperation<Operation, Outcome>[],
  context: CommitContext<Operation, Outcome>,
  wasLocked: boolean,
): Promise<UncommittedBatch<Operation, Outcome> | undefined> {
  const middle = Math.ceil(batch.length / 2);
  const first = await commitBatch(batch.slice(0, middle), context, { wasLocked });
  const second = batch.slice(middle);
  if (first !== undefined) return { ...first, rest: [...first.rest, ...second] };
  return commitBatch(second, context, { wasLocked });
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
