// Readiness check of the store, by a write: with a full disk, a read-only store or a PostgreSQL standby, reads still work
// while every call fails.

import type { Log } from "../base/log.ts";

/** A result is reused for this time, which bounds the number of writes. */
const RESULT_TTL_MS = 1_000;
const WRITE_TIMEOUT_MS = 2_000;

export interface ReadinessOptions {
  readonly timeoutMs?: number;
  readonly log?: Pick<Log, "info" | "error">;
}

/** Resolves to whether the write succeeded in time. Concurrent checks share one write. Changes are logged. */
export function createReadinessCheck(
  write: () => Promise<unknown>,
  { timeoutMs = WRITE_TIMEOUT_MS, log }: ReadinessOptions = {},
): () => Promise<boolean> {
  let pending: Promise<boolean> | undefined;
  let isReady = true;
  const setReady = (): boolean => {
    if (!isReady) log?.info("the store accepted a write again");
    isReady = true;
    return true;
  };
  const setUnready = (cause: unknown): boolean => {
    if (isReady) log?.error("the store did not accept a write; /readyz returns 503", { cause });
    isReady = false;
    return false;
  };
  const probe = async (): Promise<boolean> => {
    try {
      await write();
      return setReady();
    } catch (error) {
      return setUnready(error);
    } finally {
      setTimeout(() => {
        pending = undefined;
      }, RESULT_TTL_MS).unref();
    }
  };
  return async () => {
    const timedOut = Promise.withResolvers<boolean>();
    const timer = setTimeout(
      () => timedOut.resolve(setUnready(`no reply within ${timeoutMs} ms`)),
      timeoutMs,
    );
    try {
      return await Promise.race([(pending ??= probe()), timedOut.promise]);
    } finally {
      clearTimeout(timer);
    }
  };
}
