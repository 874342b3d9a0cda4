// The first stage of the Dockerfile, which builds the executable of the image.

import { expect } from "bun:test";
import { spawnSync } from "node:child_process";
import { cpSync } from "node:fs";
import path from "node:path";
import { readText, ROOT } from "../support/source/source-files.ts";

/** The lines of the Dockerfile, one for each instruction. */
export const dockerfile = readText("Dockerfile").replaceAll("\\\n", " ").split("\n");

const instructions = dockerfile.slice(
  dockerfile.findIndex((line) => line.startsWith("FROM ${NODE_IMAGE}")),
  dockerfile.findIndex((line) => line.startsWith("FROM ${RUNTIME_IMAGE}")),
);
/** What .dockerignore lets through, as in `COPY`. */
const buildContext = readText(".dockerignore")
  .split("\n")
  .flatMap((line) => (line.startsWith("!") ? [line.slice(1)] : []));

/** Runs the stage in an empty folder. */
export function runBuildStage(folder: string): void {
  for (const line of instructions) {
    const [instruction, ...words] = line.split(" ");
    if (instruction === "COPY")
      for (const source of words.slice(0, -1)) copyInto(folder, source, words.at(-1) ?? "");
    if (instruction === "RUN") runIn(folder, words.join(" "));
  }
}

function copyInto(folder: string, source: string, target: string): void {
  expect(buildContext).toContain(source);
  const to = target === "./" ? path.join(folder, source) : path.join(folder, target);
  cpSync(path.join(ROOT, source), to, { recursive: true });
}

function runIn(folder: string, command: string): void {
  const { PATH = "", HOME = "" } = process.env;
  const { status, stderr } = spawnSync("sh", ["-c", command], {
    cwd: folder,
    env: { PATH, HOME, npm_config_prefer_offline: "true" },
    encoding: "utf8",
  });
  expect([command, status, status === 0 ? "" : stderr]).toEqual([command, 0, ""]);
}
