// Runs a test script as a child process and reads its output line by line.

import { type ChildProcessByStdio, spawn } from "node:child_process";
import type { Readable, Writable } from "node:stream";

export interface ScriptProcess {
  readonly process: ChildProcessByStdio<Writable, Readable, null>;
  /** All lines so far. */
  readonly lines: string[];
  /** Resolves with the next line that starts with `start`; rejects if the process ends before. */
  readonly waitForLine: (start: string) => Promise<string>;
  readonly exitCode: Promise<number | null>;
}

/** Without variables of the test run, such as POSTERN_RECORDINGS, which a gateway rejects as unknown settings. */
function withoutSettings(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(env).filter(
      ([name]) => !name.startsWith("POSTERN_") || name.startsWith("POSTERN_TEST_"),
    ),
  );
}

export function startScript(
  script: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): ScriptProcess {
  return startCommand([process.execPath, script, ...args], env);
}

export function startCommand(
  [command = process.execPath, ...rest]: readonly string[],
  env: Readonly<Record<string, string>>,
): ScriptProcess {
  const child = spawn(command, rest, {
    stdio: ["pipe", "pipe", "inherit"],
    env: { ...withoutSettings(process.env), ...env },
  });
  const lines: string[] = [];
  let nextLine = 0;
  let changed = Promise.withResolvers<void>();
  let hasEnded = false;
  let partial = "";
  const notify = (): void => {
    changed.resolve();
    changed = Promise.withResolvers<void>();
  };
  child.stdout.setEncoding("utf8");
  child.stdout.on("data", (chunk: string) => {
    const parts = (partial + chunk).split("\n");
    partial = parts.pop() ?? "";
    lines.push(...parts);
    notify();
  });
  // Writing to a killed process fails with EPIPE.
  child.stdin.on("error", () => {});
  const exitCode = new Promise<number | null>((resolve) =>
    child.on("close", (code) => {
      hasEnded = true;
      notify();
      resolve(code);
    }),
  );
  const waitForLine = async (start: string): Promise<string> => {
    for (;;) {
      for (let found = lines[nextLine]; found !== undefined; found = lines[nextLine]) {
        nextLine += 1;
        if (found.startsWith(start)) return found;
      }
      if (hasEnded)
        throw new Error(`the process ended without printing "${start}": ${lines.join(" | ")}`);
      await changed.promise;
    }
  };
  return { process: child, lines, waitForLine, exitCode };
}
