// Rows that somebody else keeps locked, such as an operator's own transaction, must hold up nobody whose rows are free. So
// the operations that concern them, their lane, are set aside; after a pause one of them is tried again, alone.

export interface LockBackoff<One> {
  /** Those of a batch that may be tried now; the others are set aside. */
  readonly filterReady: (batch: readonly One[]) => readonly One[];
  /** It was tried alone, and its rows were locked. */
  readonly markLocked: (one: One, cause: unknown) => void;
  /** These were written. */
  readonly markUnlocked: (batch: readonly One[]) => void;
  /** Whether its lane was locked, and is to be tried again. */
  readonly isRetryDue: (one: One) => boolean;
  /** How many of the first that wait may be tried together: a lane that was locked is tried by one alone. */
  readonly batchLimit: (queue: readonly One[], max: number) => number;
  readonly pending: () => number;
  /** Resolves when nothing is kept. */
  readonly drained: () => Promise<void>;
}

export interface LockBackoffOptions<One> {
  readonly pauseMs: number;
  readonly lockKeyOf: (one: One) => string;
  /** Whether it is kept until its lane is tried again; if not, it was refused. */
  readonly canDefer: (one: One, cause: unknown) => boolean;
  /** Given what was kept of a lane when its pause is over. */
  readonly onRetry: (deferred: readonly One[]) => void;
}

interface LockedGroup<One> {
  readonly deferred: One[];
  pause: Promise<void> | undefined;
  cause: unknown;
}

export function createLockBackoff<One>(options: LockBackoffOptions<One>): LockBackoff<One> {
  const { pauseMs, lockKeyOf, canDefer, onRetry } = options;
  const groups = new Map<string, LockedGroup<One>>();
  const isRetryDue = (one: One): boolean => {
    if (groups.size === 0) return false;
    const group = groups.get(lockKeyOf(one));
    return group !== undefined && group.pause === undefined;
  };
  const defer = (group: LockedGroup<One>, one: One): void => {
    if (canDefer(one, group.cause)) group.deferred.push(one);
  };
  const schedulePause = (group: LockedGroup<One>): Promise<void> =>
    new Promise<void>((resolve) => setTimeout(resolve, pauseMs)).then(() => {
      group.pause = undefined;
      onRetry(group.deferred.splice(0));
    });
  return {
    filterReady: (batch) => {
      if (groups.size === 0) return batch;
      return batch.filter((one) => {
        const group = groups.get(lockKeyOf(one));
        if (group?.pause === undefined) return true;
        defer(group, one);
        return false;
      });
    },
    markLocked: (one, cause) => {
      const group = groups.get(lockKeyOf(one)) ?? { deferred: [], pause: undefined, cause };
      groups.set(lockKeyOf(one), group);
      group.cause = cause;
      group.pause ??= schedulePause(group);
      defer(group, one);
    },
    markUnlocked: (batch) => {
      for (const one of batch) if (isRetryDue(one)) groups.delete(lockKeyOf(one));
    },
    batchLimit: (queue, max) => {
      const due = groups.size === 0 ? -1 : queue.findIndex(isRetryDue);
      return due < 0 ? max : Math.min(max, Math.max(due, 1));
    },
    isRetryDue,
    pending: () => [...groups.values()].reduce((sum, { deferred }) => sum + deferred.length, 0),
    drained: async () => {
      for (;;) {
        const waiting = [...groups.values()].flatMap(({ deferred, pause }) =>
          deferred.length > 0 && pause !== undefined ? [pause] : [],
        );
        if (waiting.length === 0) return;
        await Promise.all(waiting);
      }
    },
  };
}
