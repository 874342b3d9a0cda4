// Refuses model calls, before their bodies are read, while more arrive than this process can serve. The sign is the delay of
// the event loop by its own work, which an admitted call meets at each of its steps. What can be served is shared out by
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
const RECOVERY = 1.05;
/** Calls per millisecond: far below what a core serves. A loop that other processes delay refuses nothing below it. */
const RATE_MIN = 0.5;

export interface OverloadGuard {
  /** Throws if the process is overloaded and the account has had its share. */
  readonly admit: (accountId: string) => void;
  /** Counts a call whose response has begun. */
  readonly finish: () => void;
}

export interface OverloadDeps {
  /** Monotonic. */
  readonly now: () => number;
  /** CPU time of the event loop's thread: what other processes of the machine or a slow disk delay is no overload. */
  readonly cpuMs: () => number;
  /** Runs `sample` after `ms` if the loop is not delayed. */
  readonly schedule: (sample: () => void, ms: number) => void;
}

interface Arrivals {
  total: number;
  admitted: number;
}

const TIMERS: OverloadDeps = {
  now: () => performance.now(),
  cpuMs: () => {
    const { user, system } = process.threadCpuUsage();
    return (user + system) / 1_000;
  },
  schedule: (sample, ms) => void setTimeout(sample, ms).unref(),
};

export function createOverloadGuard({
  now,
  cpuMs,
  schedule,
}: OverloadDeps = TIMERS): OverloadGuard {
  let arrivals = new Map<string, Arrivals>();
  let finished = 0;
  /** Calls per millisecond; infinite without overload. */
  let rate = Number.POSITIVE_INFINITY;
  /** Calls per account and window. */
  let share = Number.POSITIVE_INFINITY;
  let delayedSamples = 0;
  let windowStart = 0;
  let sampleDue = 0;
  let cpuBefore = 0;
  let isSampling = false;

  const scheduleSample = (): void => {
    sampleDue = now() + SAMPLE_MS;
    cpuBefore = cpuMs();
    schedule(sample, SAMPLE_MS);
  };
  const startWindow = (): void => {
    arrivals = new Map();
    finished = 0;
    windowStart = now();
  };
  const endWindow = (): void => {
    const elapsed = now() - windowStart;
    const demand = [...arrivals.values()];
    const admitted = demand.reduce((sum, account) => sum + account.admitted, 0);
    const arrived = demand.reduce((sum, account) => sum + account.total, 0);
    if (delayedSamples >= DELAYED_SAMPLES_MIN) {
      const measured = Math.max(finished, ARRIVAL_SHARE * admitted) / elapsed;
      rate = Math.max(RATE_MIN, BACK_OFF * measured);
    } else if (delayedSamples === 0) {
      rate *= RECOVERY;
      if (rate * elapsed > arrived) rate = Number.POSITIVE_INFINITY;
    }
    share = shareOf(rate * WINDOW_MS, demand, WINDOW_MS / elapsed);
    startWindow();
    isSampling = arrived > 0 || rate !== Number.POSITIVE_INFINITY;
  };
  function sample(): void {
    const delayMs = Math.min(now() - sampleDue, cpuMs() - cpuBefore);
    delayedSamples = delayMs > DELAY_MAX_MS ? delayedSamples + 1 : 0;
    if (now() - windowStart >= WINDOW_MS) endWindow();
    if (isSampling) scheduleSample();
  }

  return {
    admit: (accountId) => {
      if (!isSampling) {
        isSampling = true;
        startWindow();
        scheduleSample();
      }
      let account = arrivals.get(accountId);
      if (account === undefined) arrivals.set(accountId, (account = { total: 0, admitted: 0 }));
      account.total += 1;
      if (account.admitted >= share)
        throw new Fault("overloaded", "the event loop is delayed", { retryAfterSeconds: 1 });
      account.admitted += 1;
    },
    finish: () => {
      finished += 1;
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
