// `npm run chaos -- [faults] [seed]`: faults of gateways, stores, providers and clients, on both stores. It prints its seed,
// which repeats them. `--store postgres` runs on one store, `--only kill` has only faults with the word in their name, and
// `--busy-key` has one key for all calls, so that gateways on PostgreSQL decide more holds on credit leases. `--store citus`
// needs a PostgreSQL with Citus in the folder POSTERN_TEST_POSTGRES_HOME.

import { parseArgs } from "node:util";
import { DEFAULT_STORES, runChaos, STORES } from "./chaos.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    store: { type: "string" },
    only: { type: "string", default: "" },
    "busy-key": { type: "boolean", default: false },
  },
});
const faults = Number(positionals[0] ?? 60);
const seed = Number(positionals[1] ?? Date.now() % 1_000_000_000);
const stores =
  values.store === undefined ? DEFAULT_STORES : STORES.filter((store) => store === values.store);
if (stores.length === 0) throw new Error(`--store is one of ${STORES.join(", ")}`);
const started = performance.now();
let failed = 0;
let verified = 0;

console.log(`seed ${seed}`);
for (const store of stores) {
  const result = await runChaos({
    store,
    seed,
    faults,
    only: values.only,
    hasBusyKey: values["busy-key"],
    onFault: (name) =>
      console.log(`${((performance.now() - started) / 1_000).toFixed(1)} s  ${store}: ${name}`),
    onVerified: ({ problems, openLeases }) => {
      verified += 1;
      const ledger = problems.length === 0 ? "exact" : problems.join(", ");
      console.log(`  ${verified} verified, ledger: ${ledger}; open leases: ${openLeases}`);
    },
  });
  const { calls, completed, leases } = result;
  console.log(`${store}: ${calls} calls, ${completed} of them served completely`);
  if (leases > 0) console.log(`${store}: ${leases} credit leases were open after faults`);
  for (const failure of result.failures) console.log(failure);
  failed += result.failures.length;
}
console.log(`${failed} failures, seed ${seed}`);
process.exit(failed === 0 ? 0 : 1);
