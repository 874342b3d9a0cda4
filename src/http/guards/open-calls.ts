// Refuses a key's model calls at its limit of concurrent calls before their bodies are read. The hold enforces the limit
// across all processes; what runs in this process alone may already reach it.

import { Fault } from "../../base/fault.ts";

export interface OpenCalls {
  /** Throws if the key's calls in this process have reached its limit. */
  readonly rejectIfFull: (keyId: string) => void;
  /** Counts a call whose body was read; the returned function ends it. */
  readonly enter: (keyId: string) => () => void;
}

/** The limit as of each call; 0 for none. */
export function createOpenCalls(perKey: () => number): OpenCalls {
  const openByKey = new Map<string, number>();
  return {
    rejectIfFull: (keyId) => {
      const open = openByKey.get(keyId) ?? 0;
      const limit = perKey();
      if (limit === 0 || open < limit) return;
      throw new Fault("rate_limited", "too many open calls in this process", {
        message: `This key has ${open} open calls, which is its limit. Wait until one has ended.`,
        retryAfterSeconds: 1,
      });
    },
    enter: (keyId) => {
      openByKey.set(keyId, (openByKey.get(keyId) ?? 0) + 1);
      return () => {
        const rest = (openByKey.get(keyId) ?? 1) - 1;
        if (rest === 0) openByKey.delete(keyId);
        else openByKey.set(keyId, rest);
      };
    },
  };
}
