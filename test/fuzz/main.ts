// `npm run fuzz -- [requests] [seed] [first index]`: sends generated requests to a gateway. `npm run fuzz -- money [cases] [seed]
// [first index] [sqlite|postgres]`: checks that every call is paid for or owed. Both print their seed, and for each failure the line that repeats
// it.

import { exitIfInterrupted, startScriptProgress } from "../support/script-progress.ts";
import { runFuzz } from "./fuzz.ts";
import { runMoneyFuzz } from "./money/money-fuzz.ts";

if (process.argv[2] === "money") await fuzzMoney();

const requests = Number(process.argv[2] ?? 200_000);
const seed = Number(process.argv[3] ?? Date.now() % 1_000_000_000);
const from = Number(process.argv[4] ?? 0);

console.log(`seed ${seed}`);
const progress = startScriptProgress({
  unit: "requests",
  verb: "sent",
  whenInterrupted: `npm run fuzz -- ${requests} ${seed} repeats it.`,
});
const result = await runFuzz({
  seed,
  requests,
  from,
  onProgress: (done, heapMiB) => progress.update(done, requests, `heap ${heapMiB} MiB`),
}).catch(exitIfInterrupted);
progress.end(requests);
console.log(`statuses ${JSON.stringify(result.statuses)}`);
console.log(`open files ${result.openFiles.join(" before, ")} after`);
for (const failure of result.failures) console.log(failure);
console.log(`${result.failures.length} failures, seed ${seed}`);
process.exit(result.failures.length === 0 ? 0 : 1);

async function fuzzMoney(): Promise<never> {
  const cases = Number(process.argv[3] ?? 100_000);
  const moneySeed = Number(process.argv[4] ?? Date.now() % 1_000_000_000);
  const first = Number(process.argv[5] ?? 0);
  const store = process.argv[6] === "postgres" ? "postgres" : "sqlite";
  console.log(`seed ${moneySeed}`);
  const progress = startScriptProgress({
    unit: "cases",
    verb: "ran",
    whenInterrupted: `npm run fuzz -- money ${cases} ${moneySeed} repeats it.`,
  });
  const { failures, outcomes } = await runMoneyFuzz({
    seed: moneySeed,
    cases,
    from: first,
    store,
    onProgress: (done) => progress.update(done, cases),
  }).catch(exitIfInterrupted);
  progress.end(cases);
  console.log(`outcomes ${JSON.stringify(outcomes)}`);
  for (const failure of failures) console.log(failure);
  console.log(`${failures.length} failures in ${cases} cases, seed ${moneySeed}`);
  process.exit(failures.length === 0 ? 0 : 1);
}
