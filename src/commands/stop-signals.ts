// The signals that stop `postern serve`.

import type { CliEnv } from "./command.ts";

/** npm and the launcher forward one Ctrl-C several times; a second one by a person comes later. */
const DEBOUNCE_MS = 1_000;

/** Calls `onFirst` for the first signal, and `onLater` for those that follow. */
export function onStopSignals(
  { onSignal }: Pick<CliEnv, "onSignal">,
  onFirst: (signal: string) => void,
  onLater: () => void,
): void {
  let lastAt: number | undefined;
  for (const signal of ["SIGTERM", "SIGINT"] as const)
    onSignal(signal, () => {
      const at = performance.now();
      const before = lastAt;
      if (before !== undefined && at - before <= DEBOUNCE_MS) return;
      lastAt = at;
      if (before === undefined) onFirst(signal);
      else onLater();
    });
}
