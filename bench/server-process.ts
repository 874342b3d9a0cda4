// The server processes of the benchmarks: children on their own ports, with their CPU time and memory.

import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { cpus } from "node:os";

const TICKS_PER_SECOND = 100;

export interface ServerProcess {
  readonly url: string;
  readonly pid: number;
  readonly cpuSeconds: () => number;
  readonly rssMb: () => number;
  readonly stop: () => Promise<void>;
}

/** Creates an account with enough credit for the benchmarks, and returns its API key. `settings` are those of the gateway. */
export async function fundedKey(
  url: string,
  settings: Readonly<Record<string, string>>,
  tree: string = process.cwd(),
): Promise<string> {
  const response = await fetch(`${url}/v1/accounts`, {
    method: "POST",
    body: "{}",
    headers: { "content-type": "application/json" },
  });
  // Safe: without an account the next command fails and ends the run.
  const account = (await response.json()) as { account: { id: string }; api_key: string };
  const grant = Bun.spawnSync(
    [
      process.execPath,
      "src/main.ts",
      "admin",
      "grant",
      account.account.id,
      "100000",
      "--reason",
      "bench",
    ],
    { cwd: tree, env: { ...process.env, ...settings } },
  );
  if (grant.exitCode !== 0) throw new Error(grant.stderr.toString());
  return account.api_key;
}

/** The key of a new account with its starting credit, which is enough for thousands of calls. */
export async function createKey(url: string): Promise<string> {
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${url}/v1/accounts`, { method: "POST", body: "{}", headers });
  // Safe: with an undefined key every call fails, and the table says so.
  return ((await response.json()) as { api_key: string }).api_key;
}

/**
 * Runs a process on the first core and this one, with the provider and the load generator, on the others. Returns false where
 * that is not possible.
 */
export function pinApart(pids: readonly number[]): boolean {
  const last = cpus().length - 1;
  if (last < 1 || Bun.which("taskset") === null) return false;
  const pin = (pid: number, cores: string): boolean =>
    Bun.spawnSync(["taskset", "--all-tasks", "--cpu-list", "--pid", cores, String(pid)]).success;
  return [pin(process.pid, `1-${last}`), ...pids.map((pid) => pin(pid, "0"))].every(Boolean);
}

/** Runs a Postern command of a source tree on a free port, and waits until it responds. */
export async function startServer(
  command: readonly string[],
  env: Readonly<Record<string, string>>,
  tree: string = process.cwd(),
): Promise<ServerProcess> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const full = command.includes("--port") ? [...command, String(port)] : [...command];
  const child = Bun.spawn([process.execPath, "src/main.ts", ...full], {
    cwd: tree,
    env: {
      ...process.env,
      ...env,
      POSTERN_PORT: String(port),
      // The same values as the launcher sets.
      BUN_CONFIG_MAX_HTTP_REQUESTS: "65336",
      BUN_JSC_forceRAMSize: "536870912",
      MIMALLOC_PURGE_HOLES_MIN_INTERVAL: "2000",
    },
    stdout: "ignore",
    stderr: "inherit",
  });
  const exited = child.exited.then((code) => {
    throw new Error(`${full.join(" ")} exited with code ${code} before it responded`);
  });
  await Promise.race([waitForServer(url), exited]);
  return {
    url,
    pid: child.pid,
    cpuSeconds: () => cpuSecondsOf(child.pid),
    rssMb: () => rssMbOf(child.pid),
    stop: async () => {
      child.kill("SIGTERM");
      await child.exited;
    },
  };
}

/** A start takes half a second of CPU time for each process, and much longer on a busy machine. */
const START_MAX_MS = 180_000;

/** Polls until the server responds. */
export async function waitForServer(url: string): Promise<void> {
  const until = performance.now() + START_MAX_MS;
  while (performance.now() < until) {
    const isUp = await fetch(url).then(
      () => true,
      () => false,
    );
    if (isUp) return;
    await Bun.sleep(25);
  }
  throw new Error(`${url} does not respond`);
}

export function cpuSecondsOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/^.*\) /, "")
    .split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

export function rssMbOf(pid: number): number {
  const line = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
  return Number(line?.[1] ?? 0) / 1_024;
}

export function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const address = probe.address();
      const port = typeof address === "object" && address !== null ? address.port : 0;
      probe.close(() => resolve(port));
    });
  });
}
