#!/usr/bin/env node
// Runs the Bun of node_modules: `node bin/bun.js test`. If npm skipped Bun's install script, only the package of the platform
// contains the executable, so that package is searched first. Uses Node alone, without dependencies.

import { spawn } from "node:child_process";
import { existsSync, readFileSync, realpathSync, statSync } from "node:fs";
import { constants } from "node:os";
import path from "node:path";
import process, { env } from "node:process";
import { fileURLToPath } from "node:url";

export const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));

/** Bun limits concurrent fetches to 256 unless this is set before it starts; a gateway has one open per stream. */
const FETCHES_MAX = "65336";
/** Without its install script, Bun's package contains a short text file instead of the executable. */
const EXECUTABLE_MIN_BYTES = 1_000_000;
const TEST_TIMEOUT_MS = 240_000;

/** Path of the Bun executable, or undefined if it is not installed. */
export function findBun() {
  const platform = process.platform === "win32" ? "windows" : process.platform;
  const arch = process.arch === "arm64" ? "aarch64" : process.arch;
  const baseName = `bun-${platform}-${arch}`;
  const names = isMusl() ? [`${baseName}-musl`, baseName] : [baseName, `${baseName}-musl`];
  const executable = process.platform === "win32" ? "bun.exe" : "bun";
  const candidates = [
    ...names.map((name) => path.join("@oven", name, "bin", executable)),
    path.join("bun", "bin", "bun.exe"),
  ];
  return moduleFolders()
    .flatMap((folder) => candidates.map((candidate) => path.join(folder, candidate)))
    .find((file) => existsSync(file) && statSync(file).size >= EXECUTABLE_MIN_BYTES);
}

// npm puts dependencies beside the package (`node_modules/postern` and `node_modules/bun`) or below it.
function moduleFolders() {
  const folders = [];
  for (let folder = root; ; folder = path.dirname(folder)) {
    if (path.basename(folder) !== "node_modules") folders.push(path.join(folder, "node_modules"));
    if (folder === path.dirname(folder)) return folders;
  }
}

/** Replaces this process with Bun, or runs Bun as a child with the same input, output, signals and exit code. */
export function runBun(args, defaults = {}) {
  const bun = findBun();
  if (bun === undefined) {
    process.stderr.write(
      `Bun for ${process.platform} ${process.arch} is not installed in ${path.join(root, "node_modules")} or a folder above.\n` +
        `Run \`npm ci\` in ${root}, or install the package again. If it is installed, check that npm did not omit optional dependencies.\n`,
    );
    process.exit(1);
  }
  const settings = {
    ...defaults,
    ...env,
    BUN_CONFIG_MAX_HTTP_REQUESTS: env.BUN_CONFIG_MAX_HTTP_REQUESTS ?? FETCHES_MAX,
  };
  if (process.execve === undefined) runAsChild(bun, args, settings);
  else execInPlace(bun, args, settings);
}

// Node 22.15 and newer can replace the process, so that nothing is between the caller and Bun.
function execInPlace(bun, args, settings) {
  // Suppresses Node's warning that execve is experimental.
  process.emitWarning = () => {};
  process.execve(bun, [bun, ...args], settings);
}

// Forwards signals to the child and exits with its exit code. SIGKILL cannot be forwarded: it closes the IPC channel, on which
// the child shuts down (`main.ts`).
function runAsChild(bun, args, settings) {
  const stdio = ["inherit", "inherit", "inherit", "ipc"];
  const child = spawn(bun, args, { stdio, env: settings });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR2"])
    process.on(signal, () => child.kill(signal));
  stopWithParent(() => child.kill("SIGTERM"));
  child.on("error", (error) => {
    process.stderr.write(`Cannot start Bun: ${error.message}\n`);
    process.exit(1);
  });
  child.on("exit", (code, signal) => process.exit(code ?? 128 + (constants.signals[signal] ?? 0)));
}

const PARENT_POLL_MS = 500;

// npm exec (npx) sends SIGTERM only to the shell between it and this process, which does not pass it on and ends.
function stopWithParent(stop) {
  if (env.npm_command !== "exec") return;
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    stop();
  }, PARENT_POLL_MS);
  timer.unref();
}

// Bun's limit is 5 seconds, which a busy machine exceeds. Only a test that hangs takes this long, so tests set no limits.
function withTestTimeout([command, ...args]) {
  return command === "test"
    ? [command, `--timeout=${TEST_TIMEOUT_MS}`, ...args]
    : [command, ...args];
}

function isMusl() {
  if (process.platform !== "linux") return false;
  try {
    return readFileSync("/usr/bin/ldd", "latin1").includes("musl");
  } catch {
    return false;
  }
}

if (
  process.argv[1] !== undefined &&
  realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)
)
  runBun(withTestTimeout(process.argv.slice(2)));
