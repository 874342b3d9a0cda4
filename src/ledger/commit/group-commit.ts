// One queue a process. A flush starts as soon as the writer is free and no more arrive: an idle request pays for one commit
// of its own, and a busy process commits hundreds of operations at once.

import { Fault } from "../../base/fault.ts";
import { isLocked, isUnavailable } from "../../store/db.ts";
import { createLockBackoff, type LockBackoff } from "./lock-backoff.ts";

/** New work is refused while the queue is full; what ends work that was let in is always taken. */
export type Admission = "new" | "owed";

const BATCH_MAX = 500;
const QUEUE_MAX = 20_000;
const GATHER_TICKS_MAX = 3;
const ATTEMPTS_MAX = 3;
/** How often a store that cannot be used is tried for new work, and for work that is owed: seconds, and a minute. */
const TRIES_MAX: Readonly<Record<Admission, number>> = { new: 6, owed: 64 };
const PAUSE_MS = 50;
const PAUSE_DOUBLINGS_MAX = 4;
/** What is owed and finds its rows locked is tried again after so many pauses, for half an hour: 5 s, 360 times. */
const LOCK_RETRY_PAUSES = 100;
const LOCK_RETRIES_MAX = 360;

interface QueuedOperation<Operation, Outcome> {
  readonly operation: Operation;
  readonly admission: Admission;
  /** How often its rows were found locked. */
  lockedTimes: number;
  /** Whether it was tried, and nobody heard what became of it. */
  mayHaveCommitted: boolean;
  readonly resolve: (outcome: Outcome) => void;
  readonly reject: (error: unknown) => void;
}

const NOT_ATTEMPTED = { lockedTimes: 0, mayHaveCommitted: false } as const;

/** `isHurried` where locked rows have kept everybody waiting just before: they must not do so for each part of a batch. */
type Commit<Operation, Outcome> = (
  operations: readonly Operation[],
  hasShortLockTimeout: boolean,
) => Promise<readonly Outcome[]>;

export interface GroupCommit<Operation, Outcome> {
  readonly submit: (operation: Operation, admission: Admission) => Promise<Outcome>;
  /** How many operations wait. */
  readonly queueDepth: () => number;
  /** Whether the store could not be used when it was last asked. */
  readonly isFailing: () => boolean;
  /** Resolves when everything that was submitted is committed or refused. */
  readonly idle: () => Promise<void>;
}

/** What is known of operations. */
export interface GroupCommitOptions<Operation> {
  /** What takes back one that was given up, and may have been committed. */
  readonly compensationFor?: (operation: Operation) => Operation | undefined;
  /** Where rows are locked by somebody else, the operations of the same lane wait, and no others. */
  readonly lockKeyOf?: (operation: Operation) => string;
}

/**
 * `commit` may see an operation again whose first commit was not heard of, so it must know what it has done.
 */
export function createGroupCommit<Operation, Outcome>(
  commit: Commit<Operation, Outcome>,
  pauseMs = PAUSE_MS,
  { compensationFor = () => undefined, lockKeyOf = () => "" }: GroupCommitOptions<Operation> = {},
): GroupCommit<Operation, Outcome> {
  let queue: QueuedOperation<Operation, Outcome>[] = [];
  let running: Promise<void> | undefined;
  let unavailableFault: Fault | undefined;
  let isStoreFailing = false;
  const run = (): void => {
    // One turn of the event loop is waited for, so that all requests which arrived together share a commit.
    running ??= nextTick().then(flushAll);
  };
  const lockBackoff = createOperationBackoff<Operation, Outcome>(
    { pauseMs, compensationFor, lockKeyOf },
    (more) => {
      queue.push(...more);
      if (more.length > 0) run();
    },
  );
  const context: CommitContext<Operation, Outcome> = { commit, lockBackoff };

  // A store that cannot be used fails every half of a batch alike, so the whole batch waits for it. New work waits for
  // a moment only; what is owed is tried for longer, since giving it up loses a charge.
  const commitWithRetries = async (
    batch: readonly QueuedOperation<Operation, Outcome>[],
  ): Promise<void> => {
    let rest = batch;
    for (let attempt = 1; rest.length > 0; attempt++) {
      const uncommitted = await commitBatch(rest, context);
      for (const one of uncommitted?.rest ?? []) one.mayHaveCommitted = true;
      isStoreFailing = uncommitted !== undefined;
      if (uncommitted === undefined) break;
      if (attempt >= TRIES_MAX.new) {
        unavailableFault = overloadedFault("the store cannot be used", uncommitted.cause);
        queue = rejectAdmission(queue, "new", unavailableFault);
        queue.push(...compensations(uncommitted.rest, compensationFor));
        rest = rejectAdmission(uncommitted.rest, "new", unavailableFault);
        if (attempt >= TRIES_MAX.owed) rest = rejectAdmission(rest, "owed", unavailableFault);
      } else {
        rest = uncommitted.rest;
      }
      const doublings = Math.min(attempt - 1, PAUSE_DOUBLINGS_MAX);
      if (rest.length > 0) await sleep(pauseMs * 2 ** doublings);
    }
    unavailableFault = undefined;
  };

  const flushAll = async (): Promise<void> => {
    while (queue.length > 0) {
      await waitForArrivals(() => queue.length);
      await commitWithRetries(queue.splice(0, lockBackoff.batchLimit(queue, BATCH_MAX)));
    }
    running = undefined;
  };
  const submit = (operation: Operation, admission: Admission): Promise<Outcome> => {
    const isNew = admission === "new";
    if (isNew && unavailableFault !== undefined) return Promise.reject(unavailableFault);
    if (isNew && queue.length >= QUEUE_MAX)
      return Promise.reject(overloadedFault("the ledger's queue is full"));
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

// A crowd that still grows is worth another turn, since what a commit costs is shared; one alone waits for nobody.
async function waitForArrivals(size: () => number): Promise<void> {
  for (let tick = 0, before = 1; tick < GATHER_TICKS_MAX && size() > before; tick++) {
    before = size();
    await nextTick();
  }
}

/** New work on locked rows is refused; what is owed comes back by `queueUp`. */
function createOperationBackoff<Operation, Outcome>(
  {
    pauseMs,
    compensationFor,
    lockKeyOf,
  }: Required<GroupCommitOptions<Operation>> & { readonly pauseMs: number },
  enqueue: (more: readonly QueuedOperation<Operation, Outcome>[]) => void,
): LockBackoff<QueuedOperation<Operation, Outcome>> {
  return createLockBackoff({
    pauseMs: pauseMs * LOCK_RETRY_PAUSES,
    lockKeyOf: ({ operation }) => lockKeyOf(operation),
    canDefer: (one, cause) => {
      if (one.admission === "owed" && one.lockedTimes <= LOCK_RETRIES_MAX) return true;
      one.reject(overloadedFault("its rows are locked", cause));
      if (one.mayHaveCommitted) enqueue(compensations([one], compensationFor));
      return false;
    },
    onRetry: enqueue,
  });
}

function overloadedFault(detail: string, cause?: unknown): Fault {
  return new Fault("overloaded", detail, { retryAfterSeconds: 1, cause });
}

/** The next turn of the event loop. */
function nextTick(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Rejects what was admitted so; answers the rest. */
function rejectAdmission<Operation, Outcome>(
  waiting: readonly QueuedOperation<Operation, Outcome>[],
  admission: Admission,
  fault: Fault,
): QueuedOperation<Operation, Outcome>[] {
  for (const one of waiting) if (one.admission === admission) one.reject(fault);
  return waiting.filter((one) => one.admission !== admission);
}

/** The part of a batch that has no outcome yet, because the store could not be used. */
interface UncommittedBatch<Operation, Outcome> {
  readonly rest: readonly QueuedOperation<Operation, Outcome>[];
  readonly cause: unknown;
}

/** What was tried may have been committed and its answer lost, and whoever asked for it is told that it was not. */
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
}

// One operation that cannot be written must not take the others with it, so a failing batch is halved.
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
      if (outcome === undefined) waiting.reject(new Error("the batch gave no outcome"));
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
    first.reject(error);
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

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
