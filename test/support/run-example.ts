// Runs a program of the folder `examples`, as a reader does. Returns what it prints.

import { expect } from "bun:test";
import path from "node:path";

export async function runExample(
  name: string,
  url: string,
  ...args: readonly string[]
): Promise<string> {
  const file = path.join(import.meta.dir, "../../examples", name);
  const child = Bun.spawn([process.execPath, file, url, ...args], {
    stdout: "pipe",
    stderr: "pipe",
  });
  const output = await new Response(child.stdout).text();
  expect([await child.exited, await new Response(child.stderr).text()]).toEqual([0, ""]);
  return output;
}
