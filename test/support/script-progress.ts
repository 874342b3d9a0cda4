// The progress of the long scripts of this repository, such as `npm run fuzz`: the helper of the commands, on this process.

import { EXIT_INTERRUPTED } from "../../src/commands/command.ts";
import {
  isInterrupted,
  type Progress,
  type ProgressOptions,
  startProgress,
} from "../../src/commands/progress.ts";

/** Ends a script that Ctrl+C interrupted; throws any other error again. */
export function exitIfInterrupted(error: unknown): never {
  if (!isInterrupted(error)) throw error;
  console.error(String(error));
  process.exit(EXIT_INTERRUPTED);
}

export function startScriptProgress(options: ProgressOptions): Progress {
  return startProgress(
    {
      progress: {
        isTerminal: process.stderr.isTTY,
        write: (text) => process.stderr.write(text),
        monotonicNow: () => performance.now(),
      },
      onSignal: (signal, handler) => process.on(signal, handler),
    },
    options,
  );
}
