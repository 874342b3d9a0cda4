// The world of a simulation: virtual time, one queue of events and one source of randomness. Each event belongs to a process,
// or to none (a client, the store). The promises that an event resolves run before the next event, so a seed repeats exactly.

import { drainMicrotasks } from "bun:jsc";
import { seededRandom } from "../inference/support/raw-provider.ts";

export interface Actor {
  readonly name: string;
  /** Changes when the process dies: what belongs to an earlier life does not happen. */
  life: number;
  frozenUntil: number;
  /** How far its clock is from the true time. */
  clockOffsetMs: number;
}

interface WorldRandom {
  /** At least 0, below 1. */
  readonly next: () => number;
  readonly integer: (below: number) => number;
  readonly chance: (probability: number) => boolean;
  readonly pick: <T>(items: readonly T[]) => T;
}

/** Earlier seeds were found without rolling holds, and repeat exactly. */
const ROLLING_FROM_SEED = 1_000;
/** The same, without leases. */
const LEASES_FROM_SEED = 1_000_000;
/** The same, without collected replies and commits that follow their writes. */
const COLLECTED_FROM_SEED = 2_000_000;
/** One in so many of these seeds is without leases. */
const SEEDS_PER_ONE_WITHOUT_LEASES = 8;

export interface World {
  /** Whether the holds of streams grow with their replies. */
  readonly hasRollingHolds: boolean;
  /** Whether gateways decide holds on leases. */
  readonly hasLeases: boolean;
  /** Whether a whole reply is collected from a stream if credits are short. */
  readonly hasCollectedReplies: boolean;
  /** Whether the store takes a commit before it has replied to the writes. */
  readonly hasEarlyCommits: boolean;
  /** Whether callers wait longer after a refusal that will not change soon. */
  readonly hasRestingCallers: boolean;
  readonly random: WorldRandom;
  /** Milliseconds since the start. */
  readonly now: () => number;
  readonly schedule: (actor: Actor | undefined, delayMs: number, run: () => void) => void;
  /** Runs events until this time, or until there are none. */
  readonly runUntil: (time: number) => void;
  /** Runs `work` with timers and the monotonic clock of this world. */
  readonly inside: <T>(work: () => T) => T;
  readonly events: () => number;
  /** Of all events so far. */
  readonly trace: (text: string) => void;
  readonly hash: () => number;
}

interface Event {
  readonly at: number;
  readonly order: number;
  readonly actor: Actor | undefined;
  readonly life: number;
  readonly run: () => void;
}

export function createWorld(seed: number): World {
  const random = createRandom(seed);
  const isLatest = seed >= COLLECTED_FROM_SEED;
  const heap: Event[] = [];
  let time = 0;
  let count = 0;
  let hash = 0;
  let current: Actor | undefined;
  const schedule: World["schedule"] = (actor, delayMs, run) => {
    // A random order of what is due at the same time.
    push(heap, {
      at: time + Math.max(0, delayMs),
      order: random.next(),
      actor,
      life: actor?.life ?? 0,
      run,
    });
  };
  const runEvent = (event: Event): void => {
    const { actor, life, run } = event;
    if (actor !== undefined && actor.life !== life) return;
    if (actor !== undefined && actor.frozenUntil > time) {
      push(heap, { ...event, at: actor.frozenUntil + random.next() });
      return;
    }
    count += 1;
    current = actor;
    run();
    drainMicrotasks();
    current = undefined;
  };
  const world: World = {
    hasRollingHolds: seed >= ROLLING_FROM_SEED,
    hasLeases: seed >= LEASES_FROM_SEED && (!isLatest || seed % SEEDS_PER_ONE_WITHOUT_LEASES > 0),
    hasCollectedReplies: isLatest,
    hasEarlyCommits: isLatest,
    hasRestingCallers: isLatest,
    random,
    now: () => time,
    schedule,
    runUntil: (end) => {
      for (;;) {
        const first = heap[0];
        if (first === undefined || first.at > end) break;
        pop(heap);
        time = first.at;
        runEvent(first);
      }
      time = end;
    },
    inside: (work) =>
      withVirtualTimers(
        { now: () => time, schedule: (delay, run) => schedule(current, delay, run) },
        work,
      ),
    events: () => count,
    trace: (text) => {
      const entry = `${time} ${text}`;
      for (let index = 0; index < entry.length; index++)
        hash = (Math.imul(hash, 31) + entry.charCodeAt(index)) | 0;
    },
    hash: () => hash,
  };
  return world;
}

function createRandom(seed: number): WorldRandom {
  const next = seededRandom(seed);
  // Neighboring seeds begin alike.
  for (let step = 0; step < 8; step++) next();
  const integer = (below: number): number => Math.floor(next() * below);
  return {
    next,
    integer,
    chance: (probability) => next() < probability,
    pick: (items) => {
      const item = items[integer(items.length)];
      if (item === undefined) throw new Error("nothing to pick from");
      return item;
    },
  };
}

interface VirtualTimers {
  readonly now: () => number;
  readonly schedule: (delayMs: number, run: () => void) => void;
}

const IMMEDIATE_MS = 0.02;

function withVirtualTimers<T>({ now, schedule }: VirtualTimers, work: () => T): T {
  const real = { setTimeout, setImmediate, clearTimeout };
  const realNow: unknown = Reflect.get(performance, "now");
  const start = (run: () => void, delayMs = 0): unknown => {
    const timer = { isCleared: false, unref: () => timer, ref: () => timer };
    schedule(delayMs, () => {
      if (!timer.isCleared) run();
    });
    return timer;
  };
  const replace = (values: Readonly<Record<string, unknown>>): void =>
    void Object.assign(globalThis, values);
  replace({
    setTimeout: start,
    setImmediate: (run: () => void) => start(run, IMMEDIATE_MS),
    clearTimeout: (timer: { isCleared: boolean } | undefined) => {
      if (timer !== undefined) timer.isCleared = true;
    },
  });
  performance.now = now;
  try {
    return work();
  } finally {
    replace({
      setTimeout: real.setTimeout,
      setImmediate: real.setImmediate,
      clearTimeout: real.clearTimeout,
    });
    Object.assign(performance, { now: realNow });
  }
}

function isBefore(left: Event, right: Event): boolean {
  return left.at < right.at || (left.at === right.at && left.order < right.order);
}

function push(heap: Event[], event: Event): void {
  let index = heap.length;
  heap.push(event);
  while (index > 0) {
    const parent = (index - 1) >> 1;
    const above = heap[parent];
    if (above === undefined || isBefore(above, event)) break;
    heap[index] = above;
    index = parent;
  }
  heap[index] = event;
}

function pop(heap: Event[]): void {
  const last = heap.pop();
  if (last === undefined || heap.length === 0) return;
  let index = 0;
  for (;;) {
    let child = 2 * index + 1;
    let below = heap[child];
    const right = heap[child + 1];
    if (below !== undefined && right !== undefined && isBefore(right, below)) {
      below = right;
      child += 1;
    }
    if (below === undefined || isBefore(last, below)) break;
    heap[index] = below;
    index = child;
  }
  heap[index] = last;
}
