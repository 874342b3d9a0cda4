// Whether the store takes writes, for those who ask in order to send traffic here. A full disk, a store that became
// read-only and a PostgreSQL that is only a standby go on answering what is read, while every call would fail.

/** How long an answer stands: however often anybody asks, the store is written to no more often than this. */
const ANSWER_STANDS_MS = 1_000;
const WAIT_MAX_MS = 2_000;

/** Resolves with whether the write was made, in two seconds at most; all who ask meanwhile share one write. */
export function createReadiness(
  write: () => Promise<unknown>,
  waitMs = WAIT_MAX_MS,
): () => Promise<boolean> {
  let asked: Promise<boolean> | undefined;
  const ask = async (): Promise<boolean> => {
    try {
      await write();
      return true;
    } catch {
      return false;
    } finally {
      setTimeout(() => {
        asked = undefined;
      }, ANSWER_STANDS_MS).unref();
    }
  };
  return async () => {
    const late = Promise.withResolvers<boolean>();
    const timer = setTimeout(() => late.resolve(false), waitMs);
    try {
      return await Promise.race([(asked ??= ask()), late.promise]);
    } finally {
      clearTimeout(timer);
    }
  };
}
