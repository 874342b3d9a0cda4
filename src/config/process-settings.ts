// Settings of the processes that share one PostgreSQL.

import { z } from "zod";
import { integer, settings, type SettingValues } from "./setting-schemas.ts";

const WORKER_PORT_MAX = 65_279;
/** A long read, such as an export, keeps one connection. */
const POOL_SIZE_MIN = 2;
const POOL_SIZE_MAX = 1_000;

export interface ProcessConfig {
  readonly processName: string;
  /** The port on which the first worker also listens alone; the others use the following ones. */
  readonly workerPort?: number;
}

export const PROCESS_SETTINGS = settings({
  POSTERN_PROCESS_NAME: [
    z.string().min(1).max(200).optional(),
    "<host name>:<port>",
    "A name that is unique among the processes of one PostgreSQL and stays the same across restarts.",
  ],
  POSTERN_DATABASE_POOL_SIZE: [
    integer(POOL_SIZE_MIN, POOL_SIZE_MAX).optional(),
    "10",
    "Connections that each process opens to PostgreSQL. By default, several workers of `serve --workers` open 16 together, and each at least 4. All processes together must stay below `max_connections` of the server.",
  ],
  POSTERN_WORKER_PORT: [
    integer(1, WORKER_PORT_MAX).optional(),
    "",
    "With `serve --workers`: worker 1 also listens alone on this port, worker 2 on the next one, and so on. For `/metrics` of each worker.",
  ],
});

export function processConfigFrom(
  env: SettingValues<typeof PROCESS_SETTINGS>,
  defaultName: string,
): ProcessConfig {
  const { POSTERN_PROCESS_NAME: processName = defaultName, POSTERN_WORKER_PORT: workerPort } = env;
  return { processName, ...(workerPort === undefined ? {} : { workerPort }) };
}

// Settings of how a process stops.
export const SHUTDOWN_SETTINGS = settings({
  POSTERN_SHUTDOWN_DELAY_SECONDS: [
    integer(0, 600).optional(),
    "5; 0 in development",
    "How long requests are still served after SIGTERM, while `/readyz` already answers 503: longer than your load balancer needs to notice.",
  ],
  POSTERN_DRAIN_SECONDS: [
    integer(0, 3_600).default(30),
    "30",
    "How long requests in flight may take to finish after the shutdown delay.",
  ],
});
