// `npm run conformance -- mcp`: runs the official MCP conformance suite against a gateway: the scenarios that both revisions
// require of a server, and those of an authorization server. npm downloads the suite; it is not a dependency, because it brings
// a hundred packages. Exits with 1 if a check fails that does not need the suite's own server.

import { spawn, spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { z } from "zod";
import { createUser, makeOwner, type TestUser, visitPage } from "../billing/console-user.ts";
import { hiddenFields } from "../operator/harness.ts";
import { call, textAt } from "../spec/api-client.ts";
import { freePort } from "../support/free-port.ts";
import { type Gateway, registerAccount, startGateway } from "../support/gateway.ts";
import { scratchFolder } from "../support/scratch-folder.ts";

const SUITE = "@modelcontextprotocol/conformance@0.2.0-alpha.12";
const REVISIONS = ["2026-07-28", "2025-11-25"] as const;

const Checks = z.array(
  z.looseObject({ id: z.string(), status: z.string(), errorMessage: z.string().optional() }),
);

/** The suite brings a server with tools, prompts and resources of these names, with which it tests what SDKs can do. */
const OF_OWN_SERVER =
  /`?test_|test:\/\/|Not testable|json_schema_2020_12_tool|Prerequisite failed|Expected InputRequiredResult/;
/** Capabilities that the gateway does not declare. */
const NOT_DECLARED =
  /^(?:completion-complete|logging-set-level|resources-subscribe|resources-unsubscribe|tools-call-with-logging|tasks-)/;

interface Counts {
  passed: number;
  warned: number;
  notApplicable: number;
  readonly failed: string[];
}

function countChecks(folder: string): Counts {
  const counts: Counts = { passed: 0, warned: 0, notApplicable: 0, failed: [] };
  for (const name of readdirSync(folder)) {
    const scenario = name.replace(/^(?:server|authorization)-/, "");
    const file = readFileSync(path.join(folder, name, "checks.json"), "utf8");
    for (const { id, status, errorMessage = "" } of Checks.parse(JSON.parse(file))) {
      if (status === "SUCCESS") counts.passed += 1;
      if (status === "WARNING") counts.warned += 1;
      if (status !== "FAILURE") continue;
      if (OF_OWN_SERVER.test(errorMessage) || NOT_DECLARED.test(scenario))
        counts.notApplicable += 1;
      else counts.failed.push(`${scenario}: ${id}: ${errorMessage}`);
    }
  }
  return counts;
}

function runSuite(
  cli: string,
  args: readonly string[],
  onOutput: (output: string) => void = () => {},
): Promise<string> {
  const child = spawn(process.execPath, [cli, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (chunk: string) => {
      output += chunk;
      onOutput(output);
    });
  return new Promise((resolve) => child.on("close", () => resolve(output)));
}

/** What the person does in the browser. */
async function approve(gateway: Gateway, owner: TestUser, accountId: string, url: string) {
  const { pathname, search } = new URL(url);
  const page = await visitPage(gateway, pathname + search, owner);
  const { request = "" } = hiddenFields(page, "approve");
  const form = { request, do: "approve", account: accountId, limit_usd: "5", limit_window: "" };
  const { location } = await visitPage(gateway, "/mcp/authorize", owner, form);
  await (await fetch(location ?? "")).text();
}

async function runAuthorization(cli: string, gateway: Gateway, folder: string): Promise<Counts> {
  const account = await registerAccount(gateway);
  const owner = await createUser(gateway, "owner");
  await makeOwner(gateway, account.id, owner);
  const port = await freePort();
  const { body } = await call(gateway, "POST /mcp/register", {
    body: { redirect_uris: [`http://127.0.0.1:${port}/callback`] },
  });
  const target = ["--url", `${gateway.url}/mcp`, "--client-id", textAt(body, "client_id")];
  const options = ["--resource", `${gateway.url}/mcp`, "--port", String(port), "-o", folder];
  let approved: Promise<void> | undefined;
  await runSuite(cli, ["authorization", ...target, ...options], (output) => {
    const [url] = /http:\/\/\S+\/mcp\/authorize\?\S+(?=\s)/.exec(output) ?? [];
    if (url !== undefined) approved ??= approve(gateway, owner, account.id, url);
  });
  await approved;
  return countChecks(folder);
}

const home = scratchFolder("mcp-conformance");
const installed = spawnSync(
  "npm",
  ["install", "--prefix", home, "--no-audit", "--no-fund", "--force", SUITE],
  { stdio: ["ignore", "ignore", "inherit"] },
);
if (installed.status !== 0) throw new Error(`npm could not install ${SUITE}`);
const cli = path.join(home, "node_modules/@modelcontextprotocol/conformance/dist/index.js");
const gateway = await startGateway();
const runs: (readonly [string, Counts])[] = [];
for (const revision of REVISIONS) {
  const folder = path.join(home, revision);
  const target = ["server", "--url", `${gateway.url}/mcp`, "--requirements", revision];
  await runSuite(cli, [...target, "-o", folder]);
  runs.push([`server, ${revision}`, countChecks(folder)]);
}
runs.push([
  "authorization server",
  await runAuthorization(cli, gateway, path.join(home, "authorization")),
]);
await gateway.stop();
for (const [name, { passed, failed, warned, notApplicable }] of runs) {
  console.log(
    `${name}: ${passed} passed, ${failed.length} failed, ${warned} warnings; ${notApplicable} need the suite's own server or a capability that is not declared`,
  );
  for (const failure of failed) console.log(`- ${failure}`);
}
process.exit(runs.every(([, { passed, failed }]) => passed > 0 && failed.length === 0) ? 0 : 1);
