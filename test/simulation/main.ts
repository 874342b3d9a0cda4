// `npm run simulate -- --seeds N --from S --jobs J`: runs seeds in J processes, one per core by default, and prints those that
// fail, with what was wrong.

import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { exitIfInterrupted, startScriptProgress } from "../support/script-progress.ts";
import { createSimulator } from "./simulate.ts";

interface Sums {
  readonly failed: number;
  readonly events: number;
  readonly cpuMs: number;
}

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "1000" },
    from: { type: "string", default: "1" },
    jobs: { type: "string", default: String(availableParallelism()) },
    child: { type: "boolean", default: false },
  },
});
const [count, from, jobs] = [Number(values.seeds), Number(values.from), Number(values.jobs)];
if (!values.child) process.exit(await runJobs());
process.send?.(await runSeeds());
process.exit(0);

/** Returns the exit status. */
async function runJobs(): Promise<number> {
  const started = performance.now();
  const progress = startScriptProgress({
    unit: "seeds",
    verb: "ran",
    whenInterrupted: `npm run simulate -- --seeds ${count} --from ${from} begins again.`,
  });
  let done = 0;
  const onSeeds = (seeds: number): void => {
    done += seeds;
    try {
      progress.update(done, count);
    } catch (error) {
      exitIfInterrupted(error);
    }
  };
  const ends = Array.from({ length: jobs + 1 }, (_, job) => Math.floor((count * job) / jobs));
  const all = await Promise.all(
    ends.slice(1).map((end, job) => {
      const first = ends[job] ?? 0;
      return runJob(from + first, end - first, onSeeds);
    }),
  );
  progress.end(count);
  const minutes = (performance.now() - started) / 60_000;
  const failed = all.reduce((sum, job) => sum + job.failed, 0);
  const events = all.reduce((sum, job) => sum + job.events, 0);
  const cpuMinutes = all.reduce((sum, job) => sum + job.cpuMs, 0) / 60_000;
  const rates = (unit: string, time: number): string =>
    `${Math.round(count / time)} seeds and ${Math.round(events / time)} events a ${unit}`;
  console.log(
    `${count} seeds from ${from} in ${jobs} processes, ${failed} fail; ${rates("minute", minutes)}, ${rates("CPU minute", cpuMinutes)}`,
  );
  return failed === 0 ? 0 : 1;
}

async function runJob(
  first: number,
  seeds: number,
  onSeeds: (seeds: number) => void,
): Promise<Sums> {
  const result = Promise.withResolvers<Sums>();
  const child = Bun.spawn(
    [process.execPath, import.meta.path, "--child", "--seeds", `${seeds}`, "--from", `${first}`],
    {
      stdout: "inherit",
      stderr: "inherit",
      ipc: (message: Sums | number) =>
        typeof message === "number" ? onSeeds(message) : result.resolve(message),
    },
  );
  void child.exited.then((status) => result.reject(new Error(`a job exited with ${status}`)));
  return await result.promise;
}

async function runSeeds(): Promise<Sums> {
  const simulator = await createSimulator();
  const before = process.cpuUsage();
  let failed = 0;
  let events = 0;
  for (let seed = from; seed < from + count; seed++) {
    // A new turn of the event loop, because the simulation drains the promises of its own.
    const result = await new Promise<ReturnType<typeof simulator.run>>((resolve) =>
      setTimeout(() => resolve(simulator.run(seed))),
    );
    events += result.events;
    process.send?.(1);
    if (result.problems.length === 0) continue;
    failed += 1;
    console.log(`seed ${seed} fails:`);
    for (const problem of result.problems) console.log(`  ${problem}`);
  }
  const { user, system } = process.cpuUsage(before);
  return { failed, events, cpuMs: (user + system) / 1_000 };
}
