// Runs a script of the tests as a process of its own and reads what it prints, line by line.

import { type ChildProcessByStdio, spawn } from "node:child_process";
import type { Readable, Writable } from "node:stream";

export interface ScriptProcess {
  readonly process: ChildProcessByStdio<Writable, Readable, null>;
  /** Every line so far. */
  readonly lines: string[];
  /** Resolves with the first line from now on that begins so; rejects when the process ends first. */
  readonly waitForLine: (start: string) => Promise<string>;
  readonly exitCode: Promise<number | null>;
}

export function startScript(
  script: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): ScriptProcess {
  const child = spawn(process.execPath, [script, ...args], {
    stdio: ["pipe", "pipe", "inherit"],
    env: { ...process.env, ...env },
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
  // A killed process may write into a pipe that nobody reads any more, and be written to when it is gone.
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
        throw new Error(`the process ended before it said "${start}": ${lines.join(" | ")}`);
      await changed.promise;
    }
  };
  return { process: child, lines, waitForLine, exitCode };
}
