// Three gateways on a Citus cluster of a coordinator and two workers. It needs a PostgreSQL with Citus, whose folder is
// POSTERN_TEST_POSTGRES_HOME.

import { openPostgres } from "../../src/store/postgres.ts";
import type { Random } from "../fuzz/random.ts";
import { startGateway } from "../support/gateway.ts";
import { distributedPostgres } from "../support/stores/citus.ts";
import { startServerGroup } from "../support/stores/server-group.ts";
import { startGatewayProcess } from "./gateway-process.ts";
import { CALLERS, type ChaosTarget, createAccounts } from "./target.ts";

/** So many that both workers have some. */
const ACCOUNTS = 6;
const COORDINATOR = 0;
const WORKERS = [1, 2] as const;
const SECRET = "chaos".repeat(8);

export async function startCitusTarget(random: Random, hasBusyKey: boolean): Promise<ChaosTarget> {
  const cluster = await startServerGroup("citus-cluster.mjs", []);
  const databaseUrl = await distributedPostgres(cluster.firstLine);
  const openStore = () => openPostgres(databaseUrl, { isDistributed: true });
  const shared = {
    POSTERN_SECRET: SECRET,
    ...(hasBusyKey && { POSTERN_REQUESTS_PER_MINUTE: "30000" }),
  };
  const gateway = await startGateway({
    databaseUrl,
    env: { ...shared, POSTERN_PROCESS_NAME: "chaos:main" },
    logLevel: "warn",
  });
  const settings = {
    ...shared,
    DATABASE_URL: databaseUrl,
    SIM_BASE_URL: gateway.simulatorUrl,
  };
  const processes = [await startGatewayProcess(settings), await startGatewayProcess(settings)];
  const killWorker = async (): Promise<number> => {
    const worker = random.pickFrom(WORKERS) ?? WORKERS[0];
    await cluster.run("kill", worker);
    return worker;
  };
  return {
    urls: [...processes.map(({ url }) => url), gateway.url],
    keys: await createAccounts(gateway.url, openStore(), hasBusyKey ? 1 : ACCOUNTS),
    simulatorUrl: gateway.simulatorUrl,
    faults: {
      "kill a gateway": async () => {
        await random.pickFrom(processes)?.killAndStart();
      },
      // The accounts of the other worker are served meanwhile.
      "kill a worker": async (waitForCalls) => {
        const worker = await killWorker();
        await waitForCalls(CALLERS);
        await cluster.run("start", worker);
      },
      "kill the coordinator": async () => {
        await cluster.run("kill", COORDINATOR);
        await cluster.run("start", COORDINATOR);
      },
      "kill a gateway while a worker is down": async () => {
        const worker = await killWorker();
        await random.pickFrom(processes)?.killAndStart();
        await cluster.run("start", worker);
      },
    },
    openStore,
    stop: async () => {
      const codes = await Promise.all(processes.map(({ stop }) => stop()));
      await gateway.stop();
      const isClean = codes.every((code) => code === 0);
      return isClean ? [] : [`gateways exited with ${codes.join(", ")}`];
    },
    end: () => {
      for (const { end } of processes) end();
      void cluster.stop();
    },
  };
}
