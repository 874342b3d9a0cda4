// Counts the timers of this process that have neither fired nor been cleared. The runtime has no list of them.

export interface OpenTimers {
  readonly count: () => number;
  readonly stop: () => void;
}

export function trackTimers(): OpenTimers {
  const { setTimeout, setInterval, clearTimeout, clearInterval } = globalThis;
  const open = new Set<unknown>();
  const clearing =
    <T>(clear: (timer: T) => void) =>
    (timer: T): void => {
      open.delete(timer);
      clear(timer);
    };
  const startTimeout = (callback: (...args: unknown[]) => void, ...rest: unknown[]): unknown => {
    const timer = Reflect.apply(setTimeout, globalThis, [
      (...args: unknown[]) => {
        open.delete(timer);
        callback(...args);
      },
      ...rest,
    ]);
    open.add(timer);
    return timer;
  };
  const startInterval = (...args: unknown[]): unknown => {
    const timer = Reflect.apply(setInterval, globalThis, args);
    open.add(timer);
    return timer;
  };
  Object.assign(globalThis, {
    setTimeout: startTimeout,
    setInterval: startInterval,
    clearTimeout: clearing(clearTimeout),
    clearInterval: clearing(clearInterval),
  });
  return {
    count: () => open.size,
    stop: () =>
      void Object.assign(globalThis, { setTimeout, setInterval, clearTimeout, clearInterval }),
  };
}
