#!/usr/bin/env node
// The `postern` command: runs src/main.ts, or its bundle in the npm package, with the Bun of node_modules.

import { existsSync } from "node:fs";
import path from "node:path";
import { root, runBun } from "./bun.js";

// Bun looks for tsconfig.json in the working directory, which can be any folder.
const tsconfig = path.join(root, "tsconfig.json");
/** Assumed memory size of the machine: JavaScriptCore's heap grows to a share of it before it collects garbage. */
const MEMORY_BYTES = "536870912";

/** A sweep returns free memory inside of used pages to the system, which costs page faults afterwards. Bun's default is 100 ms. */
const SWEEP_INTERVAL_MS = "2000";

const source = path.join(root, "src", "main.ts");
const main = existsSync(source) ? source : path.join(root, "lib", "main.js");

runBun([`--tsconfig-override=${tsconfig}`, main, ...process.argv.slice(2)], {
  BUN_JSC_forceRAMSize: MEMORY_BYTES,
  MIMALLOC_PURGE_HOLES_MIN_INTERVAL: SWEEP_INTERVAL_MS,
});
