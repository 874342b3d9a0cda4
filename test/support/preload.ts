// Runs before the test files of each process (bunfig.toml).

import { afterAll } from "bun:test";
import { configureGlobal } from "fast-check";
import { cpuSecondsOf } from "./process-cpu.ts";
import { endProcess } from "./process-end.ts";
import { removeScratchFolders } from "./scratch-folder.ts";

const isRepeatable = process.env["POSTERN_TEST_SEED"] !== undefined;
const { TEST_SEED } = await import("./random.ts");
configureGlobal({ seed: TEST_SEED });
// `npm test` prints the seed itself.
if (!isRepeatable) console.error(`seed ${TEST_SEED}: POSTERN_TEST_SEED=${TEST_SEED} repeats it`);

// Bun emits no `exit` event in a process of tests.
afterAll(async () => {
  await endProcess();
  removeScratchFolders();
  // `npm test` reads it: /proc does not tell of a process that has ended.
  const { own, children } = cpuSecondsOf("self");
  if (process.env["POSTERN_TEST_CPU"] !== undefined) console.error(`cpu ${own} ${children}`);
});
