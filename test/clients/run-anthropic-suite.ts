// `npm run conformance -- anthropic-sdk <folder>`: runs the tests of Anthropic's own SDK for TypeScript against a gateway, from a
// checkout of https://github.com/anthropics/anthropic-sdk-typescript after `pnpm install` in its folder. Exits with 1 if a test
// fails for another reason than those below.

import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { z } from "zod";
import { grantCredits, USD } from "../inference/support/harness.ts";
import { registerAccount, startGateway } from "../support/gateway.ts";
import { scratchFolder } from "../support/scratch-folder.ts";

const Report = z.object({
  numPassedTests: z.number(),
  testResults: z.array(
    z.object({
      name: z.string(),
      assertionResults: z.array(z.object({ fullName: z.string(), status: z.string() })),
    }),
  ),
});

const REASONS: readonly (readonly [test: RegExp, reason: string])[] = [
  [
    /\/(?:skills|memory-stores|environments|tunnels|vaults|dreams|deployments|sessions|agents)\b/,
    "objects that are stored at Anthropic, or run there",
  ],
  [/\/(?:files|user-profiles|completions)\.test/, "endpoints that this gateway does not have"],
  [/\/messages\/batches\.test/, "its ids are of batches that do not exist"],
  [
    /\/messages\.test\.ts .*required and optional params/,
    "the sample's strict tool has an open schema, which the provider refuses",
  ],
  [/\/tools\/agent-toolset\.test/, "programs of this machine, without a call of the gateway"],
];

export async function runAnthropicSuite(folder: string): Promise<number> {
  const gateway = await startGateway({ providers: ["anthropic"], logLevel: "warn" });
  const account = await registerAccount(gateway);
  await grantCredits(gateway, account, 100n * USD);
  const proxy = startProxy(gateway.url, account.key);
  const report = path.join(scratchFolder("anthropic-suite"), "report.json");
  try {
    await runJest(folder, report, proxy.url.origin);
  } finally {
    await proxy.stop(true);
    await gateway.stop();
  }
  const { numPassedTests, testResults } = Report.parse(JSON.parse(readFileSync(report, "utf8")));
  const failed = testResults.flatMap(({ name, assertionResults }) =>
    assertionResults
      .filter(({ status }) => status === "failed")
      .map(({ fullName }) => `${path.relative(folder, name)} ${fullName}`),
  );
  const unexplained = failed.filter((test) => REASONS.every(([pattern]) => !pattern.test(test)));
  console.log(
    `${numPassedTests} passed, ${failed.length} failed, ${unexplained.length} for the gateway`,
  );
  for (const [pattern, reason] of REASONS)
    console.log(`    ${failed.filter((test) => pattern.test(test)).length}: ${reason}`);
  for (const test of unexplained) console.log(`- ${test}`);
  return unexplained.length === 0 ? 0 : 1;
}

/** The suite's key and its model are made up. */
function startProxy(target: string, key: string) {
  return Bun.serve({
    port: 0,
    async fetch(request) {
      const { pathname, search } = new URL(request.url);
      const asked = pathname.replace("/models/model_id", "/models/anthropic/claude-opus-4-6");
      const headers = new Headers(request.headers);
      headers.set("x-api-key", key);
      for (const name of ["host", "authorization"]) headers.delete(name);
      const text = await request.text();
      const body = text === "" ? {} : { body: text };
      const response = await fetch(target + asked + search, {
        method: request.method,
        headers,
        ...body,
      });
      const kept = new Headers(response.headers);
      for (const name of ["content-encoding", "transfer-encoding", "content-length"])
        kept.delete(name);
      return new Response(response.body, { status: response.status, headers: kept });
    },
  });
}

async function runJest(folder: string, report: string, baseUrl: string): Promise<void> {
  const runner = path.join(folder, "node_modules", "jest", "bin", "jest.js");
  const child = spawn("node", [runner, "-i", "--json", `--outputFile=${report}`], {
    cwd: folder,
    env: { ...process.env, TEST_API_BASE_URL: baseUrl },
    stdio: "ignore",
  });
  await new Promise((resolve) => child.on("close", resolve));
}
