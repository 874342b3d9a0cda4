// The npm package: packed, installed into an empty folder, and started, as a stranger does.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { spawn, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync } from "node:fs";
import { readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import packageJson from "../../package.json" with { type: "json" };
import { eventually } from "../support/eventually.ts";
import { skipUnless } from "../support/skip.ts";
import { COUNTED_TOKENS, countedCall } from "./counted-call.ts";
import { listeningUrl } from "./run-postern.ts";

const ROOT = path.resolve(import.meta.dir, "../..");
const tempFolder = mkdtempSync(path.join(tmpdir(), "postern-package-"));
const project = path.join(tempFolder, "project");
/** A copy, because packing replaces package.json for a moment. */
const repository = path.join(tempFolder, "repository");
const PACKED_FROM =
  "bin src packages docs package.json package-lock.json tsconfig.json README.md LICENSE CHANGELOG.md";
/** What `npx @postern-gateway/postern` runs. */
const COMMAND = path.join(project, "node_modules", ".bin", "postern");
const INSTALL_TIMEOUT_MS = 180_000;
const REGISTRY_ERRORS = /ENOTFOUND|ECONNREFUSED|ETIMEDOUT|EAI_AGAIN|ENOTCACHED/;

afterAll(() => rmSync(tempFolder, { recursive: true, force: true }));

for (const name of PACKED_FROM.split(" "))
  cpSync(path.join(ROOT, name), path.join(repository, name), { recursive: true });
symlinkSync(path.join(ROOT, "node_modules"), path.join(repository, "node_modules"));
writeFileSync(
  path.join(repository, "docs/site/last-changed.json"),
  JSON.stringify({ "keys.md": "2024-02-29" }),
);
const packed = npm(["pack", "--pack-destination", tempFolder], repository);
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

const PACKAGES = ["http-client", "simulator", "wires"];

describe("the packages of the workspace", () => {
  interface Packed {
    readonly filename: string;
    readonly files: readonly { readonly path: string }[];
  }
  const packages = new Map<string, Packed>();
  beforeAll(() => {
    const names = PACKAGES.flatMap((name) => ["-w", `@postern/${name}`]);
    const { stdout } = npm(
      ["pack", "--json", ...names, "--pack-destination", tempFolder],
      repository,
    );
    for (const packed of Object.values(
      JSON.parse(stdout) as readonly (Packed & { name: string })[],
    ))
      packages.set(packed.name, packed);
  });

  test.each(PACKAGES)("@postern/%s runs without the repository", (name) => {
    const folder = path.join(tempFolder, `packed-${name}`);
    mkdirSync(folder);
    const packed = path.join(tempFolder, packages.get(`@postern/${name}`)?.filename ?? "");
    spawnSync("tar", ["-xzf", packed, "--strip-components=1"], { cwd: folder });
    const script = `import("./${name}.ts").then((all) => console.log(Object.keys(all).length > 0))`;
    const ran = spawnSync(process.execPath, ["-e", script], { cwd: folder, encoding: "utf8" });
    expect([ran.stdout, ran.stderr]).toEqual(["true\n", ""]);
  });

  test.each(PACKAGES)("@postern/%s packs its source and README", (name) => {
    const paths = packages.get(`@postern/${name}`)?.files.map((file) => file.path) ?? [];
    expect(paths).toEqual(expect.arrayContaining(["README.md", "package.json", `${name}.ts`]));
    expect(paths.filter((file) => file.startsWith("test/"))).toEqual([]);
  });
});

describe("the npm package", () => {
  test.skipIf(skip)("installs without warnings about engines or install scripts", () => {
    expect([installed.status, installed.stderr]).toEqual([0, expect.any(String)]);
    expect(installed.stderr).not.toMatch(/EBADENGINE|install-scripts|deprecated/);
  });

  test.skipIf(skip)("contains no tests, benchmarks or development files", () => {
    const folder = path.join(project, "node_modules", packageJson.name);
    for (const name of ["src", "test", "bench", "docs/decisions", ".env", "data", "knip.json"])
      expect([name, readdirSync(folder).includes(name)]).toEqual([name, false]);
  });

  test.skipIf(skip)("brings Bun and nothing else, and the licenses of what it bundles", () => {
    const folders = readdirSync(path.join(project, "node_modules"));
    expect(folders.filter((name) => !name.startsWith(".")).toSorted()).toEqual([
      "@oven",
      "@postern-gateway",
    ]);
    const { stdout } = spawnSync(COMMAND, ["licenses"], {
      cwd: project,
      env: environment(),
      encoding: "utf8",
    });
    const names = Object.keys(packageJson.dependencies);
    for (const name of names.filter((one) => !one.startsWith("@postern/")))
      expect(stdout).toContain(`\n${name} `);
  });

  test("packing leaves the repository as it was", () => {
    const manifestOf = (folder: string) => readFileSync(path.join(folder, "package.json"), "utf8");
    expect(manifestOf(repository)).toBe(manifestOf(ROOT));
    expect(existsSync(path.join(repository, "lib"))).toBe(false);
  });

  test.skipIf(skip)("starts with npx, creates an account and answers its first call", async () => {
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
      expect(await countedCall(url, String(account["api_key"]))).toBe(COUNTED_TOKENS);
      // Loaded on first use: pages with images, YAML, the MCP server and the identity provider of development.
      const pages = ["/docs/mpp", "/openapi.yaml", "/mcp/server-card", "/console"];
      for (const page of pages)
        expect([page, (await fetch(url + page)).status]).toEqual([page, 200]);
      const html = { headers: { accept: "text/html" } };
      const changed = async (page: string) =>
        /Last changed <time datetime="([^"]*)"/.exec(
          await (await fetch(url + page, html)).text(),
        )?.[1];
      expect(await changed("/docs/keys")).toBe("2024-02-29");
      expect(await changed("/docs/usage")).toBeUndefined();
    } finally {
      if (gateway.pid !== undefined) process.kill(-gateway.pid, "SIGKILL");
    }
  });

  test.skipIf(skip)("stops when npx gets SIGTERM", async () => {
    const npx = spawn("npx", ["--no-install", "postern"], {
      cwd: project,
      env: { ...environment(), POSTERN_PORT: "0" },
      stdio: ["ignore", "pipe", "inherit"],
      detached: true,
    });
    try {
      const url = await listeningUrl(npx);
      npx.kill("SIGTERM");
      await eventually(
        async () => (await fetch(`${url}/healthz`).catch(() => "closed")) === "closed",
      );
    } finally {
      if (npx.pid !== undefined)
        try {
          process.kill(-npx.pid, "SIGKILL");
        } catch {
          // All of its processes have ended.
        }
    }
  });

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
