// Runs before the test files of each process (bunfig.toml).

import { configureGlobal } from "fast-check";

const isRepeatable = process.env["POSTERN_TEST_SEED"] !== undefined;
const { TEST_SEED } = await import("./random.ts");
configureGlobal({ seed: TEST_SEED });
// `npm test` prints the seed itself.
if (!isRepeatable) console.error(`seed ${TEST_SEED}: POSTERN_TEST_SEED=${TEST_SEED} repeats it`);
