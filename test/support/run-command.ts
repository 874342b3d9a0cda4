// Runs a command of the CLI in this process, which is faster than a child process.

import { runCommandLine } from "../../src/commands/commands.ts";
import { readConfig } from "../../src/config/config.ts";
import { PROVIDERS } from "../../src/inference/providers/providers.ts";
import type { ExitResult, Settings } from "../commands/run-postern.ts";

export interface RunOptions {
  readonly monotonicNow?: () => number;
  /** Receives the function that sends a signal to the command. */
  readonly onStart?: (send: (signal: string) => void) => void;
}

export async function runInProcess(
  args: readonly string[],
  settings: Settings,
  options: RunOptions = {},
): Promise<ExitResult> {
  const handlers = new Map<string, (() => void)[]>();
  options.onStart?.((signal) => {
    for (const handler of handlers.get(signal) ?? []) handler();
  });
  const text = { stdout: "", stderr: "" };
  const code = await runCommandLine(args, {
    readConfig: () => readConfig({ env: settings, hostName: "test", providers: PROVIDERS }),
    now: Date.now,
    version: "0.0.0-test",
    isTerminal: false,
    print: (line) => {
      text.stdout += `${line}\n`;
    },
    printError: (line) => {
      text.stderr += `${line}\n`;
    },
    progress: {
      isTerminal: false,
      write: (line) => {
        text.stderr += line;
      },
      monotonicNow: options.monotonicNow ?? (() => performance.now()),
    },
    client: {
      homeFolder: settings["HOME"] ?? "",
      apiKey: settings["POSTERN_API_KEY"],
      baseUrl: settings["POSTERN_BASE_URL"],
      port: settings["POSTERN_PORT"],
      input: async function* () {},
    },
    workers: {
      cores: 2,
      platform: "linux",
      start: () => {
        throw new Error("a command in the process of a test starts no workers");
      },
      run: () => Promise.reject(new Error("a command in the process of a test runs no others")),
      reportReady: () => {},
    },
    onSignal: (signal, handler) => {
      handlers.set(signal, [...(handlers.get(signal) ?? []), handler]);
    },
  });
  return { code, ...text };
}
