// Runs before the test files of each process (bunfig.toml).

import { configureGlobal } from "fast-check";
import { cpuSecondsOf } from "./process-cpu.ts";

const isRepeatable = process.env["POSTERN_TEST_SEED"] !== undefined;
const { TEST_SEED } = await import("./random.ts");
configureGlobal({ seed: TEST_SEED });
// `npm test` prints the seed itself.
if (!isRepeatable) console.error(`seed ${TEST_SEED}: POSTERN_TEST_SEED=${TEST_SEED} repeats it`);

// `npm test` reads it: /proc does not tell of a process that has ended.
if (process.env["POSTERN_TEST_CPU"] !== undefined)
  process.on("exit", () => {
    const { own, children } = cpuSecondsOf("self");
    console.error(`cpu ${own} ${children}`);
  });
