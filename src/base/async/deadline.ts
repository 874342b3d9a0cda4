// Coarse deadlines on one shared timer: a timer for each request would cost more than most requests take.

const TICK_MS = 250;

interface PendingDeadline {
  readonly at: number;
  readonly isDue: (() => boolean) | undefined;
  readonly run: () => void;
}

const pending = new Set<PendingDeadline>();
let timer: ReturnType<typeof setInterval> | undefined;

/** Calls `run` after `ms`. The returned function cancels it, and returns whether it did. */
export function startDeadline(ms: number, run: () => void): () => boolean {
  return addPending({ at: performance.now() + ms, isDue: undefined, run });
}

/**
 * Calls `run` soon after `isDue` becomes true, unless the returned function cancels it first. Polling the runtime's
 * abort signals costs a tenth of adding a listener to each.
 */
export function runWhen(isDue: () => boolean, run: () => void): () => void {
  return addPending({ at: Infinity, isDue, run });
}

function addPending(deadline: PendingDeadline): () => boolean {
  pending.add(deadline);
  timer ??= setInterval(tick, TICK_MS).unref();
  return () => pending.delete(deadline);
}

function tick(): void {
  const now = performance.now();
  for (const deadline of pending) {
    if (deadline.at > now && deadline.isDue?.() !== true) continue;
    pending.delete(deadline);
    deadline.run();
  }
  if (pending.size > 0) return;
  clearInterval(timer);
  timer = undefined;
}
