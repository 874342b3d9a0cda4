// Delays of many streams that share one timer per millisecond.

export interface DelayTimer {
  /** Calls `callback` after `ms` milliseconds. Returns a function that cancels it. */
  readonly schedule: (ms: number, callback: () => void) => () => void;
}

interface TimerSlot {
  readonly callbacks: Set<() => void>;
  readonly timer: ReturnType<typeof setTimeout>;
}

export function createDelayTimer(): DelayTimer {
  const slots = new Map<number, TimerSlot>();

  function fire(due: number): void {
    const slot = slots.get(due);
    slots.delete(due);
    if (slot !== undefined) for (const callback of slot.callbacks) callback();
  }

  function slotAt(due: number, ms: number): TimerSlot {
    const existing = slots.get(due);
    if (existing !== undefined) return existing;
    const slot = { callbacks: new Set<() => void>(), timer: setTimeout(() => fire(due), ms) };
    slots.set(due, slot);
    return slot;
  }

  return {
    schedule(ms, callback) {
      const now = performance.now();
      const due = Math.ceil(now + ms);
      const slot = slotAt(due, due - now);
      slot.callbacks.add(callback);
      return () => {
        slot.callbacks.delete(callback);
        // Clear the timer of a long delay whose stream is gone.
        if (slot.callbacks.size > 0 || slots.get(due) !== slot) return;
        clearTimeout(slot.timer);
        slots.delete(due);
      };
    },
  };
}
