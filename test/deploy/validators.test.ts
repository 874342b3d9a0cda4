// The files of deploy/ and the workflows as the official tools check them, where those are installed.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { skipUnless } from "../support/skip.ts";
import { filesUnder, readText, ROOT } from "../support/source/source-files.ts";
import { ALL_OPTIONS } from "./chart-options.ts";

const folder = mkdtempSync(path.join(tmpdir(), "postern-validators-"));
const unit = path.join(folder, "postern.service");
const manifests = path.join(folder, "manifests.yaml");
const CHART = "deploy/helm/postern";
const VALUES = ALL_OPTIONS.flatMap((value) => ["--set", value]);
const WORKFLOWS = filesUnder(".github/workflows", /\.yaml$/).map(({ path: file }) => file);
const COMPOSE = "deploy/compose/compose.yaml";

beforeAll(() => {
  // systemd looks for the command of the unit.
  const executable = path.join(folder, "postern");
  writeFileSync(executable, "");
  chmodSync(executable, 0o755);
  writeFileSync(
    unit,
    readText("deploy/systemd/postern.service").replace("=/usr/local/bin/postern", `=${executable}`),
  );
  const { stdout } = spawnSync("helm", ["template", "test", CHART, ...VALUES], { cwd: ROOT });
  writeFileSync(manifests, stdout ?? "");
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** What it checks, the command, and where the tool comes from. */
const VALIDATORS = [
  ["the workflows", ["actionlint", ...WORKFLOWS], "github.com/rhysd/actionlint"],
  ["the unit", ["systemd-analyze", "verify", unit], "part of systemd"],
  [
    "the alert rules",
    ["promtool", "check", "rules", "--lint-fatal", "deploy/prometheus/alerts.yaml"],
    "part of Prometheus",
  ],
  ["the chart", ["helm", "lint", "--strict", CHART, ...VALUES], "helm.sh"],
  [
    "the objects of the chart",
    ["kubernetes-validate", "--strict", "--no-warn", manifests],
    "pip install kubernetes-validate; needs helm too",
  ],
  [
    "the Caddyfile",
    ["caddy", "validate", "--adapter", "caddyfile", "--config", "deploy/compose/Caddyfile"],
    "caddyserver.com",
  ],
  [
    "the Compose file",
    ["docker", "compose", "--file", COMPOSE, "config", "--quiet"],
    "Docker's plugin",
  ],
] as const;

const ENVIRONMENT = {
  PATH: process.env["PATH"] ?? "",
  HOME: folder,
  POSTERN_DOMAIN: "gateway.example.com",
  POSTERN_SECRET: "s".repeat(40),
  POSTGRES_PASSWORD: "password",
};

describe("official tools accept", () => {
  for (const [title, [command, ...args], source] of VALIDATORS) {
    const isInstalled =
      Bun.which(command) !== null &&
      (command !== "docker" || spawnSync("docker", ["compose", "version"]).status === 0) &&
      (command !== "kubernetes-validate" || Bun.which("helm") !== null);
    const reason = `${args[0] === "compose" ? "docker compose" : command} is not installed (${source}); it checks ${title}`;
    test.skipIf(skipUnless(isInstalled, reason))(title, () => {
      const { status, stdout, stderr } = spawnSync(command, args, {
        cwd: ROOT,
        env: ENVIRONMENT,
        encoding: "utf8",
      });
      expect([status, status === 0 ? "" : stdout + stderr]).toEqual([0, ""]);
    });
  }
});
