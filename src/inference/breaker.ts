// Leaves a failing provider alone for a while. One circuit for each provider, credential and model: it opens after a run
// of failures, and one call tries it again when its time is over. What one account alone has run into may be of its own
// making, so it opens the circuit for that account alone, and never keeps it closed to the others.

const FAILURES_MAX = 5;
/** So many of one account's failures count for the others: less than opens, however many it provokes. */
const ALONE_MAX = FAILURES_MAX - 2;
const OPEN_MS = 30_000;
const CIRCUITS_MAX = 10_000;
/** Fewer open a circuit for all; of those that failed while it was open, the last ones stay known. */
const RUNS_MAX = FAILURES_MAX;

/** What one account has run into, since anybody's call was answered. */
interface Run {
  failures: number;
  until: number;
}

interface Circuit {
  /** By account, who failed last at the end. */
  readonly runs: Map<string, Run>;
  /** The account whose call tries it again now. */
  probing: string | undefined;
}

export interface Breaker {
  /** Milliseconds until this account may try the circuit; zero lets its call through. */
  readonly enter: (circuit: string, account: string, now: number) => number;
  readonly succeeded: (circuit: string) => void;
  readonly failed: (circuit: string, account: string, now: number) => void;
  /** Gives a probe back that ended in neither, such as one that the caller broke off. */
  readonly left: (circuit: string, account: string) => void;
  /** Whether calls are kept away from it now: those of this account, or where none is named, anybody's. */
  readonly isOpen: (circuit: string, now: number, account?: string) => boolean;
  /** How many circuits are open. */
  readonly open: (now: number) => number;
}

/** The name of a circuit: a provider, the account there, and the provider's name for the model. */
export function circuitOf(provider: string, account: string, upstreamName: string): string {
  return `${provider} ${account} ${upstreamName}`;
}

export function createBreaker(): Breaker {
  const circuits = new Map<string, Circuit>();
  return {
    enter: (name, account, now) => {
      const circuit = circuits.get(name);
      if (circuit === undefined || !concerns(circuit, account)) return 0;
      const until = openUntil(circuit, account);
      if (until > now) return until - now;
      if (circuit.probing !== undefined) return OPEN_MS;
      circuit.probing = account;
      return 0;
    },
    succeeded: (name) => {
      circuits.delete(name);
    },
    failed: (name, account, now) => {
      if (circuits.size >= CIRCUITS_MAX) makeRoom(circuits, now);
      const circuit = circuits.get(name) ?? { runs: new Map(), probing: undefined };
      noteFailure(circuit, account, now);
      circuits.set(name, circuit);
    },
    left: (name, account) => {
      const circuit = circuits.get(name);
      if (circuit?.probing === account) circuit.probing = undefined;
    },
    isOpen: (name, now, account) => {
      const circuit = circuits.get(name);
      if (circuit === undefined) return false;
      if (account === undefined) return isKeptAway(circuit, now);
      return concerns(circuit, account) && openUntil(circuit, account) > now;
    },
    open: (now) => [...circuits.values()].filter((circuit) => isKeptAway(circuit, now)).length,
  };
}

function noteFailure(circuit: Circuit, account: string, now: number): void {
  const { runs } = circuit;
  const wasForAll = isForAll(circuit);
  const { failures } = runs.get(account) ?? { failures: 0 };
  runs.delete(account);
  runs.set(account, { failures: failures + 1, until: now + OPEN_MS });
  const [oldest] = runs.keys();
  if (runs.size > RUNS_MAX && oldest !== undefined) runs.delete(oldest);
  if (!wasForAll && isForAll(circuit)) for (const run of runs.values()) run.until = now + OPEN_MS;
  if (circuit.probing === account) circuit.probing = undefined;
}

/** Whether it has opened for everybody, which takes two accounts. */
function isForAll({ runs }: Circuit): boolean {
  let counted = 0;
  for (const { failures } of runs.values()) counted += Math.min(failures, ALONE_MAX);
  return counted >= FAILURES_MAX;
}

function concerns(circuit: Circuit, account: string): boolean {
  return (circuit.runs.get(account)?.failures ?? 0) >= FAILURES_MAX || isForAll(circuit);
}

// A failed probe keeps away the account that made it; the others try for themselves, until a second one has failed too.
function openUntil(circuit: Circuit, account: string): number {
  const own = circuit.runs.get(account)?.until ?? 0;
  if (!isForAll(circuit)) return own;
  const [, second = 0] = [...circuit.runs.values()].map(({ until }) => until).sort((a, b) => b - a);
  return Math.max(own, second);
}

/** Whether the calls of anybody are kept away now. */
function isKeptAway(circuit: Circuit, now: number): boolean {
  return [...circuit.runs.keys()].some(
    (account) => concerns(circuit, account) && openUntil(circuit, account) > now,
  );
}

// Callers with keys of their own make as many circuits as they like: those that keep calls away now stay.
function makeRoom(circuits: Map<string, Circuit>, now: number): void {
  for (const [name, circuit] of circuits) if (!isKeptAway(circuit, now)) circuits.delete(name);
  if (circuits.size >= CIRCUITS_MAX) circuits.clear();
}
