// Starts two PostgreSQL servers, a primary (0) and its streaming standby (1), and obeys the lines of standard input: `kill`,
// `start` or `restart`, and the number of a server. It stops both when standard input closes. Runs on Node for the reason of
// postgres-server.mjs.

import { spawnSync } from "node:child_process";
import { cpSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";
import {
  createServerFolder,
  freePort,
  giveToServer,
  initializeDatabase,
  PASSWORD,
  POSTGRES_SETTINGS,
  startServer,
  waitUntilListening,
} from "./postgres-programs.mjs";

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
const servers = [undefined, undefined];
const COMMANDS = {
  start: async (index) => {
    servers[index] = startServer(data[index], ports[index], settings[index]);
    await waitUntilListening(ports[index]);
  },
  // All processes at once, as when the machine fails: the server's own could still send what it has written.
  kill: async (index) => {
    signalAll(index, "SIGKILL");
    await exited(index);
    rmSync(path.join(data[index], "postmaster.pid"), { force: true });
  },
  restart: async (index) => {
    servers[index].kill("SIGINT");
    await exited(index);
    await COMMANDS.start(index);
  },
};

await COMMANDS.start(0);
await COMMANDS.start(1);
console.log(
  JSON.stringify(ports.map((port) => `postgres://postgres:${PASSWORD}@127.0.0.1:${port}/postgres`)),
);
const lines = createInterface({ input: process.stdin });
lines.on("line", async (line) => {
  const [command, index] = line.split(" ");
  await COMMANDS[command](Number(index));
  console.log("done");
});
lines.on("close", () => {
  for (const index of [0, 1]) signalAll(index, "SIGKILL");
  rmSync(folder, { recursive: true, force: true, maxRetries: 20 });
  process.exit(0);
});
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => lines.close());

function exited(index) {
  const server = servers[index];
  if (server.exitCode !== null || server.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => server.once("exit", resolve));
}

function signalAll(index, signal) {
  const { pid } = servers[index];
  for (const one of [pid, ...childrenOf(pid)])
    try {
      process.kill(one, signal);
    } catch {
      // It has ended.
    }
}

function childrenOf(pid) {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8");
    return children.trim().split(" ").filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

function listFiles(root) {
  const { stdout } = spawnSync("find", [root], { encoding: "utf8" });
  return stdout.trim().split("\n");
}
