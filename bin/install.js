// Installs the dependencies if a package of package-lock.json is missing or has another version. `npm start` and `npm test` run
// this first, so that they work from a clean clone and after an update. With `--production` it installs only what the gateway
// needs to run. npm writes node_modules/.package-lock.json, which lists what is installed. If only links to the packages of this
// repository are missing, it adds them.

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, symlinkSync } from "node:fs";
import path from "node:path";
import { argv, env } from "node:process";
import { findBun, root } from "./bun.js";

const isProduction = argv.includes("--production");

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
linkWorkspaces();

function isInstalled() {
  const installedFile = path.join(root, "node_modules", ".package-lock.json");
  if (!existsSync(installedFile) || findBun() === undefined) return false;
  const installed = readPackages(installedFile);
  const wanted = Object.entries(readPackages(path.join(root, "package-lock.json")));
  return wanted.every(
    ([location, { version, link, optional, dev, devOptional }]) =>
      !location.startsWith("node_modules/") ||
      link === true ||
      // npm leaves out the optional packages of other platforms.
      optional === true ||
      ((dev === true || devOptional === true) && isProduction) ||
      installed[location]?.version === version,
  );
}

function linkWorkspaces() {
  for (const [location, { link, resolved }] of Object.entries(
    readPackages(path.join(root, "package-lock.json")),
  )) {
    const target = path.join(root, location);
    if (link !== true || existsSync(target)) continue;
    mkdirSync(path.dirname(target), { recursive: true });
    symlinkSync(path.relative(path.dirname(target), path.join(root, resolved)), target, "junction");
  }
}

function readPackages(file) {
  return JSON.parse(readFileSync(file, "utf8")).packages;
}
