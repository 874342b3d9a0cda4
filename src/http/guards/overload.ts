// Refuses model calls, before their bodies are read, while more arrive than this process can serve.
//
// Normally a call is admitted when it arrives. If a turn of the event loop takes too long, further calls are queued, and each turn
// admits some of them, fairly by account. A fixed number of clients that each wait for a reply cannot make the queue longer than
// their number, so a long queue alone is no overload. A queue that keeps growing is: then calls that would wait long are refused
// on arrival.

import { Fault } from "../../base/fault.ts";

/** If calls of one turn have been admitted for this long, the next ones are queued. */
const TURN_MAX_MS = 20;
/** With fewer calls in progress, a long turn has another reason, such as one large request. */
const OPEN_CALLS_MIN = 50;
/** CPU time for which a turn admits calls from the queue. A call takes several turns, so it takes a multiple of this. */
const QUEUE_TURN_MS = 5;
/** If other work makes a turn long, such as a commit on a slow disk, this share of it admits calls, up to the maximum below. */
const QUEUE_TURN_SHARE = 0.25;
const QUEUE_TURN_MAX_MS = 25;
/** A call whose expected wait is longer is refused when it arrives; the second limit is for overload. */
const WAIT_MAX_MS = 5_000;
const OVERLOAD_WAIT_MAX_MS = 50;
/**
 * Under overload, queued calls older than this are refused: they were queued before the overload was detected, or calls of other
 * accounts came first.
 */
const OVERLOAD_AGE_MAX_MS = 100;
/** Overload begins when, in this many consecutive windows, arrivals exceed admissions by this ratio. It ends this long after the last refusal. */
const GROWTH_WINDOW_MS = 40;
const GROWTH_WINDOWS = 4;
const GROWTH_RATIO = 1.25;
const OVERLOAD_END_MS = 1_000;
/** The weight of the last turn in the moving average of a call's time. */
const AVERAGE_WEIGHT = 0.2;

/** One for all calls, because an error with its stack costs more than the rest of a refusal. */
export const CALL_REFUSED = new Fault("overloaded", "the call would wait too long", {
  retryAfterSeconds: 1,
});

export interface OverloadGuard {
  /** Undefined if the call is admitted at once. Throws, or rejects, with `CALL_REFUSED`. */
  readonly admit: (accountId: string) => Promise<void> | undefined;
  /** Counts a call whose response has begun. */
  readonly finish: () => void;
  /** Whether calls of low priority should wait. */
  readonly isBusy: () => boolean;
}

export interface OverloadDeps {
  /** Monotonic time in milliseconds. */
  readonly now: () => number;
  /** The CPU time of this process in milliseconds: other processes may have the core for much longer. */
  readonly cpuMs: () => number;
  readonly inNextTurn: (run: () => void) => void;
  /** Resolves when an admitted call has run up to its first wait. */
  readonly untilStarted: () => Promise<void>;
}

export const EVENT_LOOP: OverloadDeps = {
  now: () => performance.now(),
  cpuMs: () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1_000;
  },
  inNextTurn: (run) => void setImmediate(run),
  // Runs after the callbacks of all promises that are resolved.
  untilStarted: () => new Promise((resolve) => process.nextTick(resolve)),
};

export function createOverloadGuard(deps: OverloadDeps = EVENT_LOOP): OverloadGuard {
  const { now, cpuMs, inNextTurn, untilStarted } = deps;
  const queue = createFairQueue();
  const overload = createOverloadDetector();
  const turnMs = createTurnTimer(deps);
  /** Admitted calls whose response has not begun. */
  let openCalls = 0;
  let isQueueing = false;
  let admittedAt = 0;
  /** The time from one admission to the next while calls are queued. */
  let averageMs = 0;

  const isTurnLong = (): boolean => turnMs() > TURN_MAX_MS && openCalls >= OPEN_CALLS_MIN;
  const waitMax = (time: number): number =>
    overload.isOn(time) ? OVERLOAD_WAIT_MAX_MS : WAIT_MAX_MS;
  const admitQueued = async (): Promise<void> => {
    const start = now();
    overload.update(start);
    if (overload.isOn(start))
      for (const call of queue.takeOlder(start - OVERLOAD_AGE_MAX_MS)) call.refuse();
    const share = Math.min(QUEUE_TURN_MAX_MS, QUEUE_TURN_SHARE * (start - admittedAt));
    const end = cpuMs() + Math.max(QUEUE_TURN_MS, share);
    let count = 0;
    for (let call = queue.takeNext(); call !== undefined;) {
      count += 1;
      call.admit();
      await untilStarted();
      call = cpuMs() < end ? queue.takeNext() : undefined;
    }
    const time = now();
    overload.countAdmitted(count);
    if (count > 0) averageMs += AVERAGE_WEIGHT * ((time - admittedAt) / count - averageMs);
    admittedAt = time;
    if (queue.length() === 0) isQueueing = false;
    else inNextTurn(() => void admitQueued());
  };
  const enqueue = (accountId: string): Promise<void> => {
    const time = now();
    if (!isQueueing) {
      isQueueing = true;
      admittedAt = time;
      overload.start(time);
      inNextTurn(() => void admitQueued());
    }
    overload.countArrived();
    if (queue.callsBefore(accountId) * averageMs > waitMax(time)) {
      overload.extend(time);
      throw CALL_REFUSED;
    }
    return new Promise((resolve, reject) => {
      const admit = (): void => {
        openCalls += 1;
        resolve();
      };
      queue.add(accountId, { queuedAt: time, admit, refuse: () => reject(CALL_REFUSED) });
    });
  };

  return {
    admit: (accountId) => {
      if (isQueueing || isTurnLong()) return enqueue(accountId);
      openCalls += 1;
      return undefined;
    },
    finish: () => {
      openCalls -= 1;
    },
    isBusy: () => isQueueing || openCalls >= OPEN_CALLS_MIN,
  };
}

/** Returns a function that tells how long ago it was first called in this turn of the event loop. */
function createTurnTimer({ now, inNextTurn }: OverloadDeps): () => number {
  let startedAt: number | undefined;
  return () => {
    const time = now();
    if (startedAt === undefined) {
      startedAt = time;
      inNextTurn(() => {
        startedAt = undefined;
      });
    }
    return time - startedAt;
  };
}

interface OverloadDetector {
  /** When calls begin to be queued. */
  readonly start: (time: number) => void;
  readonly countArrived: () => void;
  readonly countAdmitted: (calls: number) => void;
  /** Ends a window when its time is over. */
  readonly update: (time: number) => void;
  /** A call was refused. */
  readonly extend: (time: number) => void;
  readonly isOn: (time: number) => boolean;
}

function createOverloadDetector(): OverloadDetector {
  let until = Number.NEGATIVE_INFINITY;
  let windowStart = 0;
  let windows = 0;
  let arrived = 0;
  let admitted = 0;
  const startWindow = (time: number): void => {
    windowStart = time;
    arrived = 0;
    admitted = 0;
  };
  const extend = (time: number): void => {
    until = time + OVERLOAD_END_MS;
  };
  return {
    start: (time) => {
      windows = 0;
      startWindow(time);
    },
    countArrived: () => {
      arrived += 1;
    },
    countAdmitted: (calls) => {
      admitted += calls;
    },
    update: (time) => {
      if (time - windowStart < GROWTH_WINDOW_MS) return;
      windows = arrived > GROWTH_RATIO * admitted ? windows + 1 : 0;
      startWindow(time);
      if (windows >= GROWTH_WINDOWS) extend(time);
    },
    extend,
    isOn: (time) => time < until,
  };
}

// A queue of calls that is fair by account: it takes one call of each account in turn, the oldest first.
interface QueuedCall {
  readonly queuedAt: number;
  readonly admit: () => void;
  readonly refuse: () => void;
}

interface FairQueue {
  readonly add: (accountId: string, call: QueuedCall) => void;
  readonly takeNext: () => QueuedCall | undefined;
  /** How many calls are admitted before another one of the account, if no more arrive. */
  readonly callsBefore: (accountId: string) => number;
  /** Removes and returns the calls that were queued before this time. */
  readonly takeOlder: (time: number) => readonly QueuedCall[];
  readonly length: () => number;
}

function createFairQueue(): FairQueue {
  /** The accounts in the order of their turns; each has a call. */
  const callsOf = new Map<string, QueuedCall[]>();
  let length = 0;
  return {
    add: (accountId, call) => {
      const calls = callsOf.get(accountId);
      if (calls === undefined) callsOf.set(accountId, [call]);
      else calls.push(call);
      length += 1;
    },
    takeNext: () => {
      for (const [accountId, calls] of callsOf) {
        const call = calls.shift();
        callsOf.delete(accountId);
        if (calls.length > 0) callsOf.set(accountId, calls);
        length -= 1;
        return call;
      }
      return undefined;
    },
    callsBefore: (accountId) =>
      Math.min(length, ((callsOf.get(accountId)?.length ?? 0) + 1) * callsOf.size),
    takeOlder: (time) => {
      const older: QueuedCall[] = [];
      for (const [accountId, calls] of callsOf) {
        const first = calls.findIndex(({ queuedAt }) => queuedAt >= time);
        older.push(...calls.splice(0, first === -1 ? calls.length : first));
        if (calls.length === 0) callsOf.delete(accountId);
      }
      length -= older.length;
      return older;
    },
    length: () => length,
  };
}
