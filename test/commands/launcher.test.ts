// The launcher finds the Bun that npm installed, or says how to install it.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

const BIN = path.resolve(import.meta.dir, "../../bin");
const platform = process.platform === "win32" ? "windows" : process.platform;
const arch = process.arch === "arm64" ? "aarch64" : process.arch;
const root = mkdtempSync(path.join(tmpdir(), "postern-launcher-"));
const modules = path.join(root, "node_modules");

beforeAll(() => cpSync(BIN, path.join(root, "bin"), { recursive: true }));
afterAll(() => rmSync(root, { recursive: true, force: true }));

describe("bin/bun.js", () => {
  test("says what to do if nothing is installed", () => {
    const { status, stderr } = launch("--version");
    expect(status).toBe(1);
    expect(stderr).toContain("Run `npm ci`");
  });

  test("ignores the placeholder file of an install without scripts", () => {
    const folder = path.join(modules, "bun", "bin");
    mkdirSync(folder, { recursive: true });
    writeFileSync(path.join(folder, "bun.exe"), "echo not run >&2\nexit 1\n", { mode: 0o755 });
    expect(launch("--version").status).toBe(1);
  });

  test("finds the program in the platform's package", () => {
    const folder = path.join(modules, "@oven", `bun-${platform}-${arch}`, "bin");
    mkdirSync(folder, { recursive: true });
    symlinkSync(process.execPath, path.join(folder, "bun"));
    expect(launch("--version")).toMatchObject({ status: 0, stdout: `${Bun.version}\n` });
  });

  test("finds the program of the install script", () => {
    rmSync(path.join(modules, "@oven"), { recursive: true });
    const file = path.join(modules, "bun", "bin", "bun.exe");
    rmSync(file);
    symlinkSync(process.execPath, file);
    expect(launch("--version").status).toBe(0);
  });

  test("passes arguments and exit codes on, and raises the limit of concurrent requests", () => {
    const script =
      "console.log(process.env.BUN_CONFIG_MAX_HTTP_REQUESTS, process.argv[1]); process.exit(7)";
    expect(launch("-e", script, "an argument")).toMatchObject({
      status: 7,
      stdout: "65336 an argument\n",
    });
  });
});

describe("bin/postern.js", () => {
  const script = path.join(root, "src", "main.ts");
  beforeAll(() => {
    mkdirSync(path.dirname(script), { recursive: true });
    writeFileSync(
      script,
      "const { env } = process; console.log(env.BUN_JSC_forceRAMSize, env.MIMALLOC_PURGE_HOLES_MIN_INTERVAL)",
    );
    writeFileSync(path.join(root, "tsconfig.json"), "{}");
  });
  const memorySettings = (set: Readonly<Record<string, string>>): string =>
    spawnSync("node", [path.join(root, "bin", "postern.js")], {
      encoding: "utf8",
      env: { PATH: process.env["PATH"] ?? "", ...set },
    }).stdout.trim();

  test("sets a small memory size for the garbage collector and rare sweeps of the allocator by default", () => {
    expect(memorySettings({})).toBe("536870912 2000");
    expect(memorySettings({ BUN_JSC_forceRAMSize: "4294967296" })).toBe("4294967296 2000");
    expect(memorySettings({ MIMALLOC_PURGE_HOLES_MIN_INTERVAL: "100" })).toBe("536870912 100");
  });
});

describe("bin/install.js", () => {
  const lock = path.join(root, "package-lock.json");
  const installed = path.join(modules, ".package-lock.json");
  const write = (file: string, packages: Readonly<Record<string, object>>): void =>
    writeFileSync(file, JSON.stringify({ packages }));
  // Prints its arguments instead of installing.
  const npm = path.join(root, "npm.js");
  const npmArgs = (...args: readonly string[]): string =>
    spawnSync("node", [path.join(root, "bin", "install.js"), ...args], {
      encoding: "utf8",
      env: { PATH: process.env["PATH"] ?? "", npm_execpath: npm },
    }).stderr.split("\n")[1] ?? "";
  beforeAll(() => {
    writeFileSync(npm, "process.stdout.write(process.argv.slice(2).join(' '))");
    write(lock, {
      "": {},
      "node_modules/a": { version: "1.0.0" },
      "node_modules/b": { version: "2.0.0", dev: true },
      "node_modules/c": { version: "3.0.0", optional: true },
    });
  });

  test("adds the links to the packages of the repository without an installation", () => {
    const own = path.join(root, "packages", "own");
    const link = path.join(modules, "@postern", "own");
    mkdirSync(own, { recursive: true });
    const linked = { resolved: "packages/own", link: true };
    const before = readFileSync(lock, "utf8");
    write(installed, {});
    write(lock, {
      "packages/own": { version: "1.0.0" },
      "node_modules/@postern/own": linked,
    });
    expect(npmArgs()).toBe("");
    expect(realpathSync(link)).toBe(realpathSync(own));
    writeFileSync(lock, before);
  });

  test("installs if a package is missing or has another version, whatever the time of the files", () => {
    const future = new Date("2100-01-01");
    const current = { version: "1.0.0" };
    for (const [packages, whenAll, whenProduction] of [
      [{}, "ci --no-fund --no-audit", "ci --no-fund --no-audit --omit=dev"],
      [
        { "node_modules/a": { version: "0.9.0" } },
        "ci --no-fund --no-audit",
        "ci --no-fund --no-audit --omit=dev",
      ],
      [{ "node_modules/a": current }, "ci --no-fund --no-audit", ""],
      [{ "node_modules/a": current, "node_modules/b": { version: "2.0.0" } }, "", ""],
    ] as const) {
      write(installed, packages);
      utimesSync(installed, future, future);
      expect([packages, npmArgs(), npmArgs("--production")]).toEqual([
        packages,
        whenAll,
        whenProduction,
      ]);
    }
  });
});

function launch(...args: readonly string[]) {
  return spawnSync("node", [path.join(root, "bin", "bun.js"), ...args], {
    encoding: "utf8",
    env: { PATH: process.env["PATH"] ?? "" },
  });
}
