// A word to whoever waits that it need not: what an AbortController is, at a small part of its cost. Every call has one.

/** What is asked of an AbortSignal here, which is one of these. */
export interface AbortSignalLike {
  readonly aborted: boolean;
  addEventListener(type: "abort", listener: () => void): void;
  removeEventListener(type: "abort", listener: () => void): void;
}

export interface Abort {
  readonly signal: AbortSignalLike;
  readonly abort: () => void;
}

export function createAbort(): Abort {
  const listeners: (() => void)[] = [];
  const signal = {
    aborted: false,
    addEventListener: (_: "abort", listener: () => void) => {
      listeners.push(listener);
    },
    removeEventListener: (_: "abort", listener: () => void) => {
      const at = listeners.indexOf(listener);
      if (at !== -1) listeners.splice(at, 1);
    },
  };
  return {
    signal,
    abort: () => {
      if (signal.aborted) return;
      signal.aborted = true;
      // One who is told may take itself off the list.
      const notified = listeners.slice();
      for (const listener of notified) listener();
    },
  };
}

/** The same word for what only takes the runtime's own. */
export function toAbortSignal(signal: AbortSignalLike): AbortSignal {
  if (signal instanceof AbortSignal) return signal;
  const controller = new AbortController();
  signal.addEventListener("abort", () => controller.abort());
  if (signal.aborted) controller.abort();
  return controller.signal;
}
