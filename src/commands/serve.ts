// `postern serve`: listens, says what is on, and shuts down in order: no new work, open work to its end or a deadline,
// money settled, exit 0.

import type { Log } from "../base/log.ts";
import type { Config } from "../config.ts";
import { buildHouse } from "../house.ts";
import { listen } from "../http/listen.ts";

const DRAIN_POLL_MS = 50;

export interface ServeSurroundings {
  readonly log: Log;
  readonly now: () => number;
  readonly version: string;
  readonly readable: boolean;
  readonly print: (text: string) => void;
}

/** Resolves with the process' exit code when the server has stopped. */
export async function serve(config: Config, surroundings: ServeSurroundings): Promise<number> {
  const { log } = surroundings;
  const ended = Promise.withResolvers<number>();
  const house = await buildHouse(config, {
    ...surroundings,
    onFatal: (reason) => {
      log.error("stopping", { reason });
      ended.resolve(1);
    },
  });
  const listener = listen({ host: config.host, port: config.port }, house.handle);
  const stop = (signal: string): void => {
    log.info("stopping", { signal });
    house.startDraining();
    void drained(listener.openRequests, config.drainSeconds).then(() => ended.resolve(0));
  };
  let asked = 0;
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    process.on(signal, () => {
      asked += 1;
      if (asked === 1) stop(signal);
      else ended.resolve(0);
    });
  }
  log.info("listening", {
    host: config.host,
    port: listener.port,
    base_url: config.baseUrl,
    store: house.db.kind,
    version: surroundings.version,
  });
  if (surroundings.readable) surroundings.print(greeting(config, house.db.kind));
  const code = await ended.promise;
  await listener.stop(true);
  await house.close();
  log.info("stopped", { code });
  return code;
}

// `/readyz` already says no, so a balancer sends nothing new; what is open is given its time.
async function drained(open: () => number, seconds: number): Promise<void> {
  const deadline = performance.now() + seconds * 1_000;
  while (open() > 0 && performance.now() < deadline)
    await new Promise((resolve) => setTimeout(resolve, DRAIN_POLL_MS));
}

function greeting(config: Config, store: string): string {
  const lines = [
    "",
    `  Postern is at ${config.baseUrl}`,
    "",
    `    store      ${store === "sqlite" ? `SQLite in ${config.store.dataDir}` : "PostgreSQL"}`,
    `    docs       ${config.docsUrl}`,
    `    agents     ${config.baseUrl}/auth.md`,
    "",
    "  Let an agent in:",
    "",
    `    curl -s -X POST ${config.baseUrl}/v1/accounts -H 'content-type: application/json' -d '{}'`,
    "",
  ];
  return lines.join("\n");
}
