// The house's background work. A tick that fails is logged and tried again at its next turn; ticks of one clock never
// overlap.

import type { Log } from "./base/log.ts";

export type Clock = readonly [everyMs: number, tick: () => Promise<unknown>];

/** Starts the clocks; the function that it answers stops them and waits for ticks that still run. */
export function startClocks(log: Log, clocks: readonly Clock[]): () => Promise<void> {
  const running = new Set<Promise<void>>();
  const timers = clocks.map(([everyMs, tick]) => {
    let busy = false;
    return setInterval(() => {
      if (busy) return;
      busy = true;
      const turn = tick()
        .then(
          () => {},
          (error: unknown) => log.error("background work failed", { cause: error }),
        )
        .finally(() => {
          busy = false;
          running.delete(turn);
        });
      running.add(turn);
    }, everyMs);
  });
  return async () => {
    for (const timer of timers) clearInterval(timer);
    await Promise.all(running);
  };
}
