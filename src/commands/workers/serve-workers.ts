// `postern serve --workers`: several processes on one port and one PostgreSQL.

import { readFileSync } from "node:fs";
import { invalid } from "../../base/fault.ts";
import { createLog, type Log } from "../../base/log.ts";
import type { Config } from "../../config/config.ts";
import { listen } from "../../http/listen.ts";
import type { DevIdentity } from "../../people/dev-identity.ts";
import { DEFAULT_POOL_SIZE } from "../../store/postgres-pool.ts";
import { type CliEnv, EXIT_FAILURE } from "../command.ts";
import { listenError } from "../listen-address.ts";
import { onStopSignals } from "../stop-signals.ts";
import { createSupervisor } from "./supervisor.ts";

const WORKERS_MAX = 256;
/** Connections to PostgreSQL, unless the settings say otherwise: each costs the server memory, also an idle one. */
const WORKER_CONNECTIONS = 16;
const WORKER_CONNECTIONS_MIN = 4;
/** With it, Linux moves connections that a closing listener has not accepted yet to another one, instead of resetting them. */
const MIGRATION_SETTING = "/proc/sys/net/ipv4/tcp_migrate_req";

/** The number of workers, or undefined for a single process without a supervisor. */
export function workerCount(
  flag: string | undefined,
  config: Config,
  { cores, platform }: CliEnv["workers"],
): number | undefined {
  if (flag === undefined) return undefined;
  const count = flag === "auto" ? cores : Number(flag);
  if (!Number.isInteger(count) || count < 1 || count > WORKERS_MAX)
    throw invalid(
      undefined,
      `--workers must be auto or a number from 1 to ${WORKERS_MAX}, not ${flag}`,
    );
  if (config.store.databaseUrl === undefined)
    throw invalid(
      undefined,
      "--workers needs PostgreSQL, because only one process can write to a SQLite store. Set DATABASE_URL, or leave out --workers",
    );
  if (platform !== "linux")
    throw invalid(
      undefined,
      "--workers needs Linux, where the kernel spreads the connections of a port over several processes. Leave out --workers, or run several gateways behind a load balancer",
    );
  return count;
}

export async function serveWorkers(
  count: number,
  config: Config,
  cli: CliEnv,
  devIdentity: DevIdentity | undefined,
): Promise<number> {
  const isPretty = config.log.form === "text" || (config.log.form === "auto" && cli.isTerminal);
  const log = createLog({ level: config.log.level, isPretty, now: cli.now, write: cli.print });
  const port = await findFreePort(config);
  const supervisor = createSupervisor({
    count,
    log,
    drainMs: (config.shutdownDelaySeconds + config.drainSeconds) * 1_000,
    monotonicNow: () => performance.now(),
    start: (worker, isRestarted) =>
      cli.workers.start(
        ["serve", "--worker", String(worker), ...(isRestarted ? ["--restarted"] : [])],
        workerSettings({ worker, count, port }, config, devIdentity),
      ),
  });
  const exit = Promise.withResolvers<number>();
  let isStopping = false;
  const stop = (signal: string): void => {
    isStopping = true;
    log.info("stopping the workers", { signal });
    void supervisor.stop().then((isClean) => exit.resolve(isClean ? 0 : EXIT_FAILURE));
  };
  onStopSignals(cli, stop, supervisor.stopNow);
  cli.onSignal("SIGHUP", () => {
    if (!isStopping) void supervisor.restart();
  });
  if (!(await supervisor.start())) return isStopping ? await exit.promise : EXIT_FAILURE;
  log.info("serving", { workers: count, port, base_url: baseUrlOf(config, port) });
  warnOfResets(log);
  const code = await exit.promise;
  log.info("stopped the workers", { code });
  return code;
}

// The workers share the port, so they cannot notice that another program has it.
async function findFreePort({ host, port }: Config): Promise<number> {
  try {
    const probe = listen({ host, port }, () =>
      Promise.resolve(new Response(null, { status: 503 })),
    );
    const found = probe.port;
    await probe.stop(true);
    return found;
  } catch (cause) {
    throw listenError({ host, port }, { host: "POSTERN_HOST", port: "POSTERN_PORT" }, cause);
  }
}

/** The settings in which a worker differs from the supervisor. */
export function workerSettings(
  {
    worker,
    count,
    port,
  }: { readonly worker: number; readonly count: number; readonly port: number },
  config: Config,
  devIdentity: DevIdentity | undefined,
): Readonly<Record<string, string>> {
  const identity = devIdentity?.settings;
  const { poolSize = poolSizeOf(count) } = config.store;
  return {
    POSTERN_DATABASE_POOL_SIZE: String(poolSize),
    POSTERN_PORT: String(port),
    POSTERN_BASE_URL: baseUrlOf(config, port),
    // Stays the same across restarts, so that a restarted worker releases the holds of its predecessor at once.
    POSTERN_PROCESS_NAME: `${config.processName}/${worker}`,
    ...(identity === undefined
      ? {}
      : {
          OIDC_ISSUER: identity.issuer,
          OIDC_CLIENT_ID: identity.clientId,
          OIDC_CLIENT_SECRET:
            identity.clientSecret === undefined ? "" : identity.clientSecret.reveal(),
        }),
  };
}

function poolSizeOf(workers: number): number {
  const share = Math.ceil(WORKER_CONNECTIONS / workers);
  return Math.min(Math.max(share, WORKER_CONNECTIONS_MIN), DEFAULT_POOL_SIZE);
}

function baseUrlOf({ baseUrl }: Config, port: number): string {
  return baseUrl.endsWith(":0") ? baseUrl.replace(/0$/, String(port)) : baseUrl;
}

function warnOfResets(log: Log): void {
  try {
    if (readFileSync(MIGRATION_SETTING, "utf8").trim() === "1") return;
    log.info("a worker that is replaced may reset connections that are just opened", {
      hint: "sysctl -w net.ipv4.tcp_migrate_req=1",
      docs: "/docs/scale",
    });
  } catch {
    // The kernel does not have the setting.
  }
}
