// Starts a complete gateway for tests: HTTP on loopback, its own store, and the simulator behind a port as its provider.

import { rmSync } from "node:fs";
import { createSimulator, type Script } from "@postern/simulator";
import { createLog } from "../../src/base/log.ts";
import type { ResolveTxt } from "../../src/base/network/dns-txt.ts";
import { type Config, readConfig } from "../../src/config/config.ts";
import type { OverloadGuard } from "../../src/http/guards/overload.ts";
import { listen } from "../../src/http/listen.ts";
import { type Timeouts, timeoutsFrom } from "../../src/inference/lifecycle/timeouts.ts";
import type { FetchFile } from "../../src/inference/media/fetch-file.ts";
import { PROVIDERS } from "../../src/inference/providers/providers.ts";
import { PRICE_TABLE } from "../../src/models/list-prices.ts";
import { createServer, type Server } from "../../src/server/server.ts";
import { scratchFolder } from "./scratch-folder.ts";
import { CITUS_URL } from "./stores/citus.ts";
import { dropPostgres, migratedPostgres } from "./stores/postgres.ts";
import { migratedSqlite, TEST_POOL_SIZE } from "./stores/stores.ts";

export interface GatewayOptions {
  /** SQLite by default, or Citus with POSTERN_TEST_CITUS_URL. */
  readonly store?: "sqlite" | "postgres";
  readonly databaseUrl?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Providers whose base URL is the simulator's; `sim` by default. */
  readonly providers?: readonly string[];
  readonly timeouts?: Partial<Timeouts>;
  readonly storeWaitMs?: number;
  readonly abandonedCallsPerMinute?: number;
  readonly creditWaitMs?: number;
  readonly lockTimeoutMs?: number;
  /** Batches at providers are looked at every 50 ms by default. */
  readonly batchPollMs?: number;
  readonly batchSlots?: number;
  readonly monotonicNow?: () => number;
  readonly fetchFile?: FetchFile;
  readonly webSocketLifetimeMs?: number;
  readonly resolveTxt?: ResolveTxt;
  /** Off by default: the clients, the provider and the gateway share an event loop. */
  readonly overload?: OverloadGuard;
  readonly now?: () => number;
  /** The clock of the simulator. */
  readonly simulatorNow?: () => number;
  readonly requireKey?: string;
  /** Plays an agent in the simulator. */
  readonly script?: Script;
  /** `debug` by default. */
  readonly logLevel?: "debug" | "warn";
}

export interface Gateway {
  readonly url: string;
  readonly server: Server;
  readonly config: Config;
  readonly simulatorUrl: string;
  /** All logged lines. */
  readonly logLines: readonly string[];
  readonly stop: () => Promise<void>;
}

export async function startGateway(options: GatewayOptions = {}): Promise<Gateway> {
  const simulator = startSimulator(options);
  const { store = CITUS_URL === "" ? "sqlite" : "postgres" } = options;
  const ownDatabase =
    store === "postgres" && options.databaseUrl === undefined
      ? await migratedPostgres()
      : undefined;
  const databaseUrl = options.databaseUrl ?? ownDatabase;
  const folder = databaseUrl === undefined ? await migratedSqlite() : scratchFolder();
  // Listens first, because the port is part of the base URL in the configuration.
  let server: Server | undefined;
  const listener = listen({ host: "127.0.0.1", port: 0 }, (request, peer) =>
    server === undefined
      ? Promise.resolve(new Response("starting", { status: 503 }))
      : server.handle(request, peer),
  );
  const url = `http://127.0.0.1:${listener.port}`;
  const logLines: string[] = [];
  const config = configFor({
    url,
    folder,
    simulatorUrl: simulator.url,
    options,
    ...(databaseUrl === undefined ? {} : { databaseUrl }),
  });
  server = await createServer(config, {
    log: createLog({
      level: options.logLevel ?? "debug",
      isPretty: false,
      now: Date.now,
      write: (line) => logLines.push(line),
    }),
    now: options.now ?? Date.now,
    version: "0.0.0-test",
    onFatal: (reason) => logLines.push(`fatal: ${reason}`),
    timeouts: { ...timeoutsFrom(config.timeouts), ...options.timeouts },
    storeWaitMs: options.storeWaitMs,
    abandonedCallsPerMinute: options.abandonedCallsPerMinute,
    creditWaitMs: options.creditWaitMs,
    batchPollMs: options.batchPollMs ?? 50,
    batchSlots: options.batchSlots,
    // Otherwise a test fails on the day on which a provider shuts its model down.
    modelsDay: PRICE_TABLE.checked,
    monotonicNow: options.monotonicNow,
    overload: options.overload ?? "off",
    webSocketLifetimeMs: options.webSocketLifetimeMs,
    fetchFile: options.fetchFile,
    resolveTxt: options.resolveTxt,
  });
  const startedServer = server;
  return {
    url,
    server: startedServer,
    config,
    simulatorUrl: simulator.url,
    logLines,
    stop: async () => {
      await listener.stop(true);
      await startedServer.close();
      await simulator.stop();
      if (ownDatabase !== undefined) await dropPostgres(ownDatabase);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export function startSimulator({
  requireKey,
  script,
  simulatorNow = Date.now,
}: Pick<GatewayOptions, "requireKey" | "script" | "simulatorNow">): {
  readonly url: string;
  readonly stop: () => Promise<void>;
} {
  const simulator = createSimulator({
    now: simulatorNow,
    acceptsAnyModel: true,
    ...(requireKey === undefined ? {} : { requireKey }),
    ...(script === undefined ? {} : { script }),
  });
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    development: false,
    fetch: simulator.fetch,
  });
  return { url: `http://127.0.0.1:${server.port}`, stop: () => server.stop(true) };
}

interface ConfigInputs {
  readonly url: string;
  readonly folder: string;
  readonly simulatorUrl: string;
  readonly databaseUrl?: string;
  readonly options: GatewayOptions;
}

/** Base paths of providers at the simulator; `/v1` by default. */
const BASE_PATHS: Readonly<Record<string, string>> = {
  sim: "",
  anthropic: "",
  together: "/together/v1",
};

const SHARED_SECRET = "a-secret-of-all-gateways-of-a-test-database";

function configFor({ url, folder, simulatorUrl, databaseUrl, options }: ConfigInputs): Config {
  const env: Record<string, string> = {
    POSTERN_BASE_URL: url,
    POSTERN_DATA_DIR: folder,
    POSTERN_PORT: new URL(url).port,
    POSTERN_DATABASE_POOL_SIZE: String(TEST_POOL_SIZE),
  };
  // Gateways on one database have one secret, and not that of their own data folder.
  if (databaseUrl !== undefined)
    Object.assign(env, { DATABASE_URL: databaseUrl, POSTERN_SECRET: SHARED_SECRET });
  for (const id of options.providers ?? ["sim"]) {
    const envPrefix =
      PROVIDERS.find((provider) => provider.id === id)?.envPrefix ?? id.toUpperCase();
    env[`${envPrefix}_BASE_URL`] = simulatorUrl + (BASE_PATHS[id] ?? "/v1");
    env[`${envPrefix}_API_KEY`] = options.requireKey ?? "upstream-test-key";
  }
  const result = readConfig({
    env: { ...env, ...options.env },
    hostName: "test",
    providers: PROVIDERS,
  });
  if (!result.ok) throw new Error(result.errors.join("\n"));
  const store = { ...result.config.store, lockTimeoutMs: options.lockTimeoutMs };
  return { ...result.config, store };
}

export interface TestAccount {
  readonly id: string;
  readonly key: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** Creates an account through the API. */
export async function registerAccount(gateway: Pick<Gateway, "url">): Promise<TestAccount> {
  const response = await fetch(`${gateway.url}/v1/accounts`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: "{}",
  });
  const body = (await response.json()) as { account: { id: string }; api_key: string };
  return {
    id: body.account.id,
    key: body.api_key,
    headers: { authorization: `Bearer ${body.api_key}`, "content-type": "application/json" },
  };
}
