// Waits that many streams share: those that end in the same millisecond hang on one timer.

export interface Clock {
  /** Calls `wake` after so many milliseconds; what it gives back calls that off. */
  readonly wait: (ms: number, wake: () => void) => () => void;
}

interface Tick {
  readonly wakes: Set<() => void>;
  readonly timer: ReturnType<typeof setTimeout>;
}

export function createClock(): Clock {
  const ticks = new Map<number, Tick>();

  function ring(due: number): void {
    const tick = ticks.get(due);
    ticks.delete(due);
    if (tick !== undefined) for (const wake of tick.wakes) wake();
  }

  function tickAt(due: number, ms: number): Tick {
    const known = ticks.get(due);
    if (known !== undefined) return known;
    const tick = { wakes: new Set<() => void>(), timer: setTimeout(() => ring(due), ms) };
    ticks.set(due, tick);
    return tick;
  }

  return {
    wait(ms, wake) {
      const now = performance.now();
      const due = Math.ceil(now + ms);
      const tick = tickAt(due, due - now);
      tick.wakes.add(wake);
      return () => {
        tick.wakes.delete(wake);
        // A long silence that nobody waits for any more must not keep a timer.
        if (tick.wakes.size > 0 || ticks.get(due) !== tick) return;
        clearTimeout(tick.timer);
        ticks.delete(due);
      };
    },
  };
}
