// Time limits for many things at once, on one timer: a request that ends in a millisecond should not pay for a timer of
// its own. They are coarse, as limits of seconds may be.

const TICK_MS = 250;

interface PendingDeadline {
  readonly at: number;
  readonly signal: Pick<AbortSignal, "aborted"> | undefined;
  readonly run: () => void;
}

const pending = new Set<PendingDeadline>();
let timer: ReturnType<typeof setInterval> | undefined;

/** Runs something when the time is over, unless the function that it answers is called before. */
export function startDeadline(ms: number, run: () => void): () => void {
  return addPending({ at: performance.now() + ms, signal: undefined, run });
}

/**
 * Runs something soon after a signal was given, unless the function that it answers is called before. To look at the
 * runtime's own signals now and then costs a tenth of listening to each of them.
 */
export function onAborted(signal: Pick<AbortSignal, "aborted">, run: () => void): () => void {
  return addPending({ at: Infinity, signal, run });
}

function addPending(one: PendingDeadline): () => void {
  pending.add(one);
  timer ??= setInterval(tick, TICK_MS);
  timer.unref();
  return () => {
    pending.delete(one);
  };
}

function tick(): void {
  const now = performance.now();
  for (const one of pending) {
    if (one.at > now && one.signal?.aborted !== true) continue;
    pending.delete(one);
    one.run();
  }
  if (pending.size > 0) return;
  clearInterval(timer);
  timer = undefined;
}
