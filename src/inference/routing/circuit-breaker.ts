// A circuit breaker per provider, credential and model. A circuit opens after consecutive failures and lets one probe
// through when its time is over. A failure may be caused by the request, so accounts with little or no paid credit, which
// anybody can have many of, can only open a circuit for themselves: no sequence of their calls changes what another account's calls do. A
// failure to connect says nothing about the request and counts for all accounts.

import type { Fault } from "../../base/fault.ts";
import { MINUTE_MS, SECOND_MS } from "../../base/time.ts";

const FAILURES_MAX = 5;
/** One account's failures count up to this for the other accounts: too few to open the circuit on their own. */
const FAILURES_COUNTED_PER_ACCOUNT_MAX = FAILURES_MAX - 2;
/** Short, so that a caller's own retries outlast it. */
export const OPEN_MS = 10 * SECOND_MS;
/** A circuit that waits for its probe is reported as open for this long, so that an outage is reported as one. */
const LISTED_AFTER_MS = MINUTE_MS;
const CIRCUITS_MAX = 10_000;
/** Accounts tracked per circuit; those that failed last are kept. Two are enough to open a circuit for all. */
const TRACKED_ACCOUNTS_MAX = FAILURES_MAX;

export interface CircuitCaller {
  readonly accountId: string;
  /** Whether its failures count for other accounts: it is paying and uses the gateway's credential. */
  readonly isShared: boolean;
}

/** Failures of one account since the last success that counts for the circuit. */
interface FailureStreak {
  failures: number;
  openUntil: number;
  fault: Fault;
}

interface Circuit {
  /** By account, the last failure at the end. */
  readonly streaks: Map<string, FailureStreak>;
  /** The account whose call is the current probe. */
  probingAccount: string | undefined;
}

export interface OpenCircuit {
  readonly waitMs: number;
  /** The last failure. */
  readonly fault: Fault;
  /** Whether the failure was a reply to another account, whose prompt its text may quote. */
  readonly isOfOtherAccount: boolean;
}

export interface CircuitBreaker {
  /** Undefined lets the call through. */
  readonly admit: (circuit: string, caller: CircuitCaller, now: number) => OpenCircuit | undefined;
  readonly recordSuccess: (circuit: string, caller: CircuitCaller) => void;
  readonly recordFailure: (
    circuit: string,
    caller: CircuitCaller,
    failure: { readonly fault: Fault; readonly now: number },
  ) => void;
  readonly recordConnection: (circuit: string) => void;
  readonly recordConnectFailure: (
    circuit: string,
    failure: { readonly fault: Fault; readonly now: number },
  ) => void;
  /** Ends a probe without a result, such as one that the caller aborted. */
  readonly releaseProbe: (circuit: string, caller: CircuitCaller) => void;
  /** Whether the circuit is open for this account; without `account`, for any account. */
  readonly isOpen: (circuit: string, now: number, account?: string) => boolean;
  /** The names of the circuits that are open for at least one account, or wait for a probe. */
  readonly listOpen: (now: number) => readonly string[];
}

/** `account` is the label of the credential at the provider. */
export function circuitName(provider: string, account: string, upstreamName: string): string {
  return `${provider} ${account} ${upstreamName}`;
}

interface State {
  readonly shared: Map<string, Circuit>;
  /** By `ownName`: what a caller's failures open for itself alone. */
  readonly own: Map<string, Circuit>;
  /** Consecutive failures to connect. */
  readonly unreachable: Map<string, FailureStreak>;
}

const NAME_SEPARATOR = "\n";

function ownName(name: string, accountId: string): string {
  return name + NAME_SEPARATOR + accountId;
}

export function createCircuitBreaker(): CircuitBreaker {
  const state: State = { shared: new Map(), own: new Map(), unreachable: new Map() };
  const { shared, own, unreachable } = state;
  return {
    admit: (name, caller, now) => admit(state, name, caller, now),
    recordSuccess: (name, caller) => {
      if (caller.isShared) shared.delete(name);
      else if (own.size > 0) own.delete(ownName(name, caller.accountId));
    },
    recordFailure: (name, { accountId, isShared }, { fault, now }) => {
      const circuits = isShared ? shared : own;
      const id = isShared ? name : ownName(name, accountId);
      if (circuits.size >= CIRCUITS_MAX) evictClosed(circuits, now);
      const circuit = circuits.get(id) ?? { streaks: new Map(), probingAccount: undefined };
      addFailure(circuit, accountId, { fault, now });
      circuits.set(id, circuit);
    },
    recordConnection: (name) => {
      if (unreachable.size > 0) unreachable.delete(name);
    },
    recordConnectFailure: (name, { fault, now }) => {
      if (unreachable.size >= CIRCUITS_MAX) unreachable.clear();
      const failures = (unreachable.get(name)?.failures ?? 0) + 1;
      unreachable.set(name, { failures, openUntil: now + OPEN_MS, fault });
    },
    releaseProbe: (name, { accountId, isShared }) => {
      const circuit = isShared ? shared.get(name) : own.get(ownName(name, accountId));
      if (circuit?.probingAccount === accountId) circuit.probingAccount = undefined;
    },
    isOpen: (name, now, account) => {
      if (isUnreachable(unreachable.get(name), now)) return true;
      const circuit = shared.get(name);
      const ownCircuit = account === undefined ? undefined : own.get(ownName(name, account));
      return (
        (circuit !== undefined && isOpen(circuit, now, account)) ||
        (ownCircuit !== undefined && isOpen(ownCircuit, now, account))
      );
    },
    listOpen: (now) => listOpen(state, now),
  };
}

function admit(
  { shared, own, unreachable }: State,
  name: string,
  { accountId, isShared }: CircuitCaller,
  now: number,
): OpenCircuit | undefined {
  if (shared.size + own.size + unreachable.size === 0) return undefined;
  const sharedCircuit = shared.get(name);
  const circuit = isShared ? sharedCircuit : own.get(ownName(name, accountId));
  const applies = circuit !== undefined && appliesTo(circuit, accountId);
  if (applies) {
    const waitMs = openUntil(circuit, accountId) - now;
    if (waitMs > 0) return openCircuit(circuit, accountId, waitMs);
    if (circuit.probingAccount !== undefined) return openCircuit(circuit, accountId, OPEN_MS);
  }
  // A caller that does not count obeys the shared circuit and never probes it: its probe would block the others.
  if (!isShared && sharedCircuit !== undefined && isOpenForAll(sharedCircuit)) {
    const waitMs = openUntil(sharedCircuit, accountId) - now;
    if (waitMs > 0) return openCircuit(sharedCircuit, accountId, waitMs);
  }
  const streak = unreachable.get(name);
  if (streak !== undefined && streak.failures >= FAILURES_MAX) {
    const { fault } = streak;
    if (isUnreachable(streak, now))
      return { waitMs: streak.openUntil - now, fault, isOfOtherAccount: false };
    // One call at a time tries to connect; the next may follow if its result is not known by then.
    streak.openUntil = now + OPEN_MS;
  }
  if (applies) circuit.probingAccount = accountId;
  return undefined;
}

function openCircuit({ streaks }: Circuit, accountId: string, waitMs: number): OpenCircuit {
  const streak = streaks.get(accountId) ?? [...streaks.values()].at(-1);
  if (streak === undefined) throw new Error("an open circuit without a failure");
  return { waitMs, fault: streak.fault, isOfOtherAccount: !streaks.has(accountId) };
}

function addFailure(
  circuit: Circuit,
  account: string,
  { fault, now }: { readonly fault: Fault; readonly now: number },
): void {
  const { streaks } = circuit;
  const wasOpenForAll = isOpenForAll(circuit);
  const { failures } = streaks.get(account) ?? { failures: 0 };
  streaks.delete(account);
  streaks.set(account, { failures: failures + 1, openUntil: now + OPEN_MS, fault });
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

function isUnreachable(streak: FailureStreak | undefined, now: number): boolean {
  return streak !== undefined && streak.failures >= FAILURES_MAX && streak.openUntil > now;
}

function isOpen(circuit: Circuit, now: number, account: string | undefined): boolean {
  if (account === undefined) return blocksAnyAccount(circuit, now);
  return appliesTo(circuit, account) && openUntil(circuit, account) > now;
}

/** Whether the circuit is open for at least one account. */
function blocksAnyAccount(circuit: Circuit, now: number): boolean {
  return [...circuit.streaks.keys()].some(
    (account) => appliesTo(circuit, account) && openUntil(circuit, account) > now,
  );
}

function listOpen({ shared, own, unreachable }: State, now: number): readonly string[] {
  const since = now - LISTED_AFTER_MS;
  const failing = [...shared, ...own].flatMap(([name, circuit]) =>
    blocksAnyAccount(circuit, since) ? [name.split(NAME_SEPARATOR)[0] ?? name] : [],
  );
  const unconnected = [...unreachable].flatMap(([name, streak]) =>
    isUnreachable(streak, since) ? [name] : [],
  );
  return [...new Set([...failing, ...unconnected])];
}

// Callers can create any number of own circuits; open circuits are evicted last.
function evictClosed(circuits: Map<string, Circuit>, now: number): void {
  for (const [name, circuit] of circuits)
    if (!blocksAnyAccount(circuit, now)) circuits.delete(name);
  if (circuits.size >= CIRCUITS_MAX) circuits.clear();
}
