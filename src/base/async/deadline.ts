// Coarse deadlines on one shared timer: a timer for each request would cost more than most requests take.

const TICK_MS = 250;

interface PendingDeadline {
  readonly at: number;
  readonly signal: Pick<AbortSignal, "aborted"> | undefined;
  readonly run: () => void;
}

const pending = new Set<PendingDeadline>();
let timer: ReturnType<typeof setInterval> | undefined;

/** Calls `run` after `ms`, unless the returned function cancels it first: then that returns true. */
export function startDeadline(ms: number, run: () => void): () => boolean {
  return addPending({ at: performance.now() + ms, signal: undefined, run });
}

/**
 * Calls `run` soon after the signal aborts, unless the returned function cancels it first. Polling the runtime's
 * signals costs a tenth of adding a listener to each.
 */
export function onAborted(signal: Pick<AbortSignal, "aborted">, run: () => void): () => void {
  return addPending({ at: Infinity, signal, run });
}

function addPending(deadline: PendingDeadline): () => boolean {
  pending.add(deadline);
  timer ??= setInterval(tick, TICK_MS);
  timer.unref();
  return () => pending.delete(deadline);
}

function tick(): void {
  const now = performance.now();
  for (const deadline of pending) {
    if (deadline.at > now && deadline.signal?.aborted !== true) continue;
    pending.delete(deadline);
    deadline.run();
  }
  if (pending.size > 0) return;
  clearInterval(timer);
  timer = undefined;
}
