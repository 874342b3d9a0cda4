// One clock for all open streams: thousands of them need not thousands of timers.

export interface Ticker {
  /** Calls `tick` about once a second until the function that it answers is called. */
  readonly add: (tick: (now: number) => void) => () => void;
}

const TICK_MS = 1_000;

export function createTicker(now: () => number, everyMs = TICK_MS): Ticker {
  const ticks = new Set<(now: number) => void>();
  let timer: ReturnType<typeof setInterval> | undefined;
  return {
    add: (tick) => {
      ticks.add(tick);
      timer ??= setInterval(() => {
        const at = now();
        for (const one of ticks) one(at);
      }, everyMs);
      return () => {
        ticks.delete(tick);
        if (ticks.size > 0) return;
        clearInterval(timer);
        timer = undefined;
      };
    },
  };
}
