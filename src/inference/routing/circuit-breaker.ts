// Leaves a failing provider alone for a while. One circuit for each provider, credential and model: it opens after a run
// of failures, and one call tries it again when its time is over. What one account alone has run into may be of its own
// making, so it opens the circuit for that account alone, and never keeps it closed to the others.

const FAILURES_MAX = 5;
/** So many of one account's failures count for the others: less than opens, however many it provokes. */
const FAILURES_COUNTED_PER_ACCOUNT_MAX = FAILURES_MAX - 2;
const OPEN_MS = 30_000;
const CIRCUITS_MAX = 10_000;
/** Fewer open a circuit for all; of those that failed while it was open, the last ones stay known. */
const TRACKED_ACCOUNTS_MAX = FAILURES_MAX;

/** What one account has run into, since anybody's call was answered. */
interface FailureStreak {
  failures: number;
  openUntil: number;
}

interface Circuit {
  /** By account, who failed last at the end. */
  readonly streaks: Map<string, FailureStreak>;
  /** The account whose call tries it again now. */
  probingAccount: string | undefined;
}

export interface CircuitBreaker {
  /** Milliseconds until this account may try the circuit; zero lets its call through. */
  readonly admit: (circuit: string, account: string, now: number) => number;
  readonly recordSuccess: (circuit: string) => void;
  readonly recordFailure: (circuit: string, account: string, now: number) => void;
  /** Gives a probe back that ended in neither, such as one that the caller broke off. */
  readonly releaseProbe: (circuit: string, account: string) => void;
  /** Whether calls are kept away from it now: those of this account, or where none is named, anybody's. */
  readonly isOpen: (circuit: string, now: number, account?: string) => boolean;
  /** How many circuits are open. */
  readonly openCount: (now: number) => number;
}

/** The name of a circuit: a provider, the account there, and the provider's name for the model. */
export function circuitName(provider: string, account: string, upstreamName: string): string {
  return `${provider} ${account} ${upstreamName}`;
}

export function createCircuitBreaker(): CircuitBreaker {
  const circuits = new Map<string, Circuit>();
  return {
    admit: (name, account, now) => {
      const circuit = circuits.get(name);
      if (circuit === undefined || !appliesTo(circuit, account)) return 0;
      const until = openUntil(circuit, account);
      if (until > now) return until - now;
      if (circuit.probingAccount !== undefined) return OPEN_MS;
      circuit.probingAccount = account;
      return 0;
    },
    recordSuccess: (name) => {
      circuits.delete(name);
    },
    recordFailure: (name, account, now) => {
      if (circuits.size >= CIRCUITS_MAX) evictClosed(circuits, now);
      const circuit = circuits.get(name) ?? { streaks: new Map(), probingAccount: undefined };
      addFailure(circuit, account, now);
      circuits.set(name, circuit);
    },
    releaseProbe: (name, account) => {
      const circuit = circuits.get(name);
      if (circuit?.probingAccount === account) circuit.probingAccount = undefined;
    },
    isOpen: (name, now, account) => {
      const circuit = circuits.get(name);
      if (circuit === undefined) return false;
      if (account === undefined) return blocksAnyAccount(circuit, now);
      return appliesTo(circuit, account) && openUntil(circuit, account) > now;
    },
    openCount: (now) =>
      [...circuits.values()].filter((circuit) => blocksAnyAccount(circuit, now)).length,
  };
}

function addFailure(circuit: Circuit, account: string, now: number): void {
  const { streaks } = circuit;
  const wasForAll = isOpenForAll(circuit);
  const { failures } = streaks.get(account) ?? { failures: 0 };
  streaks.delete(account);
  streaks.set(account, { failures: failures + 1, openUntil: now + OPEN_MS });
  const [oldest] = streaks.keys();
  if (streaks.size > TRACKED_ACCOUNTS_MAX && oldest !== undefined) streaks.delete(oldest);
  if (!wasForAll && isOpenForAll(circuit))
    for (const streak of streaks.values()) streak.openUntil = now + OPEN_MS;
  if (circuit.probingAccount === account) circuit.probingAccount = undefined;
}

/** Whether it has opened for everybody, which takes two accounts. */
function isOpenForAll({ streaks }: Circuit): boolean {
  let counted = 0;
  for (const { failures } of streaks.values())
    counted += Math.min(failures, FAILURES_COUNTED_PER_ACCOUNT_MAX);
  return counted >= FAILURES_MAX;
}

function appliesTo(circuit: Circuit, account: string): boolean {
  return (circuit.streaks.get(account)?.failures ?? 0) >= FAILURES_MAX || isOpenForAll(circuit);
}

// A failed probe keeps away the account that made it; the others try for themselves, until a second one has failed too.
function openUntil(circuit: Circuit, account: string): number {
  const own = circuit.streaks.get(account)?.openUntil ?? 0;
  if (!isOpenForAll(circuit)) return own;
  const [, second = 0] = [...circuit.streaks.values()]
    .map(({ openUntil }) => openUntil)
    .sort((a, b) => b - a);
  return Math.max(own, second);
}

/** Whether the calls of anybody are kept away now. */
function blocksAnyAccount(circuit: Circuit, now: number): boolean {
  return [...circuit.streaks.keys()].some(
    (account) => appliesTo(circuit, account) && openUntil(circuit, account) > now,
  );
}

// Callers with keys of their own make as many circuits as they like: those that keep calls away now stay.
function evictClosed(circuits: Map<string, Circuit>, now: number): void {
  for (const [name, circuit] of circuits)
    if (!blocksAnyAccount(circuit, now)) circuits.delete(name);
  if (circuits.size >= CIRCUITS_MAX) circuits.clear();
}
