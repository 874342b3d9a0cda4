// Leaves a failing provider alone for a while. One circuit for each provider, credential and model: it opens after a run
// of failures, and one call tries it again when its time is over. What one account alone has run into may be of its own
// making, so it opens the circuit for that account alone.

const FAILURES_MAX = 5;
/** So many of one account's failures count for the others: less than opens, however many it provokes. */
const ALONE_MAX = FAILURES_MAX - 2;
const OPEN_MS = 30_000;
const CIRCUITS_MAX = 10_000;

interface Circuit {
  failures: number;
  openUntil: number;
  probing: boolean;
  /** The account that all these failures are of; undefined once there are two. */
  by: string | undefined;
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
      if (circuit === undefined || circuit.failures < FAILURES_MAX) return 0;
      if (!concerns(circuit, account)) return 0;
      if (circuit.openUntil > now) return circuit.openUntil - now;
      if (circuit.probing) return OPEN_MS;
      circuit.probing = true;
      return 0;
    },
    succeeded: (name) => {
      circuits.delete(name);
    },
    failed: (name, account, now) => {
      if (circuits.size >= CIRCUITS_MAX) makeRoom(circuits, now);
      const circuit = circuits.get(name) ?? newCircuit(account);
      if (!concerns(circuit, account)) {
        circuit.by = undefined;
        circuit.failures = Math.min(circuit.failures, ALONE_MAX);
      }
      circuit.failures += 1;
      circuit.probing = false;
      circuit.openUntil = circuit.failures >= FAILURES_MAX ? now + OPEN_MS : 0;
      circuits.set(name, circuit);
    },
    left: (name, account) => {
      const circuit = circuits.get(name);
      if (circuit !== undefined && concerns(circuit, account)) circuit.probing = false;
    },
    isOpen: (name, now, account) => {
      const circuit = circuits.get(name);
      if (circuit === undefined || circuit.openUntil <= now) return false;
      return account === undefined || concerns(circuit, account);
    },
    open: (now) => [...circuits.values()].filter((circuit) => circuit.openUntil > now).length,
  };
}

function newCircuit(by: string): Circuit {
  return { failures: 0, openUntil: 0, probing: false, by };
}

function concerns({ by }: Circuit, account: string): boolean {
  return by === undefined || by === account;
}

// Callers with keys of their own make as many circuits as they like: those that keep calls away now stay.
function makeRoom(circuits: Map<string, Circuit>, now: number): void {
  for (const [name, { openUntil }] of circuits) if (openUntil <= now) circuits.delete(name);
  if (circuits.size >= CIRCUITS_MAX) circuits.clear();
}
