// The first stage of the Dockerfile, which builds the executable of the image.

import { expect } from "bun:test";
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, symlinkSync } from "node:fs";
import path from "node:path";
import { z } from "zod";
import { IS_FULL } from "../support/full.ts";
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

const INSTALL = "npm ci --omit=dev --no-fund --no-audit";

/** Runs the stage in an empty folder. In the short form, links to what is installed here replace the installation. */
export function runBuildStage(folder: string): void {
  for (const line of instructions) {
    const [instruction, ...words] = line.split(" ");
    if (instruction === "COPY")
      for (const source of words.slice(0, -1)) copyInto(folder, source, words.at(-1) ?? "");
    if (instruction !== "RUN") continue;
    const command = words.join(" ");
    if (command === INSTALL && !IS_FULL) linkDependencies(folder);
    else runIn(folder, command);
  }
}

/** The packages that `npm ci --omit=dev` installs: the build gets no other. */
function linkDependencies(folder: string): void {
  const { packages } = z
    .object({
      packages: z.record(
        z.string(),
        z.object({
          dev: z.boolean().optional(),
          optional: z.boolean().optional(),
          link: z.boolean().optional(),
          resolved: z.string().optional(),
        }),
      ),
    })
    .parse(JSON.parse(readText("package-lock.json")));
  for (const [location, { dev, optional, link, resolved = "" }] of Object.entries(packages)) {
    if (!/^node_modules\/(?:@[^/]+\/)?[^/]+$/.test(location) || dev === true) continue;
    const installed = path.join(link === true ? folder : ROOT, link === true ? resolved : location);
    if (optional === true && !existsSync(installed)) continue;
    mkdirSync(path.dirname(path.join(folder, location)), { recursive: true });
    symlinkSync(installed, path.join(folder, location));
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
