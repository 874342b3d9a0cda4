// Coarse deadlines on one shared timer: a timer for each request would cost more than most requests take.

const TICK_MS = 250;

interface PendingDeadline {
  readonly at: number;
  readonly run: () => void;
}

const pending = new Set<PendingDeadline>();
let timer: ReturnType<typeof setInterval> | undefined;

/** Calls `run` after `ms`. The returned function cancels it, and returns whether it did. */
export function startDeadline(ms: number, run: () => void): () => boolean {
  const deadline = { at: performance.now() + ms, run };
  pending.add(deadline);
  timer ??= setInterval(runDue, TICK_MS).unref();
  return () => pending.delete(deadline);
}

function runDue(): void {
  const now = performance.now();
  for (const deadline of pending) {
    if (deadline.at > now) continue;
    pending.delete(deadline);
    deadline.run();
  }
  if (pending.size > 0) return;
  clearInterval(timer);
  timer = undefined;
}
