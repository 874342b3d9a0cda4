// The command line's entrance: hands the process' own things (arguments, environment, streams, signals) to the commands.

import { hostname } from "node:os";
import process, { argv, env } from "node:process";
import packageJson from "../package.json" with { type: "json" };
import type { CliEnv } from "./commands/command.ts";
import { runCommandLine } from "./commands/commands.ts";
import { readConfig } from "./config/config.ts";
import { PROVIDERS } from "./inference/providers/providers.ts";

const EXECUTABLE_ROOT = "/$bunfs/";
const MAX_HTTP_REQUESTS = "65336";
const MEMORY_BYTES = "536870912";

// Bun reads how many calls may be out at once, and how much memory there is, before any code of ours runs. The launcher
// sets them; the executable, which has no launcher, starts itself again in its own place.
if (
  env["BUN_CONFIG_MAX_HTTP_REQUESTS"] === undefined &&
  argv[1]?.startsWith(EXECUTABLE_ROOT) === true
)
  process.execve?.(process.execPath, [process.execPath, ...argv.slice(2)], {
    BUN_JSC_forceRAMSize: MEMORY_BYTES,
    ...env,
    BUN_CONFIG_MAX_HTTP_REQUESTS: MAX_HTTP_REQUESTS,
  });

const cli: CliEnv = {
  readConfig: () => readConfig({ env, hostName: hostname(), providers: PROVIDERS }),
  now: Date.now,
  version: packageJson.version,
  isTerminal: process.stdout.isTTY,
  print: (text) => process.stdout.write(`${text}\n`),
  printError: (text) => process.stderr.write(`${text}\n`),
  onSignal: (signal, then) => process.on(signal, then),
};
// A launcher that could not be replaced by this process, and was killed: who killed it meant this one.
process.on("disconnect", () => process.kill(process.pid, "SIGTERM"));
process.exit(await runCommandLine(argv.slice(2), cli));
