// Whether the store takes writes, for those who ask in order to send traffic here. A full disk, a store that became
// read-only and a PostgreSQL that is only a standby go on answering what is read, while every call would fail.

/** How long an answer stands: however often anybody asks, the store is written to no more often than this. */
const RESULT_TTL_MS = 1_000;
const WRITE_TIMEOUT_MS = 2_000;

/** Resolves with whether the write was made, in two seconds at most; all who ask meanwhile share one write. */
export function createReadinessCheck(
  write: () => Promise<unknown>,
  timeoutMs = WRITE_TIMEOUT_MS,
): () => Promise<boolean> {
  let pending: Promise<boolean> | undefined;
  const probe = async (): Promise<boolean> => {
    try {
      await write();
      return true;
    } catch {
      return false;
    } finally {
      setTimeout(() => {
        pending = undefined;
      }, RESULT_TTL_MS).unref();
    }
  };
  return async () => {
    const timedOut = Promise.withResolvers<boolean>();
    const timer = setTimeout(() => timedOut.resolve(false), timeoutMs);
    try {
      return await Promise.race([(pending ??= probe()), timedOut.promise]);
    } finally {
      clearTimeout(timer);
    }
  };
}
