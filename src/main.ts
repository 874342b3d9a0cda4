// The entry point: passes arguments, environment, streams and signals of the process to the commands.

import { availableParallelism, homedir, hostname } from "node:os";
import process, { argv, env } from "node:process";
import packageJson from "../package.json" with { type: "json" };
import { type CliEnv, EXIT_USAGE } from "./commands/command.ts";
import { runCommandLine } from "./commands/commands.ts";
import { commandRunner, WORKER_READY, workerStarter } from "./commands/workers/worker-process.ts";
import { readConfig } from "./config/config.ts";
import { type EnvFile, readEnvFile, takeEnvFile } from "./config/env-file.ts";
import { PROVIDERS } from "./inference/providers/providers.ts";

const EXECUTABLE_ROOT = "/$bunfs/";
const MAX_HTTP_REQUESTS = "65336";
const MEMORY_BYTES = "536870912";
const PARENT_POLL_MS = 500;
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

const { path: envFile, args } = takeEnvFile(argv.slice(2));
const fromFile = envFile === undefined ? undefined : readEnvFileOrExit(envFile);
// A variable of the process wins, as with other programs that read such files.
const settings = { ...fromFile?.variables, ...env };

const program =
  argv[1]?.startsWith(EXECUTABLE_ROOT) === true
    ? [process.execPath]
    : [process.execPath, ...process.execArgv, argv[1] ?? ""];
const cli: CliEnv = {
  readConfig: () =>
    readConfig({
      env: settings,
      hostName: hostname(),
      providers: PROVIDERS,
      originOf: (name) => (env[name] === undefined ? fromFile?.originOf(name) : undefined),
    }),
  now: Date.now,
  version: packageJson.version,
  isTerminal: process.stdout.isTTY,
  print: (text) => process.stdout.write(`${text}\n`),
  printError: (text) => process.stderr.write(`${text}\n`),
  progress: {
    isTerminal: process.stderr.isTTY,
    write: (text) => process.stderr.write(text),
    monotonicNow: () => performance.now(),
  },
  client: {
    homeFolder: findHomeFolder(),
    apiKey: settings["POSTERN_API_KEY"],
    baseUrl: settings["POSTERN_BASE_URL"],
    port: settings["POSTERN_PORT"],
    input: () => process.stdin,
  },
  workers: {
    cores: availableParallelism(),
    platform: process.platform,
    start: workerStarter(program, settings),
    run: commandRunner(program, settings),
    reportReady: () => process.send?.(WORKER_READY),
  },
  onSignal: (signal, then) => process.on(signal, then),
};
// npm exec (npx) sends SIGTERM only to the shell between it and this process, which does not pass it on and ends.
if (env["npm_command"] === "exec") {
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    process.kill(process.pid, "SIGTERM");
  }, PARENT_POLL_MS);
  timer.unref();
}
// Where the launcher could not be replaced by this process: if the launcher is killed, this process stops too.
process.on("disconnect", () => process.kill(process.pid, "SIGTERM"));

function readEnvFileOrExit(path: string): EnvFile {
  try {
    return readEnvFile(path);
  } catch (error) {
    process.stderr.write(`postern: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exit(EXIT_USAGE);
  }
}

/** A container's user may have neither HOME nor an entry in /etc/passwd; only client commands need the folder. */
function findHomeFolder(): string {
  try {
    return homedir();
  } catch {
    return process.cwd();
  }
}

process.exit(await runCommandLine(args, cli));
