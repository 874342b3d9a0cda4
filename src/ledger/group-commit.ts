// One queue a process. A flush starts as soon as the writer is free and no more arrive: an idle request pays for one commit
// of its own, and a busy process commits hundreds of operations at once.

import { Fault } from "../base/fault.ts";
import { isLocked, isUnavailable } from "../store/db.ts";
import { createLockedLanes, type LockedLanes } from "./locked-lanes.ts";

/** New work is refused while the queue is full; what ends work that was let in is always taken. */
export type Admission = "new" | "owed";

const BATCH_MAX = 500;
const QUEUE_MAX = 20_000;
const TURNS_MAX = 3;
const ATTEMPTS_MAX = 3;
/** How often a store that cannot be used is tried for new work, and for work that is owed: seconds, and a minute. */
const TRIES_MAX: Readonly<Record<Admission, number>> = { new: 6, owed: 64 };
const PAUSE_MS = 50;
const PAUSE_DOUBLINGS_MAX = 4;
/** What is owed and finds its rows locked is tried again after so many pauses, for half an hour: 5 s, 360 times. */
const LOCKED_PAUSES = 100;
const LOCKED_TIMES_MAX = 360;

interface Waiting<Operation, Outcome> {
  readonly operation: Operation;
  readonly admission: Admission;
  /** How often its rows were found locked. */
  lockedTimes: number;
  /** Whether it was tried, and nobody heard what became of it. */
  isDoubtful: boolean;
  readonly resolve: (outcome: Outcome) => void;
  readonly reject: (error: unknown) => void;
}

const UNTRIED = { lockedTimes: 0, isDoubtful: false } as const;

/** `isHurried` where locked rows have kept everybody waiting just before: they must not do so for each part of a batch. */
type Commit<Operation, Outcome> = (
  operations: readonly Operation[],
  isHurried: boolean,
) => Promise<readonly Outcome[]>;

export interface GroupCommit<Operation, Outcome> {
  readonly submit: (operation: Operation, admission: Admission) => Promise<Outcome>;
  /** How many operations wait. */
  readonly depth: () => number;
  /** Whether the store could not be used when it was last asked. */
  readonly isFailing: () => boolean;
  /** Resolves when everything that was submitted is committed or refused. */
  readonly idle: () => Promise<void>;
}

/** What is known of operations. */
export interface Kinds<Operation> {
  /** What takes back one that was given up, and may have been committed. */
  readonly undoOf?: (operation: Operation) => Operation | undefined;
  /** Where rows are locked by somebody else, the operations of the same lane wait, and no others. */
  readonly laneOf?: (operation: Operation) => string;
}

/**
 * `commit` may see an operation again whose first commit was not heard of, so it must know what it has done.
 */
export function createGroupCommit<Operation, Outcome>(
  commit: Commit<Operation, Outcome>,
  pauseMs = PAUSE_MS,
  { undoOf = () => undefined, laneOf = () => "" }: Kinds<Operation> = {},
): GroupCommit<Operation, Outcome> {
  let queue: Waiting<Operation, Outcome>[] = [];
  let running: Promise<void> | undefined;
  let away: Fault | undefined;
  let failing = false;
  const run = (): void => {
    // One turn of the event loop is waited for, so that all requests which arrived together share a commit.
    running ??= nextTurn().then(flushAll);
  };
  const lanes = lanesFor<Operation, Outcome>({ pauseMs, undoOf, laneOf }, (more) => {
    queue.push(...more);
    if (more.length > 0) run();
  });
  const way: Way<Operation, Outcome> = { commit, lanes };

  // A store that cannot be used fails every half of a batch alike, so the whole batch waits for it. New work waits for
  // a moment only; what is owed is tried for longer, since giving it up loses a charge.
  const commitPatiently = async (batch: readonly Waiting<Operation, Outcome>[]): Promise<void> => {
    let rest = batch;
    for (let attempt = 1; rest.length > 0; attempt++) {
      const stopped = await commitBatch(rest, way);
      for (const one of stopped?.rest ?? []) one.isDoubtful = true;
      failing = stopped !== undefined;
      if (stopped === undefined) break;
      if (attempt >= TRIES_MAX.new) {
        away = busy("the store cannot be used", stopped.cause);
        queue = refuse(queue, "new", away);
        queue.push(...undoings(stopped.rest, undoOf));
        rest = refuse(stopped.rest, "new", away);
        if (attempt >= TRIES_MAX.owed) rest = refuse(rest, "owed", away);
      } else {
        rest = stopped.rest;
      }
      const doublings = Math.min(attempt - 1, PAUSE_DOUBLINGS_MAX);
      if (rest.length > 0)
        await new Promise((resolve) => setTimeout(resolve, pauseMs * 2 ** doublings));
    }
    away = undefined;
  };

  const flushAll = async (): Promise<void> => {
    while (queue.length > 0) {
      await untilGathered(() => queue.length);
      await commitPatiently(queue.splice(0, lanes.together(queue, BATCH_MAX)));
    }
    running = undefined;
  };
  const submit = (operation: Operation, admission: Admission): Promise<Outcome> => {
    if (admission === "new" && away !== undefined) return Promise.reject(away);
    if (admission === "new" && queue.length >= QUEUE_MAX)
      return Promise.reject(busy("the ledger's queue is full"));
    const { promise: outcome, resolve, reject } = Promise.withResolvers<Outcome>();
    queue.push({ operation, admission, ...UNTRIED, resolve, reject });
    run();
    return outcome;
  };
  return {
    submit,
    depth: () => queue.length + lanes.kept(),
    isFailing: () => failing,
    idle: async () => {
      await running;
      for (; lanes.kept() > 0; await running) await lanes.empty();
    },
  };
}

// A crowd that still grows is worth another turn, since what a commit costs is shared; one alone waits for nobody.
async function untilGathered(size: () => number): Promise<void> {
  for (let turn = 0, before = 1; turn < TURNS_MAX && size() > before; turn++) {
    before = size();
    await nextTurn();
  }
}

/** New work on locked rows is refused; what is owed comes back by `queueUp`. */
function lanesFor<Operation, Outcome>(
  { pauseMs, undoOf, laneOf }: Required<Kinds<Operation>> & { readonly pauseMs: number },
  queueUp: (more: readonly Waiting<Operation, Outcome>[]) => void,
): LockedLanes<Waiting<Operation, Outcome>> {
  return createLockedLanes({
    pauseMs: pauseMs * LOCKED_PAUSES,
    laneOf: ({ operation }) => laneOf(operation),
    mayKeep: (one, cause) => {
      if (one.admission === "owed" && one.lockedTimes <= LOCKED_TIMES_MAX) return true;
      one.reject(busy("its rows are locked", cause));
      if (one.isDoubtful) queueUp(undoings([one], undoOf));
      return false;
    },
    again: queueUp,
  });
}

function busy(detail: string, cause?: unknown): Fault {
  return new Fault("overloaded", detail, { retryAfterSeconds: 1, cause });
}

/** The next turn of the event loop. */
function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Rejects what was admitted so; answers the rest. */
function refuse<Operation, Outcome>(
  waiting: readonly Waiting<Operation, Outcome>[],
  admission: Admission,
  fault: Fault,
): Waiting<Operation, Outcome>[] {
  for (const one of waiting) if (one.admission === admission) one.reject(fault);
  return waiting.filter((one) => one.admission !== admission);
}

/** The part of a batch that has no outcome yet, because the store could not be used. */
interface Stopped<Operation, Outcome> {
  readonly rest: readonly Waiting<Operation, Outcome>[];
  readonly cause: unknown;
}

/** What was tried may have been committed and its answer lost, and whoever asked for it is told that it was not. */
function undoings<Operation, Outcome>(
  tried: readonly Waiting<Operation, Outcome>[],
  undoOf: (operation: Operation) => Operation | undefined,
): readonly Waiting<Operation, Outcome>[] {
  return tried.flatMap(({ operation, admission }) => {
    const undoing = admission === "new" ? undoOf(operation) : undefined;
    return undoing === undefined
      ? []
      : [
          {
            operation: undoing,
            admission: "owed",
            ...UNTRIED,
            resolve: () => {},
            reject: () => {},
          },
        ];
  });
}

interface Way<Operation, Outcome> {
  readonly commit: Commit<Operation, Outcome>;
  readonly lanes: LockedLanes<Waiting<Operation, Outcome>>;
}

// One operation that cannot be written must not take the others with it, so a failing batch is halved.
async function commitBatch<Operation, Outcome>(
  given: readonly Waiting<Operation, Outcome>[],
  way: Way<Operation, Outcome>,
  { attempt = 1, wasLocked = false }: { attempt?: number; wasLocked?: boolean } = {},
): Promise<Stopped<Operation, Outcome> | undefined> {
  const batch = way.lanes.admit(given);
  const [first] = batch;
  if (first === undefined) return undefined;
  const isHurried = wasLocked || batch.some(way.lanes.isDue);
  try {
    const outcomes = await way.commit(
      batch.map((waiting) => waiting.operation),
      isHurried,
    );
    batch.forEach((waiting, place) => {
      const outcome = outcomes[place];
      if (outcome === undefined) waiting.reject(new Error("the batch gave no outcome"));
      else waiting.resolve(outcome);
    });
    way.lanes.open(batch);
    return undefined;
  } catch (error) {
    if (isUnavailable(error) && !isLocked(error)) return { rest: batch, cause: error };
    if (batch.length > 1) return commitHalves(batch, way, isHurried || isLocked(error));
    if (isLocked(error)) {
      first.lockedTimes += 1;
      way.lanes.shut(first, error);
      return undefined;
    }
    if (attempt < ATTEMPTS_MAX) return commitBatch(batch, way, { attempt: attempt + 1, wasLocked });
    first.reject(error);
    return undefined;
  }
}

async function commitHalves<Operation, Outcome>(
  batch: readonly Waiting<Operation, Outcome>[],
  way: Way<Operation, Outcome>,
  wasLocked: boolean,
): Promise<Stopped<Operation, Outcome> | undefined> {
  const middle = Math.ceil(batch.length / 2);
  const first = await commitBatch(batch.slice(0, middle), way, { wasLocked });
  const second = batch.slice(middle);
  if (first !== undefined) return { ...first, rest: [...first.rest, ...second] };
  return commitBatch(second, way, { wasLocked });
}
