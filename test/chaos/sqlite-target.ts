// One gateway on an SQLite file, which can be locked by another program, reach a size limit or become read-only.

import { Database } from "bun:sqlite";
import { closeSync, mkdtempSync, openSync, rmSync, statSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { HOUR_MS } from "../../src/base/time.ts";
import { openSqlite } from "../../src/store/sqlite.ts";
import type { Random } from "../fuzz/random.ts";
import { eventually } from "../support/eventually.ts";
import { startSimulator } from "../support/gateway.ts";
import { startGatewayProcess } from "./gateway-process.ts";
import { ACCOUNTS, type ChaosTarget, createAccounts } from "./target.ts";

/** Enough to start the gateway and to serve a few calls. */
const SPARE_BYTES = 256 * 1_024;

/** The log is written from its start again, so a long one would take long to reach a limit. */
function sizeWithoutLog(file: string): number {
  const database = new Database(file);
  database.run("pragma wal_checkpoint(truncate)");
  database.close();
  return statSync(file).size;
}

/** The version that a program must support to write the file: https://www.sqlite.org/fileformat.html#file_format_version_numbers */
const WRITE_VERSION_OFFSET = 18;
const WAL_VERSION = 2;
const UNKNOWN_VERSION = 3;

/** File permissions do not hold for root, or for files that are open. */
function setWriteVersion(file: string, version: number): void {
  const handle = openSync(file, "r+");
  writeSync(handle, Uint8Array.of(version), 0, 1, WRITE_VERSION_OFFSET);
  closeSync(handle);
}

/** Open connections read the header again after another one has committed a change, unless the log has a copy of it. */
async function makeReadOnly(file: string): Promise<void> {
  const database = new Database(file);
  database.run("pragma busy_timeout = 30000");
  await eventually(() => {
    database.run("pragma wal_checkpoint(truncate)");
    database.run("begin immediate");
    if (statSync(`${file}-wal`).size === 0) return true;
    database.run("rollback");
    return false;
  });
  setWriteVersion(file, UNKNOWN_VERSION);
  database.run("update process set seen_at = seen_at + 1");
  database.run("commit");
  database.close();
}

export async function startSqliteTarget(random: Random): Promise<ChaosTarget> {
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
    keys: await createAccounts(gateway.url, openStore(), ACCOUNTS),
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
      "make the file read-only": async () => {
        await makeReadOnly(file);
        await gateway.becomesUnready();
        await gateway.killAndStart(() => {
          setWriteVersion(file, WAL_VERSION);
          return {};
        });
      },
      "set the clock forward": async () => gateway.moveClock(random.integer(3 * HOUR_MS)),
      "set the clock back": async () => gateway.moveClock(-random.integer(3 * HOUR_MS)),
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
