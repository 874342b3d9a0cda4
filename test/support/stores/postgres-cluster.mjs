// Starts two PostgreSQL servers, a primary (0) and its streaming standby (1), and obeys commands (server-group.mjs). Runs on
// Node for the reason of postgres-server.mjs.

import { spawnSync } from "node:child_process";
import { cpSync, writeFileSync } from "node:fs";
import path from "node:path";
import {
  createServerFolder,
  freePort,
  giveToServer,
  initializeDatabase,
  PASSWORD,
  POSTGRES_SETTINGS,
} from "./postgres-programs.mjs";
import { obeyCommands } from "./server-group.mjs";

const SLOT = "standby";
const isSynchronous = process.argv[2] === "synchronous";

const folder = createServerFolder();
const ports = [await freePort(), await freePort()];
const data = ["primary", "standby"].map((name) => path.join(folder, name));
// A copy of a stopped server is what `pg_basebackup` makes, which the npm package does not have.
initializeDatabase(folder, data[0]);
cpSync(data[0], data[1], { recursive: true, preserveTimestamps: true });
writeFileSync(path.join(data[1], "standby.signal"), "");
// In the file that `alter system` writes, so that a test can cut the standby off.
writeFileSync(
  path.join(data[1], "postgresql.auto.conf"),
  `primary_conninfo = 'host=127.0.0.1 port=${ports[0]} user=postgres password=${PASSWORD} application_name=${SLOT}'\n`,
);
for (const name of listFiles(data[1])) giveToServer(name);

const common = [
  ...POSTGRES_SETTINGS,
  "log_min_messages=panic",
  `unix_socket_directories=${folder}`,
];
const settings = [
  [...common, ...(isSynchronous ? [`synchronous_standby_names=${SLOT}`] : [])],
  [...common, `primary_slot_name=${SLOT}`, "wal_retrieve_retry_interval=100ms"],
];
await obeyCommands({ folder, data, ports, settings }, () => {
  const urls = ports.map((port) => `postgres://postgres:${PASSWORD}@127.0.0.1:${port}/postgres`);
  console.log(JSON.stringify(urls));
});

function listFiles(root) {
  const { stdout } = spawnSync("find", [root], { encoding: "utf8" });
  return stdout.trim().split("\n");
}
