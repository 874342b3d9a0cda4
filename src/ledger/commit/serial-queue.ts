// Runs transactions one after the other, so that the buffer changes of one are applied before the next starts.

export interface SerialQueue {
  readonly run: <T>(work: () => Promise<T>) => Promise<T>;
  /** True while work is running or waiting. */
  readonly isBusy: () => boolean;
  readonly drained: () => Promise<unknown>;
}

export function createSerialQueue(): SerialQueue {
  let last: Promise<unknown> = Promise.resolve();
  let pending = 0;
  return {
    run: (work) => {
      pending += 1;
      const result = last.then(work).finally(() => {
        pending -= 1;
      });
      last = result.catch(() => {});
      return result;
    },
    isBusy: () => pending > 0,
    drained: () => last,
  };
}
