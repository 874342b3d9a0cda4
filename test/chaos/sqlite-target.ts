// One gateway on an SQLite file, which can be locked by another program or reach a size limit.

import { Database } from "bun:sqlite";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { openSqlite } from "../../src/store/sqlite.ts";
import { startSimulator } from "../support/gateway.ts";
import { startGatewayProcess } from "./gateway-process.ts";
import { type ChaosTarget, createAccounts } from "./target.ts";

/** Enough to start the gateway and to serve a few calls. */
const SPARE_BYTES = 256 * 1_024;

/** The log is written from its start again, so a long one would take long to reach a limit. */
function sizeWithoutLog(file: string): number {
  const database = new Database(file);
  database.run("pragma wal_checkpoint(truncate)");
  database.close();
  return statSync(file).size;
}

export async function startSqliteTarget(): Promise<ChaosTarget> {
  const folder = mkdtempSync(path.join(tmpdir(), "postern-chaos-"));
  const simulator = startSimulator({});
  const gateway = await startGatewayProcess({
    POSTERN_DATA_DIR: folder,
    SIM_BASE_URL: simulator.url,
  });
  const file = path.join(folder, "postern.db");
  const openStore = () => openSqlite({ folder, lock: false });
  return {
    urls: [gateway.url],
    keys: await createAccounts(gateway.url, openStore()),
    simulatorUrl: simulator.url,
    faults: {
      "kill the gateway": () => gateway.killAndStart(),
      "restart the gateway": () => gateway.restart(),
      "lock the file": async () => {
        const other = new Database(file);
        other.run("pragma busy_timeout = 30000");
        other.run("begin immediate");
        await gateway.becomesUnready();
        other.run("rollback");
        other.close();
      },
      // The kernel refuses to write beyond this size, as on a full disk.
      "fill the disk": async () => {
        await gateway.killAndStart(() => ({ fileBytesMax: sizeWithoutLog(file) + SPARE_BYTES }));
        await gateway.becomesUnready();
        await gateway.killAndStart();
      },
    },
    openStore,
    stop: async () => {
      const code = await gateway.stop();
      return code === 0 ? [] : [`the gateway exited with ${code}`];
    },
    end: () => {
      gateway.end();
      void simulator.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
