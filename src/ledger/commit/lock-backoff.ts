// Backoff on locked rows. Rows that are locked for long, such as by an operator's transaction, must only delay the
// operations on these rows. Operations are grouped by lock key (the account); after a pause, one of a locked group is
// retried alone.

export interface LockBackoff<Item> {
  /** Returns the items of a batch that may be tried now, and defers or rejects the others. */
  readonly filterReady: (batch: readonly Item[]) => readonly Item[];
  /** Call after an attempt with this item alone found its rows locked. */
  readonly markLocked: (item: Item, cause: unknown) => void;
  /** Call after these items were written. */
  readonly markUnlocked: (batch: readonly Item[]) => void;
  /** True if the pause of the item's locked group is over. */
  readonly isRetryDue: (item: Item) => boolean;
  /** How many of the first items may share a batch: an item whose retry is due is tried alone. */
  readonly batchLimit: (queue: readonly Item[], max: number) => number;
  /** The number of deferred items. */
  readonly pending: () => number;
  /** Resolves when no items are deferred. */
  readonly drained: () => Promise<void>;
}

export interface LockBackoffOptions<Item> {
  readonly pauseMs: number;
  readonly lockKeyOf: (item: Item) => string;
  /** Decides what happens to an item of a locked group, and rejects it if it cannot wait. */
  readonly deferOrReject: (item: Item, cause: unknown) => "deferred" | "rejected";
  /** Called with the deferred items of a group after its pause. */
  readonly onRetry: (deferred: readonly Item[]) => void;
}

interface LockedGroup<Item> {
  readonly deferred: Item[];
  pause: Promise<void> | undefined;
  cause: unknown;
}

export function createLockBackoff<Item>(options: LockBackoffOptions<Item>): LockBackoff<Item> {
  const { pauseMs, lockKeyOf, deferOrReject, onRetry } = options;
  const groups = new Map<string, LockedGroup<Item>>();
  const isRetryDue = (item: Item): boolean => {
    if (groups.size === 0) return false;
    const group = groups.get(lockKeyOf(item));
    return group !== undefined && group.pause === undefined;
  };
  const defer = (group: LockedGroup<Item>, item: Item): void => {
    if (deferOrReject(item, group.cause) === "deferred") group.deferred.push(item);
  };
  const schedulePause = (group: LockedGroup<Item>): Promise<void> =>
    new Promise<void>((resolve) => setTimeout(resolve, pauseMs)).then(() => {
      group.pause = undefined;
      onRetry(group.deferred.splice(0));
    });
  return {
    filterReady: (batch) => {
      if (groups.size === 0) return batch;
      return batch.filter((item) => {
        const group = groups.get(lockKeyOf(item));
        if (group?.pause === undefined) return true;
        defer(group, item);
        return false;
      });
    },
    markLocked: (item, cause) => {
      const group = groups.get(lockKeyOf(item)) ?? { deferred: [], pause: undefined, cause };
      groups.set(lockKeyOf(item), group);
      group.cause = cause;
      group.pause ??= schedulePause(group);
      defer(group, item);
    },
    markUnlocked: (batch) => {
      for (const item of batch) if (isRetryDue(item)) groups.delete(lockKeyOf(item));
    },
    batchLimit: (queue, max) => {
      const due = groups.size === 0 ? -1 : queue.findIndex(isRetryDue);
      return due < 0 ? max : Math.min(max, Math.max(due, 1));
    },
    isRetryDue,
    pending: () => [...groups.values()].reduce((sum, { deferred }) => sum + deferred.length, 0),
    drained: async () => {
      for (;;) {
        const pauses = [...groups.values()].flatMap(({ deferred, pause }) =>
          deferred.length > 0 && pause !== undefined ? [pause] : [],
        );
        if (pauses.length === 0) return;
        await Promise.all(pauses);
      }
    },
  };
}
