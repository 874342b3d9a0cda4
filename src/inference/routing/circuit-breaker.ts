// A circuit breaker per provider, credential and model. A circuit opens after consecutive failures and lets one probe
// through when its time is over. Failures of a single account may be caused by its own requests, so they open the circuit
// only for that account.

import { SECOND_MS } from "../../base/time.ts";

const FAILURES_MAX = 5;
/** One account's failures count up to this for the other accounts: too few to open the circuit on their own. */
const FAILURES_COUNTED_PER_ACCOUNT_MAX = FAILURES_MAX - 2;
const OPEN_MS = 30 * SECOND_MS;
const CIRCUITS_MAX = 10_000;
/** Accounts tracked per circuit; those that failed last are kept. Two are enough to open a circuit for all. */
const TRACKED_ACCOUNTS_MAX = FAILURES_MAX;

/** Failures of one account since the last success of any account. */
interface FailureStreak {
  failures: number;
  openUntil: number;
}

interface Circuit {
  /** By account, the last failure at the end. */
  readonly streaks: Map<string, FailureStreak>;
  /** The account whose call is the current probe. */
  probingAccount: string | undefined;
}

export interface CircuitBreaker {
  /** Milliseconds until this account may call; 0 lets the call through. */
  readonly admit: (circuit: string, account: string, now: number) => number;
  readonly recordSuccess: (circuit: string) => void;
  readonly recordFailure: (circuit: string, account: string, now: number) => void;
  /** Ends a probe without a result, such as one that the caller aborted. */
  readonly releaseProbe: (circuit: string, account: string) => void;
  /** Whether the circuit is open for this account; without `account`, for any account. */
  readonly isOpen: (circuit: string, now: number, account?: string) => boolean;
  /** The names of the circuits that are open for at least one account. */
  readonly listOpen: (now: number) => readonly string[];
}

/** `account` is the label of the credential at the provider. */
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
    listOpen: (now) =>
      [...circuits].flatMap(([name, circuit]) => (blocksAnyAccount(circuit, now) ? [name] : [])),
  };
}

function addFailure(circuit: Circuit, account: string, now: number): void {
  const { streaks } = circuit;
  const wasOpenForAll = isOpenForAll(circuit);
  const { failures } = streaks.get(account) ?? { failures: 0 };
  streaks.delete(account);
  streaks.set(account, { failures: failures + 1, openUntil: now + OPEN_MS });
  const [oldest] = streaks.keys();
  if (streaks.size > TRACKED_ACCOUNTS_MAX && oldest !== undefined) streaks.delete(oldest);
  if (!wasOpenForAll && isOpenForAll(circuit))
    for (const streak of streaks.values()) streak.openUntil = now + OPEN_MS;
  if (circuit.probingAccount === account) circuit.probingAccount = undefined;
}

/** Opening a circuit for all takes failures of at least two accounts. */
function isOpenForAll({ streaks }: Circuit): boolean {
  let counted = 0;
  for (const { failures } of streaks.values())
    counted += Math.min(failures, FAILURES_COUNTED_PER_ACCOUNT_MAX);
  return counted >= FAILURES_MAX;
}

function appliesTo(circuit: Circuit, account: string): boolean {
  return (circuit.streaks.get(account)?.failures ?? 0) >= FAILURES_MAX || isOpenForAll(circuit);
}

// A failed probe blocks the account that made it. The others may probe themselves until a second account has failed too.
function openUntil(circuit: Circuit, account: string): number {
  const own = circuit.streaks.get(account)?.openUntil ?? 0;
  if (!isOpenForAll(circuit)) return own;
  const [, second = 0] = [...circuit.streaks.values()]
    .map(({ openUntil }) => openUntil)
    .sort((a, b) => b - a);
  return Math.max(own, second);
}

/** Whether the circuit is open for at least one account. */
function blocksAnyAccount(circuit: Circuit, now: number): boolean {
  return [...circuit.streaks.keys()].some(
    (account) => appliesTo(circuit, account) && openUntil(circuit, account) > now,
  );
}

// Callers with their own provider keys can create any number of circuits; open circuits are evicted last.
function evictClosed(circuits: Map<string, Circuit>, now: number): void {
  for (const [name, circuit] of circuits)
    if (!blocksAnyAccount(circuit, now)) circuits.delete(name);
  if (circuits.size >= CIRCUITS_MAX) circuits.clear();
}
