// `npm run chaos -- [faults] [seed]`: faults of gateways, stores, providers and clients, on both stores. It prints its seed,
// which repeats them.

import { runChaos, STORES } from "./chaos.ts";

const faults = Number(process.argv[2] ?? 60);
const seed = Number(process.argv[3] ?? Date.now() % 1_000_000_000);
const started = performance.now();
let failed = 0;

console.log(`seed ${seed}`);
for (const store of STORES) {
  const result = await runChaos({
    store,
    seed,
    faults,
    onFault: (name) =>
      console.log(`${((performance.now() - started) / 1_000).toFixed(1)} s  ${store}: ${name}`),
  });
  console.log(`${store}: ${result.calls} calls, ${result.completed} of them served completely`);
  for (const failure of result.failures) console.log(failure);
  failed += result.failures.length;
}
console.log(`${failed} failures, seed ${seed}`);
process.exit(failed === 0 ? 0 : 1);
