// One queue a process. A flush starts as soon as the writer is free: an idle request pays for one commit of its own,
// and a busy process commits hundreds of operations at once.

import { Fault } from "../base/fault.ts";

const BATCH_MAX = 500;
const QUEUE_MAX = 20_000;
const ATTEMPTS_MAX = 3;

interface Waiting<Operation, Outcome> {
  readonly operation: Operation;
  readonly resolve: (outcome: Outcome) => void;
  readonly reject: (error: unknown) => void;
}

export interface GroupCommit<Operation, Outcome> {
  readonly submit: (operation: Operation) => Promise<Outcome>;
  /** How many operations wait. */
  readonly depth: () => number;
  /** Resolves when everything that was submitted is committed or refused. */
  readonly idle: () => Promise<void>;
}

export function createGroupCommit<Operation, Outcome>(
  commit: (operations: readonly Operation[]) => Promise<readonly Outcome[]>,
): GroupCommit<Operation, Outcome> {
  let queue: Waiting<Operation, Outcome>[] = [];
  let running: Promise<void> | undefined;

  const flushAll = async (): Promise<void> => {
    while (queue.length > 0) {
      const batch = queue.slice(0, BATCH_MAX);
      queue = queue.slice(BATCH_MAX);
      await commitBatch(batch, commit);
    }
    running = undefined;
  };
  const submit = (operation: Operation): Promise<Outcome> => {
    if (queue.length >= QUEUE_MAX) {
      return Promise.reject(
        new Fault("overloaded", "the ledger's queue is full", { retryAfterSeconds: 1 }),
      );
    }
    const outcome = new Promise<Outcome>((resolve, reject) =>
      queue.push({ operation, resolve, reject }),
    );
    // One turn of the event loop is waited for, so that all requests which arrived together share a commit.
    running ??= new Promise<void>((resolve) => setImmediate(resolve)).then(flushAll);
    return outcome;
  };
  return { submit, depth: () => queue.length, idle: () => running ?? Promise.resolve() };
}

async function commitBatch<Operation, Outcome>(
  batch: readonly Waiting<Operation, Outcome>[],
  commit: (operations: readonly Operation[]) => Promise<readonly Outcome[]>,
  attempt = 1,
): Promise<void> {
  try {
    const outcomes = await commit(batch.map((waiting) => waiting.operation));
    batch.forEach((waiting, place) => {
      const outcome = outcomes[place];
      if (outcome === undefined) waiting.reject(new Error("the batch gave no outcome"));
      else waiting.resolve(outcome);
    });
  } catch (error) {
    await retry(batch, commit, attempt, error);
  }
}

// One operation that cannot be written must not take the others with it, so a failing batch is halved.
async function retry<Operation, Outcome>(
  batch: readonly Waiting<Operation, Outcome>[],
  commit: (operations: readonly Operation[]) => Promise<readonly Outcome[]>,
  attempt: number,
  error: unknown,
): Promise<void> {
  if (batch.length === 1 && attempt >= ATTEMPTS_MAX) {
    batch[0]?.reject(error);
    return;
  }
  if (batch.length === 1) return commitBatch(batch, commit, attempt + 1);
  const middle = Math.ceil(batch.length / 2);
  await commitBatch(batch.slice(0, middle), commit);
  await commitBatch(batch.slice(middle), commit);
}
