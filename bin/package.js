// npm runs this before and after it packs. The package has the program as a bundle in lib/, so that npm installs only Bun beside
// it: `package.json` loses its other dependencies while it is packed, and is restored afterwards.

import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readFileSync } from "node:fs";
import { renameSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import process, { argv } from "node:process";
import { findBun, root } from "./bun.js";
import { ENTRIES } from "./entries.js";
import { lastChangedOption } from "./last-changed.js";
import { LICENSES_FILE, licenseTexts } from "./licenses.js";

const lib = path.join(root, "lib");
const manifest = path.join(root, "package.json");
const original = path.join(root, "dist", "package.json.original");

// Also after an earlier pack that was interrupted.
if (existsSync(original)) renameSync(original, manifest);
rmSync(lib, { recursive: true, force: true });
if (!argv.includes("--restore")) {
  bundle();
  writeFileSync(path.join(lib, LICENSES_FILE), licenseTexts());
  replaceManifest();
}

function bundle() {
  const args = [
    "build",
    ...ENTRIES,
    "--target=bun",
    "--splitting",
    "--outdir",
    lib,
    lastChangedOption(),
  ];
  const bun = findBun();
  if (bun === undefined) fail("Bun is not installed. Run `npm ci`.");
  const { status, stderr } = spawnSync(bun, args, { cwd: root, encoding: "utf8" });
  if (status !== 0) fail(`bun ${args.join(" ")} failed: ${stderr}`);
}

function replaceManifest() {
  const published = JSON.parse(readFileSync(manifest, "utf8"));
  for (const field of ["dependencies", "devDependencies", "workspaces", "scripts", "allowScripts"])
    delete published[field];
  mkdirSync(path.dirname(original), { recursive: true });
  copyFileSync(manifest, original);
  writeFileSync(`${manifest}.new`, `${JSON.stringify(published, undefined, 2)}\n`);
  renameSync(`${manifest}.new`, manifest);
}

function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}
