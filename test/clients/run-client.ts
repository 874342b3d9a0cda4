// Runs a coding agent on the task of coding-task.ts, through a gateway in front of the simulator.

import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { grantCredits, USD } from "../inference/support/harness.ts";
import { registerAccount, startGateway } from "../support/gateway.ts";
import { scratchFolder } from "../support/scratch-folder.ts";
import type { ClientProgram } from "./client-programs.ts";
import { type ClientTools, type CodingTask, createCodingTask, TASK } from "./coding-task.ts";
import { type Exchange, startRecordingProxy } from "./recording-proxy.ts";

/** Ends a client that waits forever; a run takes some seconds. */
const CLIENT_TIMEOUT_MS = 240_000;

export interface ClientTarget {
  /** The gateway, without a path. */
  readonly url: string;
  readonly key: string;
  readonly home: string;
  readonly model: string;
}

export interface Client {
  readonly tools: ClientTools;
  readonly args: (target: ClientTarget, task: string) => readonly string[];
  readonly env: (target: ClientTarget) => Readonly<Record<string, string>>;
  /** Configuration files by their path below the home folder. */
  readonly files?: (target: ClientTarget) => Readonly<Record<string, string>>;
}

export interface ClientRun {
  readonly code: number | null;
  readonly output: string;
  readonly exchanges: readonly Exchange[];
  readonly results: Readonly<Record<string, string | undefined>>;
  readonly usageRecords: number;
}

export async function runClient(
  program: ClientProgram,
  client: Client,
  model: string,
  taskIn: (home: string) => CodingTask = (home) => createCodingTask(home, client.tools),
): Promise<ClientRun> {
  const home = scratchFolder("client");
  const task = taskIn(home);
  const gateway = await startGateway({
    providers: ["openai", "anthropic", "google"],
    script: task.script,
  });
  const proxy = startRecordingProxy(gateway.url);
  try {
    const account = await registerAccount(gateway);
    await grantCredits(gateway, account, 10_000n * USD);
    const target = { url: proxy.url, key: account.key, home, model };
    for (const [name, text] of Object.entries(client.files?.(target) ?? {})) {
      mkdirSync(path.dirname(path.join(home, name)), { recursive: true });
      writeFileSync(path.join(home, name), text);
    }
    const { code, output } = await runProgram(program.command, client.args(target, TASK), {
      cwd: task.folder,
      env: { ...baseEnvironment(home), ...client.env(target) },
    });
    const records = await gateway.server.db.all("select id from usage_record", []);
    return {
      code,
      output,
      exchanges: proxy.exchanges,
      results: task.results(),
      usageRecords: records.length,
    };
  } finally {
    await proxy.stop();
    await gateway.stop();
  }
}

/** Nothing of the user's own settings and keys. Non-essential traffic is off, because tests run without a network. */
function baseEnvironment(home: string): Record<string, string> {
  return {
    PATH: process.env["PATH"] ?? "",
    HOME: home,
    XDG_CONFIG_HOME: path.join(home, ".config"),
    XDG_DATA_HOME: path.join(home, ".local/share"),
    XDG_CACHE_HOME: path.join(home, ".cache"),
    XDG_STATE_HOME: path.join(home, ".local/state"),
    TERM: "dumb",
    CI: "1",
    NO_COLOR: "1",
  };
}

function runProgram(
  command: string,
  args: readonly string[],
  { cwd, env }: { readonly cwd: string; readonly env: Readonly<Record<string, string>> },
): Promise<{ readonly code: number | null; readonly output: string }> {
  const child = spawn(command, [...args], { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
  const timer = setTimeout(() => child.kill("SIGKILL"), CLIENT_TIMEOUT_MS);
  const chunks: string[] = [];
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (chunk: string) => chunks.push(chunk));
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => {
      clearTimeout(timer);
      resolve({ code, output: chunks.join("") });
    });
  });
}
