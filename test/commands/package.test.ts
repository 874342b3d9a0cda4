// The npm package: packed, installed into an empty folder, and started, as a stranger does.

import { afterAll, describe, expect, test } from "bun:test";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import packageJson from "../../package.json" with { type: "json" };
import { skipUnless } from "../support/skip.ts";

const ROOT = path.resolve(import.meta.dir, "../..");
const tempFolder = mkdtempSync(path.join(tmpdir(), "postern-package-"));
const project = path.join(tempFolder, "project");
/** What `npx postern` runs. */
const COMMAND = path.join(project, "node_modules", ".bin", "postern");
const INSTALL_TIMEOUT_MS = 180_000;
const REGISTRY_ERRORS = /ENOTFOUND|ECONNREFUSED|ETIMEDOUT|EAI_AGAIN|ENOTCACHED/;

afterAll(() => rmSync(tempFolder, { recursive: true, force: true }));

const packed = npm(["pack", "--ignore-scripts", "--pack-destination", tempFolder], ROOT);
const tarball = readdirSync(tempFolder).find((name) => name.endsWith(".tgz")) ?? packed.stderr;
mkdirSync(project);
const installed = npm(
  ["install", "--prefer-offline", "--no-audit", "--no-fund", path.join(tempFolder, tarball)],
  project,
);
const skip = skipUnless(
  installed.status === 0 || !REGISTRY_ERRORS.test(installed.stderr),
  "the npm registry cannot be reached to install the packed package",
);

describe("the npm package", () => {
  test.skipIf(skip)("installs without warnings about engines or install scripts", () => {
    expect([installed.status, installed.stderr]).toEqual([0, expect.any(String)]);
    expect(installed.stderr).not.toMatch(/EBADENGINE|install-scripts|deprecated/);
  });

  test.skipIf(skip)("contains no tests, benchmarks or development files", () => {
    const folder = path.join(project, "node_modules", "postern");
    for (const name of ["test", "bench", "docs/decisions", ".env", "data", "knip.json"])
      expect([name, readdirSync(folder).includes(name)]).toEqual([name, false]);
  });

  test.skipIf(skip)(
    "starts with npx, creates an account and answers its first call",
    async () => {
      const gateway = spawn(COMMAND, [], {
        cwd: project,
        env: { ...environment(), POSTERN_PORT: "0" },
        stdio: ["ignore", "pipe", "inherit"],
        detached: true,
      });
      try {
        const url = await listeningUrl(gateway);
        const account = await post(`${url}/v1/accounts`, {}, {});
        const call = await post(
          `${url}/v1/chat/completions`,
          { authorization: `Bearer ${String(account["api_key"])}` },
          { model: "sim/echo", messages: [{ role: "user", content: "Hello, gateway." }] },
        );
        expect(JSON.stringify(call)).toContain("Hello, gateway.");
      } finally {
        if (gateway.pid !== undefined) process.kill(-gateway.pid, "SIGKILL");
      }
    },
    60_000,
  );

  test.skipIf(skip)("prints its version", () => {
    const { stdout } = spawnSync(COMMAND, ["--version"], {
      cwd: project,
      env: environment(),
      encoding: "utf8",
    });
    expect(stdout).toBe(`${packageJson.version}\n`);
  });
});

function npm(args: readonly string[], cwd: string) {
  return spawnSync("npm", args, {
    cwd,
    env: environment(),
    encoding: "utf8",
    timeout: INSTALL_TIMEOUT_MS,
  });
}

// Without the settings of the npm that runs these tests.
function environment(): Record<string, string> {
  const { PATH = "", HOME = "" } = process.env;
  return { PATH, HOME };
}

async function post(
  url: string,
  headers: Readonly<Record<string, string>>,
  body: unknown,
): Promise<Record<string, unknown>> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  expect(response.ok).toBe(true);
  const json: unknown = await response.json();
  return Object.fromEntries(Object.entries(json ?? {}));
}

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
