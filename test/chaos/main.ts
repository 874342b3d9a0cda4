// `npm run chaos -- [faults] [seed]`: faults of gateways, store, providers and clients. It prints its seed, which repeats them.

import { runChaos } from "./chaos.ts";

const faults = Number(process.argv[2] ?? 60);
const seed = Number(process.argv[3] ?? Date.now() % 1_000_000_000);
const started = performance.now();

console.log(`seed ${seed}`);
const result = await runChaos({
  seed,
  faults,
  onFault: (name) =>
    console.log(`${((performance.now() - started) / 1_000).toFixed(1)} s  ${name}`),
});
console.log(`${result.calls} calls, ${result.completed} of them served completely`);
for (const failure of result.failures) console.log(failure);
console.log(`${result.failures.length} failures, seed ${seed}`);
process.exit(result.failures.length === 0 ? 0 : 1);
