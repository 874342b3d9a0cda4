// Calls wait a moment for credits that open calls of their account hold. They take turns: the keys of an account in rotation, the
// calls of a key in the order of their arrival.

/** How long a call waits. */
const WAIT_MAX_MS = 300;
/** How often the ledger is asked again, because another process may have released credits. */
const POLL_MS = 50;
/** The waiting calls of a process. Further calls are refused at once. */
const WAITING_MAX = 4_096;

/** `held_by_account`: the other keys of the account would be refused, too. */
export type HoldAttempt = "done" | "held_by_key" | "held_by_account";

export interface HeldCredit {
  /** Whether calls of the account wait: a new one waits behind them. */
  readonly isAwaited: (accountId: string) => boolean;
  /** Calls `attempt` whenever credits may be free, until it is done. False if they stayed held. */
  readonly wait: (call: WaitingCall, attempt: () => Promise<HoldAttempt>) => Promise<boolean>;
  /** A hold of the account was settled. */
  readonly release: (accountId: string) => void;
}

interface WaitingCall {
  readonly accountId: string;
  readonly keyId: string;
}

interface Waiter {
  readonly attempt: () => Promise<HoldAttempt>;
  readonly finish: (isDone: boolean) => void;
  readonly fail: (error: unknown) => void;
  isTrying: boolean;
  isExpired: boolean;
}

interface AccountQueue {
  /** In the order of their turns. */
  readonly keys: Map<string, Waiter[]>;
  isRunning: boolean;
  /** Credits came free during the round. */
  isDue: boolean;
  readonly poll: ReturnType<typeof setInterval>;
}

export function createHeldCredit(waitMs = WAIT_MAX_MS): HeldCredit {
  const accounts = new Map<string, AccountQueue>();
  let count = 0;
  const remove = (accountId: string, keyId: string, waiter: Waiter): void => {
    const queue = accounts.get(accountId);
    const waiters = queue?.keys.get(keyId);
    const index = waiters?.indexOf(waiter) ?? -1;
    if (queue === undefined || waiters === undefined || index === -1) return;
    count -= 1;
    waiters.splice(index, 1);
    if (waiters.length === 0) queue.keys.delete(keyId);
    if (queue.keys.size > 0) return;
    clearInterval(queue.poll);
    accounts.delete(accountId);
  };
  const run = async (accountId: string): Promise<void> => {
    const queue = accounts.get(accountId);
    if (queue !== undefined)
      await runRounds(queue, (keyId, waiter) => remove(accountId, keyId, waiter));
  };
  const queueOf = (accountId: string): AccountQueue => {
    const existing = accounts.get(accountId);
    if (existing !== undefined) return existing;
    const poll = setInterval(() => void run(accountId), POLL_MS);
    poll.unref();
    const queue = { keys: new Map(), isRunning: false, isDue: false, poll };
    accounts.set(accountId, queue);
    return queue;
  };
  return {
    isAwaited: (accountId) => accounts.has(accountId),
    wait: ({ accountId, keyId }, attempt) => {
      if (count >= WAITING_MAX) return Promise.resolve(false);
      count += 1;
      const { promise, resolve, reject } = Promise.withResolvers<boolean>();
      const expire = (): void => {
        waiter.isExpired = true;
        // An attempt in progress decides.
        if (waiter.isTrying) return;
        remove(accountId, keyId, waiter);
        resolve(false);
      };
      const timer = setTimeout(expire, waitMs);
      const waiter: Waiter = {
        attempt,
        finish: (isDone) => {
          clearTimeout(timer);
          resolve(isDone);
        },
        fail: (error) => {
          clearTimeout(timer);
          reject(error);
        },
        isTrying: false,
        isExpired: false,
      };
      const queue = queueOf(accountId);
      const waiters = queue.keys.get(keyId);
      if (waiters === undefined) queue.keys.set(keyId, [waiter]);
      else waiters.push(waiter);
      return promise;
    },
    release: (accountId) => {
      if (accounts.has(accountId)) void run(accountId);
    },
  };
}

type RemoveWaiter = (keyId: string, waiter: Waiter) => void;

async function runRounds(queue: AccountQueue, remove: RemoveWaiter): Promise<void> {
  queue.isDue = true;
  if (queue.isRunning) return;
  queue.isRunning = true;
  while (queue.isDue) {
    queue.isDue = false;
    await runRound(queue, remove);
  }
  queue.isRunning = false;
}

/** Attempts that share a commit of the ledger. It decides them in their order. */
const ATTEMPTS_AT_ONCE = 8;

/** Tries calls in turn, until the account has nothing free. Of a key at its limit, only one call is tried. */
async function runRound(queue: AccountQueue, remove: RemoveWaiter): Promise<void> {
  const turns = turnsOf(queue);
  const blocked = new Set<string>();
  for (let at = 0; at < turns.length; at += ATTEMPTS_AT_ONCE) {
    const slice = turns.slice(at, at + ATTEMPTS_AT_ONCE);
    const tried = slice.filter(({ keyId }) => !blocked.has(keyId));
    const outcomes = await Promise.all(
      tried.map((turn) => tryTurn(turn, () => remove(turn.keyId, turn.waiter))),
    );
    outcomes.forEach((outcome, index) => {
      const keyId = tried[index]?.keyId ?? "";
      if (outcome === "held_by_key") blocked.add(keyId);
      if (outcome !== "done") return;
      queue.isDue = true;
      // Its next call is behind the other keys.
      const waiters = queue.keys.get(keyId);
      if (queue.keys.delete(keyId) && waiters !== undefined) queue.keys.set(keyId, waiters);
    });
    if (outcomes.includes("held_by_account")) return;
  }
}

interface Turn {
  readonly keyId: string;
  readonly waiter: Waiter;
}

/** The first call of each key, then the second ones, and so on. */
function turnsOf({ keys }: AccountQueue): readonly Turn[] {
  const longest = Math.max(0, ...Array.from(keys.values(), ({ length }) => length));
  return Array.from({ length: longest }, (_, index) =>
    Array.from(keys).flatMap(([keyId, { [index]: waiter }]) =>
      waiter === undefined ? [] : [{ keyId, waiter }],
    ),
  ).flat();
}

async function tryTurn({ waiter }: Turn, remove: () => void): Promise<HoldAttempt> {
  if (waiter.isExpired) return "held_by_key";
  waiter.isTrying = true;
  try {
    const outcome = await waiter.attempt();
    waiter.isTrying = false;
    if (outcome !== "done" && !waiter.isExpired) return outcome;
    remove();
    waiter.finish(outcome === "done");
    return outcome;
  } catch (error) {
    remove();
    waiter.fail(error);
    return "done";
  }
}
