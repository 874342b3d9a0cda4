// Runs every background job of a gateway once.

import { createLog } from "../../src/base/log.ts";
import type { Config } from "../../src/config/config.ts";
import { createOverloadGuard } from "../../src/http/guards/overload.ts";
import { createJobs } from "../../src/server/jobs.ts";
import { createServices } from "../../src/server/services.ts";
import { shutdown } from "../../src/server/shutdown.ts";

/** Returns the errors by the name of the job. */
export async function runJobs(config: Config): Promise<ReadonlyMap<string, unknown>> {
  const ofJobs = { ...config, processName: "jobs" };
  const options = {
    log: createLog({ level: "error", isPretty: false, now: Date.now, write: () => {} }),
    now: Date.now,
    version: "0.0.0-test",
    onFatal: () => {},
  };
  const services = await createServices(ofJobs, options, createOverloadGuard());
  const failed = new Map<string, unknown>();
  for (const { name, run } of createJobs(ofJobs, options, services))
    await run().catch((error: unknown) => failed.set(name, error));
  await shutdown(services, async () => {}, Date.now);
  return failed;
}
