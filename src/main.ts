// The entry point: passes arguments, environment, streams and signals of the process to the commands.

import { availableParallelism, homedir, hostname } from "node:os";
import process, { argv, env } from "node:process";
import packageJson from "../package.json" with { type: "json" };
import type { CliEnv } from "./commands/command.ts";
import { runCommandLine } from "./commands/commands.ts";
import { commandRunner, WORKER_READY, workerStarter } from "./commands/workers/worker-process.ts";
import { readConfig } from "./config/config.ts";
import { PROVIDERS } from "./inference/providers/providers.ts";

const EXECUTABLE_ROOT = "/$bunfs/";
const MAX_HTTP_REQUESTS = "65336";
const MEMORY_BYTES = "536870912";
const SWEEP_INTERVAL_MS = "2000";

// Bun reads the limit of concurrent requests and the settings of its memory before any of our code runs. The launcher sets
// them; the executable has no launcher and re-executes itself.
if (
  env["BUN_CONFIG_MAX_HTTP_REQUESTS"] === undefined &&
  argv[1]?.startsWith(EXECUTABLE_ROOT) === true
)
  process.execve?.(process.execPath, [process.execPath, ...argv.slice(2)], {
    BUN_JSC_forceRAMSize: MEMORY_BYTES,
    MIMALLOC_PURGE_HOLES_MIN_INTERVAL: SWEEP_INTERVAL_MS,
    ...env,
    BUN_CONFIG_MAX_HTTP_REQUESTS: MAX_HTTP_REQUESTS,
  });

const program =
  argv[1]?.startsWith(EXECUTABLE_ROOT) === true
    ? [process.execPath]
    : [process.execPath, ...process.execArgv, argv[1] ?? ""];
const cli: CliEnv = {
  readConfig: () => readConfig({ env, hostName: hostname(), providers: PROVIDERS }),
  now: Date.now,
  version: packageJson.version,
  isTerminal: process.stdout.isTTY,
  print: (text) => process.stdout.write(`${text}\n`),
  printError: (text) => process.stderr.write(`${text}\n`),
  client: {
    homeFolder: homedir(),
    apiKey: env["POSTERN_API_KEY"],
    baseUrl: env["POSTERN_BASE_URL"],
    port: env["POSTERN_PORT"],
    input: () => process.stdin,
  },
  workers: {
    cores: availableParallelism(),
    platform: process.platform,
    start: workerStarter(program, env),
    run: commandRunner(program, env),
    reportReady: () => process.send?.(WORKER_READY),
  },
  onSignal: (signal, then) => process.on(signal, then),
};
// Where the launcher could not be replaced by this process: if the launcher is killed, this process stops too.
process.on("disconnect", () => process.kill(process.pid, "SIGTERM"));
process.exit(await runCommandLine(argv.slice(2), cli));
