// Settings of the processes that share one PostgreSQL.

import { z } from "zod";
import { integer } from "./schema.ts";

const WORKER_PORT_MAX = 65_279;

export interface ProcessConfig {
  readonly processName: string;
  /** The port on which the first worker also listens alone; the others use the following ones. */
  readonly workerPort?: number;
}

export const PROCESS_SETTINGS: Readonly<
  Record<string, { readonly defaultValue: string; readonly description: string }>
> = {
  POSTERN_PROCESS_NAME: {
    defaultValue: "<host name>:<port>",
    description:
      "A name that is unique among the processes of one PostgreSQL and stays the same across restarts.",
  },
  POSTERN_WORKER_PORT: {
    defaultValue: "",
    description:
      "With `serve --workers`: worker 1 also listens alone on this port, worker 2 on the next one, and so on. For `/metrics` of each worker.",
  },
};

export const PROCESS_ENVIRONMENT = {
  POSTERN_PROCESS_NAME: z.string().min(1).max(200).optional(),
  POSTERN_WORKER_PORT: integer(1, WORKER_PORT_MAX).optional(),
};

const ProcessEnv = z.object(PROCESS_ENVIRONMENT);

export function processConfigFrom(
  env: z.infer<typeof ProcessEnv>,
  defaultName: string,
): ProcessConfig {
  const { POSTERN_PROCESS_NAME: processName = defaultName, POSTERN_WORKER_PORT: workerPort } = env;
  return { processName, ...(workerPort === undefined ? {} : { workerPort }) };
}
