// `npm run simulate -- --seeds N --from S`: runs seeds one after another and prints those that fail, with what was wrong.

import { parseArgs } from "node:util";
import { createSimulator } from "./simulate.ts";

const { values } = parseArgs({
  options: { seeds: { type: "string", default: "1000" }, from: { type: "string", default: "1" } },
});
const [count, from] = [Number(values.seeds), Number(values.from)];
const simulator = await createSimulator();
const started = performance.now();
let failed = 0;
let events = 0;
for (let seed = from; seed < from + count; seed++) {
  // A new turn of the event loop, because the simulation drains the promises of its own.
  const result = await new Promise<ReturnType<typeof simulator.run>>((resolve) =>
    setTimeout(() => resolve(simulator.run(seed))),
  );
  events += result.events;
  if (result.problems.length === 0) continue;
  failed += 1;
  console.log(`seed ${seed} fails:`);
  for (const problem of result.problems) console.log(`  ${problem}`);
}
const minutes = (performance.now() - started) / 60_000;
console.log(
  `${count} seeds from ${from}, ${failed} fail; ${Math.round(count / minutes)} seeds and ${Math.round(events / minutes)} events a minute`,
);
process.exit(failed === 0 ? 0 : 1);
