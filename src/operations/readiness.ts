// Readiness check of the store, by a write: with a full disk, a read-only store or a PostgreSQL standby, reads still work
// while every call fails.

/** A result is reused for this time, which bounds the number of writes. */
const RESULT_TTL_MS = 1_000;
const WRITE_TIMEOUT_MS = 2_000;

/** Resolves to whether the write succeeded in time. Concurrent checks share one write. */
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
