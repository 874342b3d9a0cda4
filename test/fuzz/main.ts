// `npm run fuzz -- [requests] [seed] [first index]`: sends generated requests to a gateway. It prints its seed, and for each
// failure the line that repeats it.

import { runFuzz } from "./fuzz.ts";

const requests = Number(process.argv[2] ?? 200_000);
const seed = Number(process.argv[3] ?? Date.now() % 1_000_000_000);
const from = Number(process.argv[4] ?? 0);
const started = performance.now();

console.log(`seed ${seed}`);
const result = await runFuzz({
  seed,
  requests,
  from,
  onProgress: (done, heapMiB) =>
    console.log(
      `${done} requests in ${((performance.now() - started) / 1_000).toFixed(0)} s, heap ${heapMiB} MiB`,
    ),
});
console.log(`statuses ${JSON.stringify(result.statuses)}`);
console.log(`open files ${result.openFiles.join(" before, ")} after`);
for (const failure of result.failures) console.log(failure);
console.log(`${result.failures.length} failures, seed ${seed}`);
process.exit(result.failures.length === 0 ? 0 : 1);
