// Work of a job that is leased in the store, such as a request to the endpoint of an account: several at once, and none is awaited
// by the job.

export interface LeasedWork {
  /** Starts what is due, without waiting for its end. */
  readonly tick: () => Promise<void>;
  /** Resolves when nothing is in flight. */
  readonly idle: () => Promise<void>;
  /** Ends what is in flight; it is done again later. */
  readonly stop: () => Promise<void>;
}

export interface LeasedWorkOptions<T> {
  /** In flight at once. */
  readonly max: number;
  readonly listDue: (limit: number) => Promise<readonly T[]>;
  /** Leases it first: what is in flight is not due. */
  readonly run: (one: T, signal: AbortSignal) => Promise<void>;
  readonly onError: (one: T, error: unknown) => void;
}

export function createLeasedWork<T>({
  max,
  listDue,
  run,
  onError,
}: LeasedWorkOptions<T>): LeasedWork {
  const abort = new AbortController();
  const inFlight = new Set<Promise<void>>();
  const start = (one: T): void => {
    const work = run(one, abort.signal)
      .catch((error: unknown) => onError(one, error))
      .finally(() => void inFlight.delete(work));
    inFlight.add(work);
  };
  const idle = async (): Promise<void> => {
    while (inFlight.size > 0) await Promise.all(inFlight);
  };
  return {
    tick: async () => {
      const free = max - inFlight.size;
      if (abort.signal.aborted || free <= 0) return;
      for (const one of await listDue(free)) start(one);
    },
    idle,
    stop: async () => {
      abort.abort();
      await idle();
    },
  };
}
