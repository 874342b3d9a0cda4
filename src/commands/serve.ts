// `postern serve`: starts the gateway, and shuts it down gracefully: refuse new work, finish work in flight, settle, exit.

import { createLog, type Log } from "../base/log.ts";
import { usdText } from "../base/money/money.ts";
import type { Config } from "../config/config.ts";
import { listen, type Listener } from "../http/listen.ts";
import { type DevIdentity, startDevIdentity } from "../people/dev-identity.ts";
import type { Server } from "../server/server.ts";
import {
  booleanFlag,
  type CliEnv,
  type Command,
  EXIT_FAILURE,
  type ParsedArgs,
  stringFlag,
} from "./command.ts";
import { logServiceProblems } from "./doctor/check-services.ts";
import { listenError } from "./listen-address.ts";
import { onStopSignals } from "./stop-signals.ts";
import { withConfig } from "./with-store.ts";
import { serveWorkers, workerCount } from "./workers/serve-workers.ts";

const DRAIN_POLL_MS = 50;
/** How long a worker that leaves the port still serves its connections. */
const LEAVE_PORT_MS = 1_000;
/** For the responses of calls that the end of the drain interrupted. */
const LAST_RESPONSES_MS = 2_500;
/** How long calls that the drain cut off may take to be charged. */
const SETTLE_SECONDS = 10;

export const serve: Command = {
  summary: "Run the gateway; the default command",
  details:
    "SIGTERM and SIGINT drain: /readyz answers 503, requests are served for POSTERN_SHUTDOWN_DELAY_SECONDS and then refused,\nrequests in flight finish within POSTERN_DRAIN_SECONDS, calls are settled, and the exit code is 0. A second signal stops\nwithout waiting. With --workers, SIGHUP restarts the workers one after another, see docs/site/scale.md.",
  positionals: [],
  flags: {
    workers: stringFlag(
      "<n|auto>",
      "Run n processes on the port, or one per core; needs PostgreSQL.",
    ),
    worker: stringFlag("<n>", "Run as this worker; --workers sets it."),
    restarted: booleanFlag("The worker that had this name has ended; --workers sets it."),
    force: booleanFlag(
      "Start although the store was moved with postern move, or a process with the same name runs.",
    ),
  },
  run: (args, cli) => withConfig(cli, (config) => serveUntilStopped(config, cli, args)),
};

async function serveUntilStopped(config: Config, cli: CliEnv, args: ParsedArgs): Promise<number> {
  const count = workerCount(args.value("workers"), config, cli.workers);
  const devIdentity = await startDevIdentityIfNeeded(config, cli);
  try {
    if (count !== undefined) return await serveWorkers(count, config, cli, devIdentity);
    return await serveWith(devIdentity, config, cli, args);
  } finally {
    await devIdentity?.close();
  }
}

async function serveWith(
  devIdentity: DevIdentity | undefined,
  config: Config,
  cli: CliEnv,
  args: ParsedArgs,
): Promise<number> {
  const worker = args.value("worker");
  const isWorker = worker !== undefined;
  const isPretty = config.log.form === "text" || (config.log.form === "auto" && cli.isTerminal);
  const { now, version } = cli;
  const fields = isWorker ? { worker: Number(worker) } : {};
  const log = createLog({ level: config.log.level, isPretty, now, write: cli.print, fields });
  const exit = Promise.withResolvers<number>();
  // Loaded here, because no other command needs most of the program.
  const { createServer } = await import("../server/server.ts");
  const server = await createServer(config, {
    log,
    now,
    version,
    identity: devIdentity?.settings,
    runCommand: cli.workers.run,
    isRestarted: args.has("restarted"),
    isForced: args.has("force"),
    onFatal: (reason) => {
      log.error("stopping", { reason });
      exit.resolve(EXIT_FAILURE);
    },
  });
  const listener = await listenOrClose(config, server, isWorker);
  const ownListener = listenAlone(config, server, worker);
  const listeners = ownListener === undefined ? [listener] : [listener, ownListener];
  server.limitConnections(listeners.map(({ port }) => port));
  const drain = async (): Promise<void> => {
    server.startDraining();
    await drainRequests(server, listener, config.drainSeconds);
    exit.resolve(0);
  };
  if (isWorker)
    cli.onSignal("SIGHUP", () => {
      void leavePort(listener).then(drain);
    });
  const leaveAndDrain = async (): Promise<void> => {
    server.startLeaving();
    await sleep(config.shutdownDelaySeconds * 1_000);
    await drain();
  };
  onStopSignals(
    cli,
    (signal) => {
      log.info("stopping", { signal });
      void leaveAndDrain();
    },
    () => exit.resolve(0),
  );
  const { host, baseUrl } = config;
  const { kind: store } = server.db;
  log.info("listening", { host, port: listener.port, base_url: baseUrl, store, version });
  if (isPretty && !isWorker) cli.print(startupBanner(config, server, devIdentity));
  if (isWorker) cli.workers.reportReady();
  // One process of several says it. Not awaited: a service that hangs delays nothing.
  if (!isWorker || worker === "1") void logServiceProblems(config, log);
  const code = await exit.promise;
  server.endCalls();
  await requestsEnd(listener, performance.now() + LAST_RESPONSES_MS);
  await Promise.all(listeners.map(({ stop }) => stop(true)));
  if (await resolvesWithin(server.close(), SETTLE_SECONDS)) {
    log.info("stopped", { code });
    return code;
  }
  logUnsettled(server, log);
  return EXIT_FAILURE;
}

function logUnsettled({ ledger }: Server, log: Log): void {
  log.error("stopped before every call was settled; their holds are released at the next start", {
    // For the operator, who can charge them by hand.
    deferred: ledger
      .deferredSettlements()
      .map(({ id, accountId, cost }) => ({ id, account: accountId, cost_usd: usdText(cost) })),
  });
}

/** In development the bundled identity provider signs people in and prints their codes here. */
async function startDevIdentityIfNeeded(
  config: Config,
  cli: CliEnv,
): Promise<DevIdentity | undefined> {
  if (!config.development || config.identity !== undefined) return undefined;
  const { baseUrl, identityPort: port } = config;
  return await startDevIdentity({ baseUrl, port, print: cli.print });
}

async function listenOrClose(config: Config, server: Server, isShared: boolean): Promise<Listener> {
  const { host, port } = config;
  try {
    return listen({ host, port, isShared }, server.handle);
  } catch (cause) {
    await server.close();
    throw listenError({ host, port }, { host: "POSTERN_HOST", port: "POSTERN_PORT" }, cause);
  }
}

/** The port of one worker, for its metrics: the kernel chooses the worker of a connection to the shared port. */
function listenAlone(
  { host, workerPort }: Config,
  server: Server,
  worker: string | undefined,
): Listener | undefined {
  if (worker === undefined || workerPort === undefined) return undefined;
  const port = workerPort + Number(worker) - 1;
  try {
    return listen({ host, port }, server.handle);
  } catch (cause) {
    throw listenError({ host, port }, { host: "POSTERN_HOST", port: "POSTERN_WORKER_PORT" }, cause);
  }
}

// Another worker serves what arrives later. Kept-alive connections end with their next response; the listener closes last,
// because that ends the idle ones, on which a request may be on its way.
async function leavePort(listener: Listener): Promise<void> {
  listener.closeConnections();
  await sleep(LEAVE_PORT_MS);
  void listener.stop(false);
}

// A call can outlive its request: the client left, and the provider still counts tokens.
async function drainRequests(server: Server, listener: Listener, seconds: number): Promise<void> {
  const deadline = performance.now() + seconds * 1_000;
  await requestsEnd(listener, deadline);
  await resolvesWithin(server.idle(), (deadline - performance.now()) / 1_000);
}

async function requestsEnd(listener: Listener, deadline: number): Promise<void> {
  while (listener.openRequests() > 0 && performance.now() < deadline) await sleep(DRAIN_POLL_MS);
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

async function resolvesWithin(work: Promise<void>, seconds: number): Promise<boolean> {
  const timeout = new Promise<boolean>((resolve) => {
    setTimeout(() => resolve(false), Math.max(0, seconds * 1_000));
  });
  return await Promise.race([work.then(() => true), timeout]);
}

function startupBanner(
  config: Config,
  { db, notes }: Server,
  devIdentity: DevIdentity | undefined,
): string {
  const signIn = config.identity?.issuer ?? devIdentity?.settings.issuer;
  return [
    "",
    `  Postern is at ${config.baseUrl}`,
    "",
    `    store      ${db.kind === "sqlite" ? `SQLite in ${config.store.dataDir}` : "PostgreSQL"}`,
    ...notes.map((note) => `    ${note}`),
    `    sign-in    ${signIn ?? "none"}${devIdentity === undefined ? "" : ": any email address; the code is printed here"}`,
    `    docs       ${config.docsUrl}`,
    `    agents     ${config.baseUrl}/auth.md`,
    "",
    "  Create an account:",
    "",
    `    curl -s -X POST ${config.baseUrl}/v1/accounts -H 'content-type: application/json' -d '{}'`,
    "",
  ].join("\n");
}
