// Installs the dependencies if they are missing or older than package-lock.json. `npm start` and `npm test` run this first, so
// that they work from a clean clone. With `--production` it installs only what the gateway needs to run. npm writes
// node_modules/.package-lock.json, whose time is compared.

import { spawnSync } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import path from "node:path";
import { argv, env } from "node:process";
import { findBun, root } from "./bun.js";

const isProduction = argv.includes("--production");
/** Installed only with the development dependencies. */
const DEVELOPMENT_PACKAGE = "typescript";

if (!isInstalled()) {
  const args = ["ci", "--no-fund", "--no-audit", ...(isProduction ? ["--omit=dev"] : [])];
  process.stderr.write(`Installing dependencies (npm ${args.join(" ")}) …\n`);
  const npm = env.npm_execpath;
  const options = { cwd: root, stdio: ["ignore", 2, 2] };
  const { status, error } =
    npm === undefined
      ? spawnSync("npm", args, { ...options, shell: process.platform === "win32" })
      : spawnSync(process.execPath, [npm, ...args], options);
  if (status !== 0) {
    process.stderr.write(`npm ci failed${error === undefined ? "" : `: ${error.message}`}.\n`);
    process.exit(status ?? 1);
  }
}

function isInstalled() {
  const modules = path.join(root, "node_modules");
  const installed = path.join(modules, ".package-lock.json");
  if (!existsSync(installed) || findBun() === undefined) return false;
  if (!isProduction && !existsSync(path.join(modules, DEVELOPMENT_PACKAGE))) return false;
  return statSync(installed).mtimeMs >= statSync(path.join(root, "package-lock.json")).mtimeMs;
}
