// The day of the last commit of each page of the documentation. The builds put it into the program, which has no history:
// from Git, or from docs/site/last-changed.json where Git is not (`node bin/last-changed.js > docs/site/last-changed.json`).

import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import process, { argv } from "node:process";
import { fileURLToPath } from "node:url";
import { root } from "./bun.js";

const SITE = path.join("docs", "site");

/** For `bun build`. */
export function lastChangedOption() {
  return `--define=POSTERN_LAST_CHANGED=${JSON.stringify(lastChanged(root))}`;
}

/** By file, relative to docs/site. */
export function lastChanged(folder) {
  const written = path.join(folder, SITE, "last-changed.json");
  if (existsSync(written)) return JSON.parse(readFileSync(written, "utf8"));
  const pages = readdirSync(path.join(folder, SITE), { recursive: true })
    .filter((name) => name.endsWith(".md"))
    .map((name) => name.replaceAll("\\", "/"));
  const days = [...pages, "../../CHANGELOG.md"].map((name) => {
    const args = ["log", "-1", "--format=%cs", "--", path.join(SITE, name)];
    return [name, spawnSync("git", args, { cwd: folder, encoding: "utf8" }).stdout?.trim() ?? ""];
  });
  return Object.fromEntries(days.filter(([, day]) => day !== ""));
}

if (argv[1] === fileURLToPath(import.meta.url))
  process.stdout.write(`${JSON.stringify(lastChanged(root), undefined, 2)}\n`);
