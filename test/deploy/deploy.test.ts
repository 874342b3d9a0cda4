// The files in deploy/, the Dockerfile and the workflows: parsed, and compared with the program's settings, metrics and commands.

import { describe, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { parse, parseAllDocuments } from "yaml";
import { z } from "zod";
import packageJson from "../../package.json" with { type: "json" };
import { COMMANDS } from "../../src/commands/commands.ts";
import { readConfig, SETTINGS } from "../../src/config/config.ts";
import { readEnvFile } from "../../src/config/env-file.ts";
import { PROVIDERS } from "../../src/inference/providers/providers.ts";
import { createMetrics } from "../../src/operations/metrics.ts";
import { usageRecord } from "../ledger/fixtures.ts";
import { skipUnless } from "../support/skip.ts";
import { defaultRoutes } from "../support/source/generated-docs.ts";
import { filesUnder, readText, ROOT } from "../support/source/source-files.ts";
import { dockerfile } from "./build-stage.ts";
import { ALL_OPTIONS, SERVICE_LINKS } from "./chart-options.ts";

const StringRecord = z.record(z.string(), z.string());

describe("deploy/compose", () => {
  const compose = z
    .object({
      services: z.record(
        z.string(),
        z.object({
          environment: StringRecord.optional(),
          env_file: z.unknown().optional(),
          volumes: z.array(z.string()).optional(),
        }),
      ),
      volumes: z.record(z.string(), z.null()),
    })
    .parse(parse(readText("deploy/compose/compose.yaml")));
  const example = readText("deploy/compose/example.env");

  test("starts a gateway with valid production settings", () => {
    const env = Object.fromEntries(
      Object.entries(compose.services["gateway"]?.environment ?? {}).map(([name, value]) => [
        name,
        value.replaceAll(
          /\$\{(\w+)[^}]*\}/g,
          (_, variable: string) => COMPOSE_VALUES[variable] ?? "",
        ),
      ]),
    );
    const result = readConfig({ env, hostName: "host", providers: PROVIDERS });
    expect(result).toMatchObject({ ok: true, config: { development: false } });
  });

  test("has every variable in example.env", () => {
    const variables = readText("deploy/compose/compose.yaml").matchAll(/\$\{(\w+)/g);
    for (const name of new Set([...variables].map(([, name = ""]) => name)))
      if (name !== "POSTERN_IMAGE") expect(example).toMatch(new RegExp(`^${name}=`, "m"));
  });

  test("takes every setting from gateway.env, and overrides none of its examples", () => {
    const { variables } = readEnvFile(path.join(ROOT, "deploy/compose/example.gateway.env"));
    const { environment = {}, env_file: files } = compose.services["gateway"] ?? {};
    expect(files).toEqual([{ path: "gateway.env", required: false }]);
    for (const name of Object.keys(variables)) expect(Object.keys(environment)).not.toContain(name);
    expect(Object.keys(environment).toSorted()).toEqual([
      "DATABASE_URL",
      "POSTERN_BASE_URL",
      "POSTERN_SECRET",
      "POSTERN_TRUSTED_PROXIES",
    ]);
  });

  test("mounts files and volumes that exist", () => {
    for (const { volumes = [] } of Object.values(compose.services))
      for (const volume of volumes) {
        const [source = ""] = volume.split(":");
        const exists = source.startsWith("./")
          ? existsSync(path.join(ROOT, "deploy/compose", source))
          : source in compose.volumes;
        expect([volume, exists]).toEqual([volume, true]);
      }
  });
});

const COMPOSE_VALUES: Readonly<Record<string, string>> = {
  POSTERN_DOMAIN: "gateway.example.com",
  POSTERN_SECRET: "s".repeat(40),
  POSTGRES_PASSWORD: "password",
};

describe("deploy/systemd", () => {
  test("has an example of settings that start a gateway and serve the other commands", () => {
    const { variables } = readEnvFile(path.join(ROOT, "deploy/systemd/example.env"));
    const result = readConfig({
      env: { ...variables, POSTERN_SECRET: "s".repeat(44), OPENAI_API_KEY: "k" },
      hostName: "h",
      providers: PROVIDERS,
    });
    expect(result).toMatchObject({ ok: true, config: { store: { dataDir: "/var/lib/postern" } } });
    // A setting of the unit itself would be missing in postern --env-file.
    expect(unit).not.toMatch(/^Environment=/m);
    expect(unit).toContain("EnvironmentFile=/etc/postern/postern.env");
    expect(unit).toContain("RestartPreventExitStatus=2");
  });

  const unit = readText("deploy/systemd/postern.service");

  test("runs a command of the program and sets settings that exist", () => {
    const [, command = ""] = /^ExecStart=\S+ (\w+)$/m.exec(unit) ?? [];
    expect(Object.keys(COMMANDS)).toContain(command);
    for (const [, name = ""] of unit.matchAll(/^Environment=(\w+)=/gm))
      expect(Object.keys(SETTINGS)).toContain(name);
  });

  test("waits longer than the drain takes", () => {
    const [, seconds] = /^TimeoutStopSec=(\d+)$/m.exec(unit) ?? [];
    expect(Number(seconds)).toBeGreaterThan(
      Number(SETTINGS["POSTERN_DRAIN_SECONDS"]?.defaultValue),
    );
  });
});

describe("monitoring", () => {
  const metrics = createMetrics({
    version: "1",
    ledgerQueueDepth: () => 0,
    openCircuits: () => 0,
    requestBodyBytes: () => 0,
    process: {
      openFiles: { max: 2, count: () => 1 },
      databasePool: () => ({ max: 10, busy: 1, waiting: 0 }),
      eventLoop: { delay: () => 0.5, stop: () => {} },
      jobRuns: new Map([["sweep", { intervalMs: 1_000, failures: 0, last: undefined }]]),
    },
  });
  metrics.recordRequest("createAccount", 200, 1);
  metrics.recordCall(usageRecord({ id: "r", accountId: "a", keyId: "k", createdAt: 0, cost: 1n }));
  const exported = new Set(
    [...metrics.render().matchAll(/^([a-z_]+)[{ ]/gm)].map(([, name]) => name),
  );
  const alerts = readText("deploy/prometheus/alerts.yaml");
  const dashboard = readText("deploy/grafana/postern.json");

  test("alerts and dashboard use metrics that the program exports", () => {
    const used = `${alerts} ${dashboard}`.matchAll(/\b((?:postern|process)_[a-z_]+)\b/g);
    const names = new Set([...used].map(([, name]) => name));
    expect(names.size).toBeGreaterThan(8);
    for (const name of names) expect([name, exported.has(name)]).toEqual([name, true]);
  });

  test("alerts name routes that exist, and say what to do", async () => {
    const routes = (await defaultRoutes()).map(({ id }) => id);
    for (const [, ids = ""] of alerts.matchAll(/route=~"([^"]+)"/g))
      for (const id of ids.split("|")) expect(routes).toContain(id);
    const { groups } = Alerts.parse(parse(alerts));
    for (const { annotations } of groups.flatMap(({ rules }) => rules))
      expect(annotations.description).toMatch(/^[A-Z].+\.$/);
  });
});

const Alerts = z.object({
  groups: z.array(
    z.object({
      rules: z.array(
        z.object({
          alert: z.string(),
          expr: z.string(),
          annotations: z.object({ summary: z.string(), description: z.string() }),
        }),
      ),
    }),
  ),
});

describe("the Dockerfile", () => {
  test("sets settings that exist, and a command as its health check", () => {
    const environment = dockerfile.find((line) => line.startsWith("ENV ")) ?? "";
    for (const [, name = ""] of environment.matchAll(/ (POSTERN_\w+)=/g))
      expect(Object.keys(SETTINGS)).toContain(name);
    const [, command = ""] =
      /HEALTHCHECK .*CMD \["postern", "(\w+)"\]/.exec(dockerfile.join("\n")) ?? [];
    expect(Object.keys(COMMANDS)).toContain(command);
  });

  test("refuses to start without a public base URL, since it listens on all interfaces", () => {
    const result = readConfig({
      env: { POSTERN_HOST: "0.0.0.0" },
      hostName: "h",
      providers: PROVIDERS,
    });
    expect(result).toMatchObject({
      ok: false,
      errors: [expect.stringContaining("POSTERN_BASE_URL")],
    });
  });
});

const helm = spawnSync("helm", ["version", "--short"]);
const skipHelm = skipUnless(
  helm.status === 0,
  "helm is not installed; it renders the chart in deploy/helm",
);

const Workload = z.object({
  spec: z.object({
    template: z.object({
      spec: z.object({
        enableServiceLinks: z.boolean(),
        containers: z.array(
          z.object({ env: z.array(z.object({ name: z.string(), value: z.string().optional() })) }),
        ),
      }),
    }),
  }),
});

describe("deploy/helm", () => {
  const chart = path.join(ROOT, "deploy/helm/postern");
  const render = (...settings: readonly string[]) =>
    spawnSync("helm", ["template", "test", chart, ...settings.flatMap((set) => ["--set", set])], {
      encoding: "utf8",
    });

  test("has the version of the program", () => {
    const { appVersion } = z
      .object({ appVersion: z.string() })
      .parse(parse(readText("deploy/helm/postern/Chart.yaml")));
    expect(appVersion).toBe(packageJson.version);
  });

  test.skipIf(skipHelm)("renders every object with all options on", () => {
    const { stdout, status } = render(...ALL_OPTIONS);
    expect(status).toBe(0);
    const kinds = parseAllDocuments(stdout).map((document) => String(document.get("kind")));
    expect(kinds.toSorted()).toEqual([
      "Deployment",
      "HorizontalPodAutoscaler",
      "Ingress",
      "Job",
      "NetworkPolicy",
      "PodDisruptionBudget",
      "Service",
      "ServiceMonitor",
    ]);
    for (const [, name = ""] of stdout.matchAll(/name: (POSTERN_\w+)/g))
      expect(Object.keys(SETTINGS)).toContain(name);
  });

  test.skipIf(skipHelm)(
    "starts its containers with the variables of Services beside their own",
    () => {
      const { stdout } = render(...ALL_OPTIONS);
      const pods = parseAllDocuments(stdout)
        .map((document) => Workload.safeParse(document.toJS()))
        .flatMap(({ data }) => (data === undefined ? [] : [data.spec.template.spec]));
      expect(pods.length).toBe(2);
      for (const { enableServiceLinks, containers } of pods) {
        expect(enableServiceLinks).toBe(false);
        for (const { env } of containers) {
          const own = Object.fromEntries(env.map(({ name, value = "pod-1" }) => [name, value]));
          const secret = {
            POSTERN_SECRET: "s".repeat(44),
            DATABASE_URL: "postgres://u:p@db/postern",
          };
          const result = readConfig({
            env: { ...SERVICE_LINKS, ...own, ...secret, OPENAI_API_KEY: "k" },
            hostName: "h",
            providers: PROVIDERS,
          });
          expect(result).toMatchObject({ ok: true, config: { port: 8787 } });
        }
      }
    },
  );

  test("the variables of a Service named postern are no settings", () => {
    const env: Record<string, string> = SERVICE_LINKS;
    const result = readConfig({ env, hostName: "h", providers: PROVIDERS });
    expect(result).toMatchObject({ ok: true, config: { port: 8787 } });
    const misspelled = { ...env, POSTERN_SERVICE_HOSTS: "x" };
    expect(readConfig({ env: misspelled, hostName: "h", providers: PROVIDERS })).toMatchObject({
      ok: false,
      errors: [expect.stringContaining("POSTERN_SERVICE_HOSTS is not a setting")],
    });
  });

  test.skipIf(skipHelm)("says which value is missing", () => {
    expect(render("baseUrl=https://gateway.example.com").stderr).toContain(
      "existingSecret is required",
    );
    expect(render("existingSecret=postern").stderr).toContain("baseUrl is required");
  });
});

describe("the workflows", () => {
  test("run scripts and files of the repository", () => {
    for (const { text } of filesUnder(".github/workflows", /\.yaml$/)) {
      expect(parse(text)).toMatchObject({ jobs: expect.any(Object) });
      for (const [, script = ""] of text.matchAll(/npm run ([a-z]+)/g))
        expect(Object.keys(packageJson.scripts)).toContain(script);
      for (const [, script = ""] of text.matchAll(/node (bin\/\S+\.js)/g))
        expect([script, existsSync(path.join(ROOT, script))]).toEqual([script, true]);
    }
  });

  test("pin every action to a commit, and say its version", () => {
    const uses = filesUnder(".github/workflows", /\.yaml$/).flatMap(({ text }) => [
      ...text.matchAll(/uses: (.+)/g),
    ]);
    expect(uses.length).toBeGreaterThan(5);
    for (const [, action = ""] of uses)
      expect(action).toMatch(/^[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
  });

  test("release only the version of package.json", () => {
    const check = (tag: string) =>
      spawnSync("node", [path.join(ROOT, "bin/release-check.js"), tag], { encoding: "utf8" });
    expect(check("v99.0.0")).toMatchObject({
      status: 1,
      stderr: `The tag is v99.0.0, but the version of package.json is ${packageJson.version}.\n`,
    });
  });
});

test("documents name the npm package that is published, because another one would run as the reader", () => {
  const printed = [
    /\b(?:npx|npm (?:i|install))(?: -\w+)* ((?:@[\w-]+\/)?postern)\b/g,
    /"npx"[^}]{0,40}?"((?:@[\w-]+\/)?postern)"/g,
  ];
  const pages = [
    ...filesUnder("docs/site", /\.md$/),
    ...filesUnder("src", /\.tsx?$/),
    ...["README.md", "CHANGELOG.md"].map((name) => ({ path: name, text: readText(name) })),
  ];
  const namesBy = printed.map((pattern) =>
    pages.flatMap(({ text }) => [...text.matchAll(pattern)].map(([, name]) => name)),
  );
  for (const found of namesBy) expect(found.length).toBeGreaterThan(0);
  const names = namesBy.flat();
  expect([...new Set(names)]).toEqual([packageJson.name]);
});

test("every link to the repository is that of package.json", () => {
  const repository = packageJson.repository.url.replace(/^git\+|\.git$/g, "");
  expect([packageJson.homepage, packageJson.bugs]).toEqual([
    `${repository}#readme`,
    `${repository}/issues`,
  ]);
  const files = ["docs/site", "deploy", ".github", "src"].flatMap((folder) =>
    filesUnder(folder, /\.(md|yaml|json|tsx?|service)$/),
  );
  const names = ["Dockerfile", "README.md", "SECURITY.md"];
  const others = names.map((name) => ({ path: name, text: readText(name) }));
  const wrong = [...files, ...others].flatMap(({ path: name, text }) =>
    [...text.matchAll(/https:\/\/github\.com\/[\w-]+\/postern\b/g)]
      .filter(([url]) => url !== repository)
      .map(([url]) => `${name}: ${url}`),
  );
  expect(wrong).toEqual([]);
});
