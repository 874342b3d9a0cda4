// One timer for all open streams: thousands of streams would otherwise need thousands of timers.

export interface SharedTimer {
  /** Calls `onTick` about once a second, until the returned function is called. */
  readonly add: (onTick: (now: number) => void) => () => void;
}

const TICK_MS = 1_000;

export function createSharedTimer(now: () => number, everyMs = TICK_MS): SharedTimer {
  const listeners = new Set<(now: number) => void>();
  let timer: ReturnType<typeof setInterval> | undefined;
  return {
    add: (listener) => {
      listeners.add(listener);
      timer ??= setInterval(() => {
        const at = now();
        for (const listener of listeners) listener(at);
      }, everyMs);
      return () => {
        listeners.delete(listener);
        if (listeners.size > 0) return;
        clearInterval(timer);
        timer = undefined;
      };
    },
  };
}
