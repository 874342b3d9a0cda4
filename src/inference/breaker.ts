// Leaves a failing provider alone for a while. One circuit for each provider, credential and model: it opens after a run
// of failures, and one call tries it again when its time is over.

const FAILURES_MAX = 5;
const OPEN_MS = 30_000;
const CIRCUITS_MAX = 10_000;

interface Circuit {
  failures: number;
  openUntil: number;
  probing: boolean;
}

export interface Breaker {
  /** Milliseconds until the circuit may be tried; zero lets this call through. */
  readonly enter: (circuit: string, now: number) => number;
  readonly succeeded: (circuit: string) => void;
  readonly failed: (circuit: string, now: number) => void;
  /** Gives a probe back that ended in neither, such as one that the caller broke off. */
  readonly left: (circuit: string) => void;
  /** Whether calls are kept away from it now. */
  readonly isOpen: (circuit: string, now: number) => boolean;
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
    enter: (name, now) => {
      const circuit = circuits.get(name);
      if (circuit === undefined || circuit.failures < FAILURES_MAX) return 0;
      if (circuit.openUntil > now) return circuit.openUntil - now;
      if (circuit.probing) return OPEN_MS;
      circuit.probing = true;
      return 0;
    },
    succeeded: (name) => {
      circuits.delete(name);
    },
    failed: (name, now) => {
      if (circuits.size >= CIRCUITS_MAX) makeRoom(circuits, now);
      const circuit = circuits.get(name) ?? { failures: 0, openUntil: 0, probing: false };
      circuit.failures += 1;
      circuit.probing = false;
      circuit.openUntil = circuit.failures >= FAILURES_MAX ? now + OPEN_MS : 0;
      circuits.set(name, circuit);
    },
    left: (name) => {
      const circuit = circuits.get(name);
      if (circuit !== undefined) circuit.probing = false;
    },
    isOpen: (name, now) => (circuits.get(name)?.openUntil ?? 0) > now,
    open: (now) => [...circuits.values()].filter((circuit) => circuit.openUntil > now).length,
  };
}

// Callers with keys of their own make as many circuits as they like: those that keep calls away now stay.
function makeRoom(circuits: Map<string, Circuit>, now: number): void {
  for (const [name, { openUntil }] of circuits) if (openUntil <= now) circuits.delete(name);
  if (circuits.size >= CIRCUITS_MAX) circuits.clear();
}
