// Runs the examples of a package's README. What an example prints is the comment at the end of each `console.log` line.

import { spawnSync } from "node:child_process";
import path from "node:path";
import { readText, ROOT } from "./source/source-files.ts";

export interface ReadmeExample {
  /** The first line that prints, to name a test. */
  readonly title: string;
  readonly expected: readonly string[];
  readonly code: string;
}

export function readmeExamples(packageName: string): readonly ReadmeExample[] {
  const blocks = readText(`packages/${packageName}/README.md`).matchAll(/```ts\n([\s\S]*?)```/g);
  return [...blocks].map(([, code = ""]) => {
    const prints = [...code.matchAll(/(console\.log\(.*\);) \/\/ (.*)$/gm)];
    return { title: prints[0]?.[1] ?? "", expected: prints.map(([, , text = ""]) => text), code };
  });
}

/** The lines that an example prints, run as a program of its own in the folder of the package. */
export function runExample(packageName: string, { code }: ReadmeExample): readonly string[] {
  const { stdout, stderr } = spawnSync(process.execPath, ["-e", code], {
    cwd: path.join(ROOT, "packages", packageName),
    encoding: "utf8",
  });
  return [...stdout.trimEnd().split("\n"), ...(stderr === "" ? [] : [stderr])];
}
