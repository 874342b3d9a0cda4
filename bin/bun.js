#!/usr/bin/env node
// Runs the project's own Bun: `node bin/bun.js test`. npm may have refused Bun's install script, and then only the
// platform's package holds the program; so that package is looked at first. Plain Node, no dependencies.

import { spawn } from "node:child_process";
import { existsSync, readFileSync, realpathSync, statSync } from "node:fs";
import { constants } from "node:os";
import path from "node:path";
import process, { env } from "node:process";
import { fileURLToPath } from "node:url";

export const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));

/** Bun lets 256 calls out at once unless this is set before it starts; a gateway has one open for every stream. */
const FETCHES_MAX = "65336";
/** Without its install script, Bun's own package holds a short text in place of the program. */
const PROGRAM_LEAST_BYTES = 1_000_000;

/** The file of the Bun program, or undefined where it is not installed. */
export function findBun() {
  const platform = process.platform === "win32" ? "windows" : process.platform;
  const arch = process.arch === "arm64" ? "aarch64" : process.arch;
  const plain = `bun-${platform}-${arch}`;
  const names = isMusl() ? [`${plain}-musl`, plain] : [plain, `${plain}-musl`];
  const program = process.platform === "win32" ? "bun.exe" : "bun";
  const candidates = [
    ...names.map((name) => path.join("@oven", name, "bin", program)),
    path.join("bun", "bin", "bun.exe"),
  ];
  return candidates
    .map((candidate) => path.join(root, "node_modules", candidate))
    .find((file) => existsSync(file) && statSync(file).size >= PROGRAM_LEAST_BYTES);
}

/** Runs Bun with these arguments in this process' place: its input, output, signals and exit code are ours. */
export function runBun(args, wishes = {}) {
  const bun = findBun();
  if (bun === undefined) {
    process.stderr.write(
      `Postern is not installed here: there is no Bun for ${process.platform} ${process.arch} in ${path.join(root, "node_modules")}.\n` +
        "Run `npm ci` in that folder. Where it already ran, check that it did not leave out optional dependencies.\n",
    );
    process.exit(1);
  }
  const settings = {
    ...wishes,
    ...env,
    BUN_CONFIG_MAX_HTTP_REQUESTS: env.BUN_CONFIG_MAX_HTTP_REQUESTS ?? FETCHES_MAX,
  };
  if (process.execve === undefined) runBeside(bun, args, settings);
  else runInPlace(bun, args, settings);
}

// Newer Nodes can become another program: nothing is left between the caller and Bun.
function runInPlace(bun, args, settings) {
  // Node says that this is experimental, to everybody who starts the program.
  process.emitWarning = () => {};
  process.execve(bun, [bun, ...args], settings);
}

// The child decides how to end; this process waits for it, passes signals on, and ends the same way. Nobody can pass on what
// kills this process itself, but then the channel between the two is closed, and the child stops by that (`main.ts`).
function runBeside(bun, args, settings) {
  const stdio = ["inherit", "inherit", "inherit", "ipc"];
  const child = spawn(bun, args, { stdio, env: settings });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR2"])
    process.on(signal, () => child.kill(signal));
  child.on("error", (error) => {
    process.stderr.write(`Bun could not be started: ${error.message}\n`);
    process.exit(1);
  });
  child.on("exit", (code, signal) => process.exit(code ?? 128 + (constants.signals[signal] ?? 0)));
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
  runBun(process.argv.slice(2));
