#!/usr/bin/env node
// The `postern` command: starts the program under the project's own Bun.

import path from "node:path";
import { root, runBun } from "./bun.js";

// Bun looks for the compiler's settings in the folder that it is started in, which may be any.
const settings = path.join(root, "tsconfig.json");
runBun([
  `--tsconfig-override=${settings}`,
  path.join(root, "src", "main.ts"),
  ...process.argv.slice(2),
]);
