// The progress of the long scripts of this repository, such as `npm run fuzz`: the helper of the commands, on this process.

import { type Progress, type ProgressOptions, startProgress } from "../../src/commands/progress.ts";

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
