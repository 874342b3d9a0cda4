// Installs what is missing, and nothing where nothing is: `npm start` and `npm test` run this first, so that each works
// from a clean clone. The lock file that npm leaves in node_modules tells when that folder is older than the project's.

import { spawnSync } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import path from "node:path";
import { env } from "node:process";
import { findBun, root } from "./bun.js";

if (!isInstalled()) {
  process.stderr.write("Installing the dependencies (npm ci) …\n");
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
    process.stderr.write(
      `The dependencies could not be installed${error === undefined ? "" : `: ${error.message}`}.\n`,
    );
    process.exit(status ?? 1);
  }
}

function isInstalled() {
  const installed = path.join(root, "node_modules", ".package-lock.json");
  if (!existsSync(installed) || findBun() === undefined) return false;
  return statSync(installed).mtimeMs >= statSync(path.join(root, "package-lock.json")).mtimeMs;
}
