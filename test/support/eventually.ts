// Waits for a condition instead of sleeping for a fixed time: as fast as the condition, with a deadline that only a
// failure reaches.

export interface EventuallyOptions {
  readonly timeoutMs?: number;
}

const TIMEOUT_MS = 50_000;
const POLL_MS = 5;

type Falsy = false | 0 | 0n | "" | null | undefined;

/** Calls `check` until it returns a truthy value and returns that value. A check that throws counts as not yet true. */
export async function eventually<T extends object | string | number | bigint | true>(
  check: () => T | Falsy | Promise<T | Falsy>,
  options: EventuallyOptions = {},
): Promise<Exclude<T, Falsy>> {
  const { timeoutMs = TIMEOUT_MS } = options;
  // Not performance.now, which some tests move forward.
  const deadline = Bun.nanoseconds() + timeoutMs * 1e6;
  for (;;) {
    const { value, error } = await evaluate(check);
    // Only a truthy value gets here, which is what the type excludes.
    if (value) return value as Exclude<T, Falsy>;
    if (Bun.nanoseconds() > deadline)
      throw new Error(
        `not true within ${timeoutMs} ms, last result: ${Bun.inspect(error ?? value)}`,
        { cause: error },
      );
    await Bun.sleep(POLL_MS);
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

async function evaluate<T>(check: () => T | Promise<T>): Promise<{ value?: T; error?: unknown }> {
  try {
    return { value: await check() };
  } catch (error) {
    return { error };
  }
}
