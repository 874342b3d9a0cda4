#!/usr/bin/env node
// The `postern` command: starts the program under the project's own Bun.

import path from "node:path";
import { root, runBun } from "./bun.js";

// Bun looks for the compiler's settings in the folder that it is started in, which may be any.
const settings = path.join(root, "tsconfig.json");
/** How much memory the collector takes the machine to have: it lets garbage grow to a share of that. */
const MEMORY_BYTES = "536870912";

runBun(
  [`--tsconfig-override=${settings}`, path.join(root, "src", "main.ts"), ...process.argv.slice(2)],
  { BUN_JSC_forceRAMSize: MEMORY_BYTES },
);
