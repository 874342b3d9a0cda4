// Runs the `postern` command in a temporary folder, with only the given settings.

import { type ChildProcess, spawn } from "node:child_process";
import { rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { PROGRAM, PROGRAM_SETTINGS } from "../support/program.ts";
import { scratchFolder } from "../support/scratch-folder.ts";
import { TEST_POOL_SIZE } from "../support/stores/stores.ts";

const KILL_AFTER_MS = 900_000;

export type Settings = Readonly<Record<string, string>>;

export interface ExitResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunningProcess {
  readonly url: string;
  readonly process: ChildProcess;
  readonly output: () => string;
  readonly exited: Promise<ExitResult>;
}

const running = new Set<ChildProcess>();

/** Kills the processes that a failed test left running. */
export function stopAll(): void {
  for (const child of running) killAll(child);
}

// A gateway and its workers are one process group.
function killAll({ pid }: ChildProcess): void {
  if (pid !== undefined) process.kill(-pid, "SIGKILL");
}

/** An empty folder and the settings of a gateway in it. */
export function createTempFolder(): {
  readonly folder: string;
  readonly settings: Settings;
  readonly remove: () => void;
} {
  const folder = scratchFolder("commands");
  return {
    folder,
    settings: { POSTERN_DATA_DIR: path.join(folder, "data"), POSTERN_PORT: "0" },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

export function runPostern(
  args: readonly string[],
  settings: Settings = {},
  cwd = tmpdir(),
): Promise<ExitResult> {
  return startProcess(args, settings, cwd).ended;
}

/** Resolves when the gateway or the simulator listens. */
export async function startPostern(
  args: readonly string[],
  settings: Settings,
  cwd = tmpdir(),
): Promise<RunningProcess> {
  const { child, ended: exited, output } = startProcess(args, settings, cwd);
  const port = await new Promise<string>((resolve, reject) => {
    child.stdout?.on("data", () => {
      const found = /"event":"listening".*?"port":(\d+)|is at http:\/\/127\.0\.0\.1:(\d+)/.exec(
        output(),
      );
      const port = found?.[1] ?? found?.[2];
      if (port !== undefined) resolve(port);
    });
    void exited.then(({ stdout, stderr }) => reject(new Error(`it ended: ${stdout}${stderr}`)));
  });
  return { url: `http://127.0.0.1:${port}`, process: child, output, exited };
}

export async function stopPostern({ process: child, exited }: RunningProcess): Promise<ExitResult> {
  child.kill("SIGTERM");
  return await exited;
}

function startProcess(args: readonly string[], settings: Settings, cwd: string) {
  const [command, ...programArgs] = PROGRAM;
  const env = {
    ...PROGRAM_SETTINGS,
    PATH: process.env["PATH"] ?? "",
    HOME: cwd,
    POSTERN_DATABASE_POOL_SIZE: String(TEST_POOL_SIZE),
    ...settings,
  };
  const child = spawn(command, [...programArgs, ...args], {
    cwd,
    env,
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  running.add(child);
  const text = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const)
    child[name].setEncoding("utf8").on("data", (chunk: string) => {
      text[name] += chunk;
    });
  const timer = setTimeout(() => killAll(child), KILL_AFTER_MS);
  const exited = new Promise<ExitResult>((resolve) =>
    child.on("close", (code) => {
      clearTimeout(timer);
      running.delete(child);
      resolve({ code, ...text });
    }),
  );
  return { child, ended: exited, output: () => text.stdout };
}

/** The URL of a gateway that logs JSON to its output. */
export function listeningUrl(child: ChildProcess): Promise<string> {
  let output = "";
  return new Promise((resolve, reject) => {
    child.stdout?.setEncoding("utf8").on("data", (chunk: string) => {
      output += chunk;
      const port = /"port":(\d+)/.exec(output)?.[1];
      if (port !== undefined) resolve(`http://127.0.0.1:${port}`);
    });
    child.on("exit", (code) => reject(new Error(`it ended with ${code}: ${output}`)));
  });
}
