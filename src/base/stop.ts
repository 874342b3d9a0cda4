// A word to whoever waits that it need not: what an AbortController is, at a small part of its cost. Every call has one.

/** What is asked of an AbortSignal here, which is one of these. */
export interface StopSignal {
  readonly aborted: boolean;
  addEventListener(type: "abort", listener: () => void): void;
  removeEventListener(type: "abort", listener: () => void): void;
}

export interface Stop {
  readonly signal: StopSignal;
  readonly abort: () => void;
}

export function createStop(): Stop {
  let listeners: readonly (() => void)[] = NOBODY;
  const signal = {
    aborted: false,
    addEventListener: (_: "abort", listener: () => void) => {
      listeners = [...listeners, listener];
    },
    removeEventListener: (_: "abort", listener: () => void) => {
      listeners = listeners.filter((one) => one !== listener);
    },
  };
  return {
    signal,
    abort: () => {
      if (signal.aborted) return;
      signal.aborted = true;
      for (const listener of listeners) listener();
    },
  };
}

const NOBODY: readonly (() => void)[] = [];

/** The same word for what only takes the runtime's own. */
export function abortSignalOf(signal: StopSignal): AbortSignal {
  if (signal instanceof AbortSignal) return signal;
  const controller = new AbortController();
  signal.addEventListener("abort", () => controller.abort());
  if (signal.aborted) controller.abort();
  return controller.signal;
}
