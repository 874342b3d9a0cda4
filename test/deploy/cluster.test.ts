// The chart on a real cluster: the migration job and two pods start beside a PostgreSQL, and the Service answers.
//
//   kind create cluster && kind load docker-image postern:test
//   POSTERN_TEST_CLUSTER=kind-kind POSTERN_TEST_IMAGE=postern:test npm test -- cluster

import { afterAll, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import path from "node:path";
import { skipUnless } from "../support/skip.ts";
import { ROOT } from "../support/source/source-files.ts";

const context = process.env["POSTERN_TEST_CLUSTER"] ?? "";
const [repository = "", tag = ""] = (process.env["POSTERN_TEST_IMAGE"] ?? "").split(":");
const namespace = `postern-test-${process.pid}`;
const databaseUrl = `postgres://postgres:test@postgres.${namespace}.svc:5432/postgres`;

function run(program: "kubectl" | "helm", args: readonly string[]): string {
  const selected = [program === "helm" ? "--kube-context" : "--context", context, "-n", namespace];
  const { status, stdout, stderr } = spawnSync(program, [...selected, ...args], {
    encoding: "utf8",
  });
  if (status !== 0) throw new Error(`${program} ${args.join(" ")} failed: ${stderr}`);
  return stdout;
}

afterAll(() => {
  if (context !== "") run("kubectl", ["delete", "namespace", namespace, "--wait=false"]);
});

test.skipIf(
  skipUnless(
    context !== "" && repository !== "",
    "no cluster: set POSTERN_TEST_CLUSTER to a kubectl context (kind create cluster) and POSTERN_TEST_IMAGE to an image that it can pull; needs kubectl and helm",
  ),
)("the chart starts on a cluster, and its Service answers", () => {
  run("kubectl", ["create", "namespace", namespace]);
  run("kubectl", ["run", "postgres", "--image=postgres:17", "--env=POSTGRES_PASSWORD=test"]);
  run("kubectl", ["expose", "pod", "postgres", "--port=5432"]);
  run("kubectl", ["wait", "--for=condition=Ready", "pod/postgres", "--timeout=10m"]);
  const secret = [`DATABASE_URL=${databaseUrl}`, `POSTERN_SECRET=${"s".repeat(44)}`];
  run("kubectl", [
    "create",
    "secret",
    "generic",
    "postern",
    ...secret.map((literal) => `--from-literal=${literal}`),
  ]);
  const values = [
    "baseUrl=https://gateway.example.com",
    "existingSecret=postern",
    `image.repository=${repository}`,
    `image.tag=${tag}`,
  ];
  // Its hook is the migration job; --wait ends when the readiness probes of both pods pass.
  run("helm", [
    "install",
    "postern",
    path.join(ROOT, "deploy/helm/postern"),
    "--wait",
    "--timeout=10m",
    ...values.flatMap((value) => ["--set", value]),
  ]);
  // Kubernetes' own proxy to the Service.
  const service = `/api/v1/namespaces/${namespace}/services/postern:80/proxy`;
  expect(run("kubectl", ["get", "--raw", `${service}/readyz`])).toContain("ok");
  expect(run("kubectl", ["get", "--raw", `${service}/auth.md`])).toContain("POST /v1/accounts");
});
