// `npm run build`: a single executable without dependencies.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import packageJson from "../../package.json" with { type: "json" };

const ROOT = path.resolve(import.meta.dir, "../..");
const tempFolder = mkdtempSync(path.join(tmpdir(), "postern-executable-"));
const executable = path.join(tempFolder, "postern");
const empty = path.join(tempFolder, "empty");

beforeAll(() => {
  mkdirSync(empty);
  const [, , , ...args] = packageJson.scripts.build.split(" ");
  const built = spawnSync(process.execPath, ["build", ...args.slice(0, -1), executable], {
    cwd: ROOT,
    encoding: "utf8",
  });
  if (built.status !== 0) throw new Error(built.stderr);
});
afterAll(() => rmSync(tempFolder, { recursive: true, force: true }));

describe("the executable", () => {
  test("prints version and help without other files", () => {
    const run = (flag: string) =>
      spawnSync(executable, [flag], { cwd: empty, env: {}, encoding: "utf8" });
    expect(run("--version")).toMatchObject({ status: 0, stdout: `${packageJson.version}\n` });
    expect(run("--help").stdout).toContain("Usage: postern [command]");
    expect(run("--frob").status).toBe(2);
    expect(readdirSync(empty)).toEqual([]);
  });

  test("serves from the executable alone, reads .env and stops on SIGTERM with exit code 0", async () => {
    writeFileSync(path.join(empty, ".env"), "POSTERN_PORT=0\nPOSTERN_DATA_DIR=./here\n");
    const child = spawn(executable, [], {
      cwd: empty,
      env: {},
      stdio: ["ignore", "pipe", "inherit"],
    });
    const url = await listeningUrl(child);
    for (const page of [
      "/readyz",
      "/v1/models",
      "/openapi.yaml",
      "/auth.md",
      "/llms.txt",
      "/docs",
      "/",
    ])
      expect(`${page} ${(await fetch(`${url}${page}`)).status}`).toBe(`${page} 200`);
    const made = await fetch(`${url}/v1/accounts`, {
      method: "POST",
      body: "{}",
      headers: { "content-type": "application/json" },
    });
    expect(made.status).toBe(201);
    expect(readdirSync(path.join(empty, "here"))).toContain("postern.db");
    const ended = new Promise((resolve) => child.on("exit", resolve));
    child.kill("SIGTERM");
    expect(await ended).toBe(0);
  });
});

function listeningUrl(child: ChildProcess): Promise<string> {
  let output = "";
  return new Promise((resolve, reject) => {
    child.stdout?.setEncoding("utf8").on("data", (chunk: string) => {
      output += chunk;
      const port = /"port":(\d+)/.exec(output)?.[1];
      if (port !== undefined) resolve(`http://127.0.0.1:${port}`);
    });
    child.on("exit", (code) => reject(new Error(`it ended with ${code}: ${output}`)));
  });
}
