// Limits how many tasks of an account that store much run at a time, in this process.

import { Fault } from "../base/fault.ts";

export type AccountLimit = <T>(accountId: string, task: () => Promise<T>) => Promise<T>;

/** `what`: the tasks, for the error. */
export function createAccountLimit(max: number, what: string): AccountLimit {
  const running = new Map<string, number>();
  return async (accountId, task) => {
    const count = (running.get(accountId) ?? 0) + 1;
    if (count > max)
      throw new Fault("rate_limited", `too many ${what}`, {
        message: `This account has ${max} ${what}, which is the limit. Wait for one to end.`,
        retryAfterSeconds: 1,
      });
    running.set(accountId, count);
    try {
      return await task();
    } finally {
      const left = (running.get(accountId) ?? 1) - 1;
      if (left === 0) running.delete(accountId);
      else running.set(accountId, left);
    }
  };
}
