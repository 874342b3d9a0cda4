// Waits for a condition instead of sleeping for a fixed time: as fast as the condition, with a deadline that only a
// failure reaches.

export interface EventuallyOptions {
  readonly timeoutMs?: number;
  /** The shortest time between two checks. */
  readonly pollMs?: number;
}

/** Below the time limit of a test, so that a failure names the last result. */
const TIMEOUT_MS = 180_000;
const POLL_MS = 5;
const STABLE_READS = 40;
/** Of the time waited so far: a check may cost a request or a query, so a long wait checks less often. */
const POLL_SHARE = 0.05;

type Falsy = false | 0 | 0n | "" | null | undefined;

/** Calls `check` until it returns a truthy value and returns that value. A check that throws counts as not yet true. */
export async function eventually<T extends object | string | number | bigint | true>(
  check: () => T | Falsy | Promise<T | Falsy>,
  options: EventuallyOptions = {},
): Promise<Exclude<T, Falsy>> {
  const { timeoutMs = TIMEOUT_MS, pollMs = POLL_MS } = options;
  // Not performance.now, which some tests move forward.
  const started = Bun.nanoseconds();
  for (;;) {
    const { value, error } = await evaluate(check);
    // Only a truthy value gets here, which is what the type excludes.
    if (value) return value as Exclude<T, Falsy>;
    const waitedMs = (Bun.nanoseconds() - started) / 1e6;
    if (waitedMs > timeoutMs)
      throw new Error(
        `not true within ${timeoutMs} ms, last result: ${Bun.inspect(error ?? value)}`,
        { cause: error },
      );
    await pauseBetweenChecks(waitedMs, pollMs);
  }
}

/** Calls `assertions` until none of them throws; the last failure is thrown at the deadline. */
export async function eventuallyPasses(
  assertions: () => void | Promise<void>,
  options: EventuallyOptions = {},
): Promise<void> {
  await eventually(async () => {
    await assertions();
    return true;
  }, options);
}

/** Waits until a value no longer changes, and returns it. For what must stop, where no event follows. */
export async function untilStable(read: () => number): Promise<number> {
  let value = read();
  for (let reads = 0; reads < STABLE_READS; reads++) {
    await Bun.sleep(POLL_MS);
    if (read() !== value) reads = 0;
    value = read();
  }
  return value;
}

export function pauseBetweenChecks(waitedMs: number, pollMs = POLL_MS): Promise<void> {
  return Bun.sleep(Math.max(pollMs, waitedMs * POLL_SHARE));
}

async function evaluate<T>(check: () => T | Promise<T>): Promise<{ value?: T; error?: unknown }> {
  try {
    return { value: await check() };
  } catch (error) {
    return { error };
  }
}
