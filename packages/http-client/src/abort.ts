// A minimal AbortController: every call creates one, so it must be cheap.

/** The members of `AbortSignal` that are used here. */
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
      const index = listeners.indexOf(listener);
      if (index !== -1) listeners.splice(index, 1);
    },
  };
  return {
    signal,
    abort: () => {
      if (signal.aborted) return;
      signal.aborted = true;
      // A listener may remove itself while the list is iterated.
      for (const listener of listeners.slice()) listener();
    },
  };
}

/** Converts to a real `AbortSignal`, for functions of the runtime. */
export function toAbortSignal(signal: AbortSignalLike): AbortSignal {
  if (signal instanceof AbortSignal) return signal;
  const controller = new AbortController();
  signal.addEventListener("abort", () => controller.abort());
  if (signal.aborted) controller.abort();
  return controller.signal;
}
