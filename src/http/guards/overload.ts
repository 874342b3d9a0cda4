// Refuses model calls, before their bodies are read, while more arrive than this process can serve. The sign is the delay of
// the event loop, which an admitted call meets at each of its steps, while calls wait. What can be served is shared out by
// account, so that an account with many calls does not displace one with few.

import { Fault } from "../../base/fault.ts";

const SAMPLE_MS = 10;
const WINDOW_MS = 100;
/** A loop without overload is delayed less, except once: by a garbage collection or one large request. */
const DELAY_MAX_MS = 30;
const DELAYED_SAMPLES_MIN = 2;
/** Below the measured rate, so that what waits becomes less. */
const BACK_OFF = 0.9;
/** Calls with slow providers end later than they begin, so the arrivals count too. */
const ARRIVAL_SHARE = 0.5;
const RECOVERY = 1.25;
/** Calls per millisecond: below what a core serves even of very long conversations, so that it never comes to a halt. */
const RATE_MIN = 0.05;
/** Refusing calls shortens the delay of a loop only if many wait: a slow disk or other processes delay a few as well. */
const WAITING_MIN = 100;
/** A turn of the loop can take a thousand calls before the timer runs: a burst of that many is served, and not more. */
const TURN_MAX_MS = 500;

export interface OverloadGuard {
  /** Throws if the process is overloaded and the account has had its share. */
  readonly admit: (accountId: string) => void;
  /** Counts a call whose response has begun. */
  readonly finish: () => void;
}

export interface OverloadDeps {
  /** Monotonic. */
  readonly now: () => number;
  /** Runs `sample` after `ms` if the loop is not delayed. */
  readonly schedule: (sample: () => void, ms: number) => void;
}

interface Arrivals {
  total: number;
  admitted: number;
}

const TIMERS: OverloadDeps = {
  now: () => performance.now(),
  schedule: (sample, ms) => void setTimeout(sample, ms).unref(),
};

export function createOverloadGuard({ now, schedule }: OverloadDeps = TIMERS): OverloadGuard {
  /** Admitted calls whose response has not begun. */
  let waiting = 0;
  let window = startWindow(now(), waiting);
  /** Calls per millisecond; infinite without overload. */
  let rate = Number.POSITIVE_INFINITY;
  /** Calls per account and window. */
  let share = Number.POSITIVE_INFINITY;
  let delayedSamples = 0;
  let sampleDue = 0;
  let isSampling = false;
  const turn = createTurnLimit(now);

  const scheduleSample = (): void => {
    sampleDue = now() + SAMPLE_MS;
    schedule(sample, SAMPLE_MS);
  };
  const endWindow = (): void => {
    const { arrivals, admitted, finished, waitingMost } = window;
    const elapsed = now() - window.start;
    const demand = [...arrivals.values()];
    const arrived = demand.reduce((sum, { total }) => sum + total, 0);
    if (delayedSamples >= DELAYED_SAMPLES_MIN && waitingMost >= WAITING_MIN) {
      const measured = Math.max(finished, ARRIVAL_SHARE * admitted) / elapsed;
      rate = Math.max(RATE_MIN, BACK_OFF * measured);
    } else if (delayedSamples === 0) {
      rate *= RECOVERY;
      if (rate * elapsed > arrived) rate = Number.POSITIVE_INFINITY;
    }
    share = shareOf(rate * WINDOW_MS, demand, WINDOW_MS / elapsed);
    window = startWindow(now(), waiting);
    isSampling = arrived > 0 || rate !== Number.POSITIVE_INFINITY;
  };
  function sample(): void {
    turn.end();
    delayedSamples = now() - sampleDue > DELAY_MAX_MS ? delayedSamples + 1 : 0;
    if (now() - window.start >= WINDOW_MS) endWindow();
    if (isSampling) scheduleSample();
  }

  return {
    admit: (accountId) => {
      if (!isSampling) {
        isSampling = true;
        window = startWindow(now(), waiting);
        scheduleSample();
      }
      const account = arrivalsOf(window, accountId);
      account.total += 1;
      const most = turn.isOver(waiting) ? Math.min(share, equalPart(window)) : share;
      if (account.admitted >= most)
        throw new Fault("overloaded", "the event loop is delayed", { retryAfterSeconds: 1 });
      account.admitted += 1;
      window.admitted += 1;
      waiting += 1;
      window.waitingMost = Math.max(window.waitingMost, waiting);
    },
    finish: () => {
      window.finished += 1;
      waiting -= 1;
    },
  };
}

/** What is counted for about 100 ms. */
interface Window {
  readonly start: number;
  readonly arrivals: Map<string, Arrivals>;
  admitted: number;
  finished: number;
  waitingMost: number;
}

function startWindow(start: number, waiting: number): Window {
  return { start, arrivals: new Map(), admitted: 0, finished: 0, waitingMost: waiting };
}

function arrivalsOf({ arrivals }: Window, accountId: string): Arrivals {
  const known = arrivals.get(accountId);
  if (known !== undefined) return known;
  const account = { total: 0, admitted: 0 };
  arrivals.set(accountId, account);
  return account;
}

function equalPart({ admitted, arrivals }: Window): number {
  return admitted / arrivals.size;
}

/** A turn begins with its first admission, and has ended when a sample runs. */
function createTurnLimit(now: OverloadDeps["now"]) {
  let start: number | undefined;
  return {
    isOver: (waiting: number): boolean => {
      start ??= now();
      return waiting >= WAITING_MIN && now() - start > TURN_MAX_MS;
    },
    end: (): void => {
      start = undefined;
    },
  };
}

/** The highest number of calls per account with which all accounts together have at most `budget`. */
function shareOf(budget: number, demand: readonly Arrivals[], scale: number): number {
  if (budget === Number.POSITIVE_INFINITY) return budget;
  const totals = demand.map(({ total }) => total * scale).sort((one, other) => one - other);
  let rest = budget;
  for (const [index, total] of totals.entries()) {
    const equal = rest / (totals.length - index);
    if (total >= equal) return Math.max(1, Math.floor(equal));
    rest -= total;
  }
  return Math.max(1, Math.floor(budget));
}
