// PostgreSQL servers that obey the lines of standard input: `kill`, `start` or `restart`, and the number of a server. Each line
// is answered when it is done. All servers end when standard input closes.

import { readFileSync, rmSync } from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";
import { startServer, waitUntilListening } from "./postgres-programs.mjs";

const POLL_MS = 10;

/** One entry a server in `data`, `ports` and `settings`. `onReady` runs when all of them listen. */
export async function obeyCommands({ folder, data, ports, settings }, onReady) {
  const servers = data.map(() => undefined);
  const commands = {
    start: async (index) => {
      servers[index] = startServer(data[index], ports[index], settings[index]);
      await waitUntilListening(ports[index]);
    },
    // All processes at once, as when the machine fails: the server's own could still send what it has written.
    kill: async (index) => {
      await killAll(servers[index]);
      rmSync(path.join(data[index], "postmaster.pid"), { force: true });
    },
    restart: async (index) => {
      servers[index].kill("SIGINT");
      await exited(servers[index]);
      await commands.start(index);
    },
  };
  for (const index of data.keys()) await commands.start(index);
  const lines = createInterface({ input: process.stdin });
  lines.on("line", async (line) => {
    const [command, index] = line.split(" ");
    await commands[command](Number(index));
    console.log("done");
  });
  lines.on("close", () => {
    for (const server of servers) signalAll(server, "SIGKILL");
    rmSync(folder, { recursive: true, force: true, maxRetries: 20 });
    process.exit(0);
  });
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => lines.close());
  await onReady();
}

function exited(server) {
  if (server.exitCode !== null || server.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => server.once("exit", resolve));
}

/** A server does not start while a process of the one before it has its shared memory. */
async function killAll(server) {
  const { pid } = server;
  // A stopped server starts no more processes.
  process.kill(pid, "SIGSTOP");
  const children = childrenOf(pid);
  signalAll(server, "SIGKILL");
  await exited(server);
  while (children.some(isRunning)) await new Promise((resolve) => setTimeout(resolve, POLL_MS));
}

function isRunning(pid) {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

function signalAll({ pid }, signal) {
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
