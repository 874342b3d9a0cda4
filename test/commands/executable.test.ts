// `npm run build`: a single executable without dependencies, as the Dockerfile builds it.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { z } from "zod";
import packageJson from "../../package.json" with { type: "json" };
import { runBuildStage } from "../deploy/build-stage.ts";
import { programInputs } from "../support/program.ts";
import { skipUnless } from "../support/skip.ts";
import { COUNTED_TOKENS, countedCall } from "./counted-call.ts";
import { listeningUrl } from "./run-postern.ts";

const ROOT = path.resolve(import.meta.dir, "../..");
const tempFolder = mkdtempSync(path.join(tmpdir(), "postern-executable-"));
const dist = path.join(tempFolder, "dist");
const executable = path.join(dist, "postern");
const empty = path.join(tempFolder, "empty");

beforeAll(() => {
  runBuildStage(tempFolder);
  mkdirSync(empty);
});
afterAll(() => rmSync(tempFolder, { recursive: true, force: true }));

describe("the executable that the first stage of the Dockerfile builds", () => {
  test("prints version and help without other files", () => {
    const run = (flag: string) =>
      spawnSync(executable, [flag], { cwd: empty, env: {}, encoding: "utf8" });
    expect(run("--version")).toMatchObject({ status: 0, stdout: `${packageJson.version}\n` });
    expect(run("--help").stdout).toContain("Usage: postern [command]");
    expect(readdirSync(empty)).toEqual([]);
  });

  test("runs without HOME and without an entry in /etc/passwd", () => {
    const run = (command: string, args: readonly string[]) =>
      spawnSync(command, args, { cwd: "/", env: {}, encoding: "utf8" });
    const isRoot = process.getuid?.() === 0;
    chmodSync(tempFolder, 0o755);
    const user = ["--reuid=54321", "--regid=54321", "--clear-groups", executable];
    const [command, args] = isRoot ? ["/usr/bin/setpriv", user] : [executable, []];
    expect(run(command, [...args, "doctor"]).stdout).toContain("Postern ");
  });

  test("backs up a store, which takes a thread of its own", () => {
    const folder = path.join(tempFolder, "backed-up");
    const env = { POSTERN_DATA_DIR: folder };
    const run = (...args: readonly string[]) =>
      spawnSync(executable, args, { cwd: empty, env, encoding: "utf8" });
    expect(run("migrate").status).toBe(0);
    const { status, stderr } = run("admin", "backup", path.join(tempFolder, "copy.db"));
    expect([status, stderr]).toEqual([0, expect.stringMatching(/^copied [\d,]+ bytes in /)]);
  });

  test("contains the license of every package that it bundles", async () => {
    const { stdout } = spawnSync(executable, ["licenses"], {
      cwd: empty,
      env: {},
      encoding: "utf8",
    });
    const folders = await bundledPackages();
    expect(folders.length).toBeGreaterThan(Object.keys(packageJson.dependencies).length);
    for (const folder of folders) {
      const { name, version } = z
        .object({ name: z.string(), version: z.string() })
        .parse(JSON.parse(readFileSync(path.join(ROOT, folder, "package.json"), "utf8")));
      expect(stdout).toContain(`\n${name} ${version} (`);
      for (const file of readdirSync(path.join(ROOT, folder)).filter((it) =>
        /^licen[cs]e/i.test(it),
      ))
        expect(stdout).toContain(readFileSync(path.join(ROOT, folder, file), "utf8").trim());
    }
    for (const section of stdout.split("-".repeat(80)))
      expect(section).toMatch(
        /Permission is hereby granted|Apache License|Permission to use|PYTHON SOFTWARE FOUNDATION LICENSE|Redistribution and use|Bun /,
      );
    expect(readFileSync(path.join(dist, "THIRD-PARTY-LICENSES.txt"), "utf8")).toBe(
      stdout.slice(0, -1),
    );
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
    const { api_key } = z.object({ api_key: z.string() }).parse(await made.json());
    expect(await countedCall(url, api_key)).toBe(COUNTED_TOKENS);
    expect(readdirSync(path.join(empty, "here"))).toContain("postern.db");
    const ended = new Promise((resolve) => child.on("exit", resolve));
    child.kill("SIGTERM");
    expect(await ended).toBe(0);
  });
});

const skipRelease = skipUnless(
  process.env["POSTERN_TEST_RELEASE"] !== undefined,
  "set POSTERN_TEST_RELEASE=1 to build the executables of all platforms, which downloads Bun for each",
);

describe("npm run build -- --all", () => {
  test.skipIf(skipRelease)("builds an executable per platform with checksums and an SBOM", () => {
    const folder = path.join(tempFolder, "release");
    const script = path.join(ROOT, "bin", "build.js");
    const built = spawnSync("node", [script, "--all", "--out", folder], { encoding: "utf8" });
    expect([built.status, built.stderr]).toEqual([0, ""]);
    const lines = readFileSync(path.join(folder, "SHA256SUMS"), "utf8").trim().split("\n");
    expect(lines.map((line) => line.split("  ")[1])).toEqual([
      "postern-linux-x64",
      "postern-linux-arm64",
      "postern-darwin-arm64",
      "postern-darwin-x64",
      "postern-windows-x64.exe",
      "sbom.cdx.json",
      "THIRD-PARTY-LICENSES.txt",
    ]);
    for (const line of lines) {
      const [digest = "", name = ""] = line.split("  ");
      const content = readFileSync(path.join(folder, name));
      expect([name, createHash("sha256").update(content).digest("hex")]).toEqual([name, digest]);
    }
    const sbom = z
      .object({ components: z.array(z.object({ name: z.string() })) })
      .parse(JSON.parse(readFileSync(path.join(folder, "sbom.cdx.json"), "utf8")));
    const names = sbom.components.map(({ name }) => name);
    for (const name of Object.keys(packageJson.dependencies)) expect(names).toContain(name);
    expect(names).not.toContain("typescript");
  });
});

/** The folders of the packages whose files the bundler reads. */
async function bundledPackages(): Promise<readonly string[]> {
  const folders = (await programInputs(tempFolder)).flatMap((file) =>
    [...file.matchAll(/^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//g)].map(([, folder = ""]) => folder),
  );
  return [...new Set(folders)];
}
