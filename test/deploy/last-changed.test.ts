// The days of the last commits of the documentation pages, which the builds put into the program.

import { expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { scratchFolder } from "../support/scratch-folder.ts";
import { ROOT } from "../support/source/source-files.ts";

const folder = scratchFolder("last-changed");

test("lists committed pages by the day of their last commit, and only those", () => {
  cpSync(path.join(ROOT, "bin"), path.join(folder, "bin"), { recursive: true });
  mkdirSync(path.join(folder, "docs/site/guides"), { recursive: true });
  expect(lastChanged()).toEqual({});
  git("", "init", "--quiet");
  commit("docs/site/keys.md", "2024-02-29T12:00:00Z");
  commit("docs/site/guides/mcp.md", "2025-01-31T12:00:00Z");
  commit("docs/site/keys.md", "2025-07-01T12:00:00Z");
  commit("CHANGELOG.md", "2025-08-02T12:00:00Z");
  writeFileSync(path.join(folder, "docs/site/new.md"), "");
  expect(lastChanged()).toEqual({
    "keys.md": "2025-07-01",
    "guides/mcp.md": "2025-01-31",
    "../../CHANGELOG.md": "2025-08-02",
  });
});

test("reads them from a file where Git is not", () => {
  writeFileSync(path.join(folder, "docs/site/last-changed.json"), '{ "keys.md": "2024-02-29" }');
  expect(lastChanged()).toEqual({ "keys.md": "2024-02-29" });
});

function lastChanged(): unknown {
  const args = [path.join(folder, "bin", "last-changed.js")];
  return JSON.parse(spawnSync("node", args, { encoding: "utf8" }).stdout);
}

function commit(file: string, date: string): void {
  writeFileSync(path.join(folder, file), date);
  git(date, "add", file);
  git(date, "-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-qm", "change");
}

function git(date: string, ...args: readonly string[]): void {
  const env = { ...process.env, GIT_COMMITTER_DATE: date, GIT_AUTHOR_DATE: date };
  const { status, stderr } = spawnSync("git", args, { cwd: folder, env, encoding: "utf8" });
  if (status !== 0) throw new Error(stderr);
}
