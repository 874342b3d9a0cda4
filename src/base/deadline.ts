// Time limits for many things at once, on one timer: a request that ends in a millisecond should not pay for a timer of
// its own. They are coarse, as limits of seconds may be.

const TICK_MS = 250;

interface Waiting {
  readonly at: number;
  readonly signal: Pick<AbortSignal, "aborted"> | undefined;
  readonly run: () => void;
}

const waiting = new Set<Waiting>();
let timer: ReturnType<typeof setInterval> | undefined;

/** Runs something when the time is over, unless the function that it answers is called before. */
export function deadline(ms: number, run: () => void): () => void {
  return wait({ at: performance.now() + ms, signal: undefined, run });
}

/**
 * Runs something soon after a signal was given, unless the function that it answers is called before. To look at the
 * runtime's own signals now and then costs a tenth of listening to each of them.
 */
export function onceAborted(signal: Pick<AbortSignal, "aborted">, run: () => void): () => void {
  return wait({ at: Infinity, signal, run });
}

function wait(one: Waiting): () => void {
  waiting.add(one);
  timer ??= setInterval(tick, TICK_MS);
  timer.unref();
  return () => {
    waiting.delete(one);
  };
}

function tick(): void {
  const now = performance.now();
  for (const one of waiting) {
    if (one.at > now && one.signal?.aborted !== true) continue;
    waiting.delete(one);
    one.run();
  }
  if (waiting.size > 0) return;
  clearInterval(timer);
  timer = undefined;
}
