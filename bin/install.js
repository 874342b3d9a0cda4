// Installs the dependencies if they are missing or older than package-lock.json. `npm start` and `npm test` run this first, so
// that they work from a clean clone. npm writes node_modules/.package-lock.json, whose time is compared.

import { spawnSync } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import path from "node:path";
import { env } from "node:process";
import { findBun, root } from "./bun.js";

if (!isInstalled()) {
  process.stderr.write("Installing dependencies (npm ci) …\n");
  const npm = env.npm_execpath;
  const options = { cwd: root, stdio: ["ignore", 2, 2] };
  const { status, error } =
    npm === undefined
      ? spawnSync("npm", ["ci", "--no-fund", "--no-audit"], {
          ...options,
          shell: process.platform === "win32",
        })
      : spawnSync(process.execPath, [npm, "ci", "--no-fund", "--no-audit"], options);
  if (status !== 0) {
    process.stderr.write(`npm ci failed${error === undefined ? "" : `: ${error.message}`}.\n`);
    process.exit(status ?? 1);
  }
}

function isInstalled() {
  const installed = path.join(root, "node_modules", ".package-lock.json");
  if (!existsSync(installed) || findBun() === undefined) return false;
  return statSync(installed).mtimeMs >= statSync(path.join(root, "package-lock.json")).mtimeMs;
}
