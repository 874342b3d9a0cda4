// A process runs a limited number of batches at a time, and of those of an account.

import { isDue, MINUTE_MS } from "../base/time.ts";
import type { WaitingFilter } from "./batch-rows.ts";

/** A batch that has run for so long yields to one that waits. */
const SLOT_MS = MINUTE_MS;

/** What a running batch occupies. */
export interface Slot {
  /** True once if a batch waits for a slot and this one had its time. */
  readonly mustYield: () => boolean;
  readonly release: () => void;
}

export interface Slots {
  readonly free: () => number;
  readonly filter: () => Pick<WaitingFilter, "running" | "perAccount">;
  readonly take: (accountId: string) => Slot;
  /** Whether a batch waits for a slot. */
  readonly setWanted: (isWanted: boolean) => void;
}

export function createSlots(max: number, perAccount: number, now: () => number): Slots {
  const taken = new Set<{ readonly accountId: string }>();
  let isWanted = false;
  return {
    free: () => max - taken.size,
    filter: () => {
      const running = new Map<string, number>();
      for (const { accountId } of taken) running.set(accountId, (running.get(accountId) ?? 0) + 1);
      return { running, perAccount };
    },
    take: (accountId) => {
      const slot = { accountId };
      taken.add(slot);
      const until = now() + SLOT_MS;
      return {
        mustYield: () => {
          if (!isWanted || !isDue(until, now(), SLOT_MS)) return false;
          isWanted = false;
          return true;
        },
        release: () => void taken.delete(slot),
      };
    },
    setWanted: (wanted) => {
      isWanted = wanted;
    },
  };
}
