// Refuses model calls, before their bodies are read, while more arrive than this process can serve. A turn of the event loop
// admits what has arrived. If that takes too long, calls are queued: each turn then admits calls from the queue for a short
// time, fairly by account, and refuses those that have waited too long.

import { Fault } from "../../base/fault.ts";

/** A turn that admits calls for longer begins to queue them. */
const TURN_MAX_MS = 20;
/** With fewer admitted calls, a long turn has another reason, such as one large request. */
const SERVED_MIN = 50;
/** How long a turn admits calls from the queue. A call takes several turns, so its time is a multiple of this. */
const QUEUE_TURN_MS = 5;
/** The share of a turn for admissions, if other work, such as a commit on a slow disk, makes the turn long. */
const QUEUE_TURN_SHARE = 0.25;
const QUEUE_TURN_MAX_MS = 25;
/** In a burst, calls may wait this long, because the process may be able to serve all of them. */
const BURST_AGE_MAX_MS = 500;
/** Under overload, calls may wait only this long. Overload: the queue was not empty for `BURST_AGE_MAX_MS`, or calls were refused within `OVERLOAD_END_MS`. */
const OVERLOAD_AGE_MAX_MS = 25;
const OVERLOAD_END_MS = 1_000;

export interface OverloadGuard {
  /** Undefined if the call is admitted at once; rejects if it has waited too long. */
  readonly admit: (accountId: string) => Promise<void> | undefined;
  /** Counts a call whose response has begun. */
  readonly finish: () => void;
  /** Whether calls of low priority should wait. */
  readonly isBusy: () => boolean;
}

export interface OverloadDeps {
  /** Monotonic time in milliseconds. */
  readonly now: () => number;
  readonly inNextTurn: (run: () => void) => void;
  /** Resolves when an admitted call has run up to its first wait. */
  readonly untilStarted: () => Promise<void>;
}

export const EVENT_LOOP: OverloadDeps = {
  now: () => performance.now(),
  inNextTurn: (run) => void setImmediate(run),
  // Runs after the callbacks of all promises that are resolved.
  untilStarted: () => new Promise((resolve) => process.nextTick(resolve)),
};

export function createOverloadGuard(deps: OverloadDeps = EVENT_LOOP): OverloadGuard {
  const { now, inNextTurn, untilStarted } = deps;
  const queue = createFairQueue();
  /** Admitted calls whose response has not begun. */
  let served = 0;
  let turnStart: number | undefined;
  let queuedSince: number | undefined;
  let overloadedUntil = Number.NEGATIVE_INFINITY;
  let admittedAt = 0;

  const startTurn = (): number => {
    inNextTurn(() => {
      turnStart = undefined;
    });
    return now();
  };
  const isTurnLong = (): boolean => {
    turnStart ??= startTurn();
    return served >= SERVED_MIN && now() - turnStart > TURN_MAX_MS;
  };
  const refuseOld = (time: number): void => {
    const isBurst = time >= overloadedUntil && time - (queuedSince ?? time) <= BURST_AGE_MAX_MS;
    const refused = queue.takeOlder(time - (isBurst ? BURST_AGE_MAX_MS : OVERLOAD_AGE_MAX_MS));
    if (refused.length > 0) overloadedUntil = time + OVERLOAD_END_MS;
    for (const call of refused) call.refuse();
  };
  const admitQueued = async (): Promise<void> => {
    const start = now();
    refuseOld(start);
    const share = Math.min(QUEUE_TURN_MAX_MS, QUEUE_TURN_SHARE * (start - admittedAt));
    const end = start + Math.max(QUEUE_TURN_MS, share);
    for (let call = queue.takeNext(); call !== undefined;) {
      call.admit();
      await untilStarted();
      call = now() < end ? queue.takeNext() : undefined;
    }
    admittedAt = now();
    if (queue.isEmpty()) queuedSince = undefined;
    else inNextTurn(() => void admitQueued());
  };
  const enqueue = (accountId: string): Promise<void> => {
    const queuedAt = now();
    if (queuedSince === undefined) {
      queuedSince = queuedAt;
      admittedAt = queuedAt;
      inNextTurn(() => void admitQueued());
    }
    return new Promise((resolve, reject) => {
      const admit = (): void => {
        served += 1;
        resolve();
      };
      queue.add(accountId, { queuedAt, admit, refuse: () => reject(overloaded()) });
    });
  };

  return {
    admit: (accountId) => {
      if (queuedSince !== undefined || isTurnLong()) return enqueue(accountId);
      served += 1;
      return undefined;
    },
    finish: () => {
      served -= 1;
    },
    isBusy: () => queuedSince !== undefined || served >= SERVED_MIN,
  };
}

function overloaded(): Fault {
  return new Fault("overloaded", "the call waited too long", { retryAfterSeconds: 1 });
}

// A queue of calls that is fair by account: it takes one call of each account in turn. An account's newest call is first,
// because under overload its oldest calls are refused anyway and would only delay the others.
interface QueuedCall {
  readonly queuedAt: number;
  readonly admit: () => void;
  readonly refuse: () => void;
}

interface FairQueue {
  readonly add: (accountId: string, call: QueuedCall) => void;
  readonly takeNext: () => QueuedCall | undefined;
  /** Removes and returns the calls that were queued before this time. */
  readonly takeOlder: (time: number) => readonly QueuedCall[];
  readonly isEmpty: () => boolean;
}

function createFairQueue(): FairQueue {
  /** The accounts in the order of their turns; each has a call. */
  const callsOf = new Map<string, QueuedCall[]>();
  return {
    add: (accountId, call) => {
      const calls = callsOf.get(accountId);
      if (calls === undefined) callsOf.set(accountId, [call]);
      else calls.push(call);
    },
    takeNext: () => {
      for (const [accountId, calls] of callsOf) {
        const call = calls.pop();
        callsOf.delete(accountId);
        if (calls.length > 0) callsOf.set(accountId, calls);
        return call;
      }
      return undefined;
    },
    takeOlder: (time) => {
      const older: QueuedCall[] = [];
      for (const [accountId, calls] of callsOf) {
        const first = calls.findIndex(({ queuedAt }) => queuedAt >= time);
        older.push(...calls.splice(0, first === -1 ? calls.length : first));
        if (calls.length === 0) callsOf.delete(accountId);
      }
      return older;
    },
    isEmpty: () => callsOf.size === 0,
  };
}
