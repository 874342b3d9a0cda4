// Starts PostgreSQL from npm and stops it when standard input closes, so that no test run leaves it behind. Runs on Node,
// because PostgreSQL refuses to run as root and Bun cannot start a child as another user.

import { rmSync } from "node:fs";
import path from "node:path";
import {
  createServerFolder,
  freePort,
  initializeDatabase,
  PASSWORD,
  POSTGRES_SETTINGS,
  startServer,
  waitUntilListening,
} from "./postgres-programs.mjs";

const folder = createServerFolder();
const data = path.join(folder, "db");
initializeDatabase(folder, data);
const port = await freePort();
const settings = [
  `unix_socket_directories=${folder}`,
  ...POSTGRES_SETTINGS,
  ...process.argv.slice(2),
];
let isRestarting = false;
let server = await start();
console.log(`postgres://postgres:${PASSWORD}@127.0.0.1:${port}/postgres`);
process.stdin.on("data", (line) => {
  const command = line.toString().trim();
  if (command === "restart") void restart();
  if (command === "stop") void stop().then(() => console.log("stopped"));
  if (command === "start") void startAgain();
});
for (const end of ["end", "close"])
  process.stdin.on(end, () => {
    // A stopped server has no exit event any more.
    if (isRestarting) process.exit(0);
    server.kill("SIGQUIT");
  });
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => server.kill("SIGQUIT"));

async function start() {
  const started = startServer(data, port, settings);
  started.on("exit", () => {
    if (isRestarting) return;
    rmSync(folder, { recursive: true, force: true });
    process.exit(0);
  });
  await waitUntilListening(port);
  return started;
}

/** SIGINT is PostgreSQL's fast shutdown. */
async function stop() {
  isRestarting = true;
  const exited = new Promise((resolve) => server.once("exit", resolve));
  server.kill("SIGINT");
  await exited;
}

/** Prints a line when the server listens again. */
async function startAgain() {
  isRestarting = false;
  server = await start();
  console.log("started");
}

async function restart() {
  await stop();
  await startAgain();
}
