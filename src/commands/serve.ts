// `postern serve`: listens, says what is on, and shuts down in order: no new work, open work to its end or a deadline,
// money settled, exit 0.

import { createLog, type Log } from "../base/log.ts";
import type { Config } from "../config.ts";
import type { House } from "../house.ts";
import { listen, type Listener } from "../http/listen.ts";
import { type DevIdentity, startDevIdentity } from "../people/dev-identity.ts";
import { cannotListen, isLoopback } from "./address.ts";
import { type Command, EXIT_FAILED, type World } from "./command.ts";
import { withSettings } from "./with-store.ts";

const DRAIN_POLL_MS = 50;
/** What was cut off at the end of the drain has this long to be charged for what it did. */
const SETTLE_SECONDS = 10;
/** One Ctrl-C may arrive several times, by way of npm and the launcher; a person's second one comes later. */
const SAME_PRESS_MS = 1_000;

export const serve: Command = {
  summary: "Run the gateway (what postern does without a command)",
  details:
    "SIGTERM and SIGINT drain: /readyz answers 503, open work finishes within POSTERN_DRAIN_SECONDS, money is settled,\nand the exit code is 0. A second signal does not wait for open work.",
  positionals: [],
  flags: {},
  run: (_line, world) => withSettings(world, (config) => serveUntilStopped(config, world)),
};

async function serveUntilStopped(config: Config, world: World): Promise<number> {
  const devIdentity = await devIdentityFor(config, world);
  try {
    return await serveWith(devIdentity, config, world);
  } finally {
    await devIdentity?.close();
  }
}

async function serveWith(
  devIdentity: DevIdentity | undefined,
  config: Config,
  world: World,
): Promise<number> {
  const readable = config.log.form === "text" || (config.log.form === "auto" && world.isTerminal);
  const { now, version } = world;
  const log = createLog({ level: config.log.level, readable, now, write: world.print });
  const ended = Promise.withResolvers<number>();
  // Most of the program, which no other command needs.
  const { buildHouse } = await import("../house.ts");
  const house = await buildHouse(config, {
    log,
    now,
    version,
    identity: devIdentity?.settings,
    onFatal: (reason) => {
      log.error("stopping", { reason });
      ended.resolve(EXIT_FAILED);
    },
  });
  const listener = await listenOrClose(config, house);
  stopOnSignal(world, {
    log,
    drain: () => {
      house.startDraining();
      void drained(house, listener, config.drainSeconds).then(() => ended.resolve(0));
    },
    end: () => ended.resolve(0),
  });
  log.info("listening", {
    host: config.host,
    port: listener.port,
    base_url: config.baseUrl,
    store: house.db.kind,
    version,
  });
  if (config.development && !isLoopback(config.host))
    log.warn(
      "in development, and open to the network: set POSTERN_BASE_URL to the public address",
      {
        host: config.host,
      },
    );
  if (readable) world.print(greeting(config, house, devIdentity));
  const code = await ended.promise;
  await listener.stop(true);
  if (await inTime(house.close(), SETTLE_SECONDS)) {
    log.info("stopped", { code });
    return code;
  }
  log.error("stopped before every call was settled: their holds are given back at the next start");
  return EXIT_FAILED;
}

/** In development humans can sign in without any setting: the bundled provider prints their codes here. */
async function devIdentityFor(config: Config, world: World): Promise<DevIdentity | undefined> {
  if (!config.development || config.identity !== undefined) return undefined;
  const { baseUrl, identityPort: port } = config;
  return await startDevIdentity({ baseUrl, port, print: world.print });
}

async function listenOrClose(config: Config, house: House): Promise<Listener> {
  const { host, port } = config;
  try {
    return listen({ host, port }, house.handle);
  } catch (cause) {
    await house.close();
    throw cannotListen({ host, port }, { host: "POSTERN_HOST", port: "POSTERN_PORT" }, cause);
  }
}

interface Stopping {
  readonly log: Log;
  readonly drain: () => void;
  readonly end: () => void;
}

function stopOnSignal(world: World, { log, drain, end }: Stopping): void {
  let askedAt: number | undefined;
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    world.onSignal(signal, () => {
      if (askedAt === undefined) {
        askedAt = world.now();
        log.info("stopping", { signal });
        drain();
      } else if (world.now() - askedAt > SAME_PRESS_MS) end();
    });
  }
}

// `/readyz` already says no, so a balancer sends nothing new; what is open is given its time. A call may outlive its
// request, where its client has left and its provider still counts.
async function drained(house: House, listener: Listener, seconds: number): Promise<void> {
  const deadline = performance.now() + seconds * 1_000;
  while (listener.openRequests() > 0 && performance.now() < deadline)
    await new Promise((resolve) => setTimeout(resolve, DRAIN_POLL_MS));
  await inTime(house.idle(), (deadline - performance.now()) / 1_000);
}

async function inTime(work: Promise<void>, seconds: number): Promise<boolean> {
  const late = new Promise<boolean>((resolve) => {
    setTimeout(() => resolve(false), Math.max(0, seconds * 1_000));
  });
  return await Promise.race([work.then(() => true), late]);
}

function greeting(
  config: Config,
  { db, notes }: House,
  devIdentity: DevIdentity | undefined,
): string {
  const signIn = config.identity?.issuer ?? devIdentity?.settings.issuer;
  return [
    "",
    `  Postern is at ${config.baseUrl}`,
    "",
    `    store      ${db.kind === "sqlite" ? `SQLite in ${config.store.dataDir}` : "PostgreSQL"}`,
    ...notes.map((note) => `    ${note}`),
    `    sign-in    ${signIn ?? "none"}${devIdentity === undefined ? "" : ": any address, the code is printed here"}`,
    `    docs       ${config.docsUrl}`,
    `    agents     ${config.baseUrl}/auth.md`,
    "",
    "  Let an agent in:",
    "",
    `    curl -s -X POST ${config.baseUrl}/v1/accounts -H 'content-type: application/json' -d '{}'`,
    "",
  ].join("\n");
}
