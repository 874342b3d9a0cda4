// `npm run conformance`: runs llmprobe, a public conformance suite for model APIs, against a gateway with one simulated model
// per wire, and prints what passes on each API and every failure. npm downloads the suite; it is not a dependency.
// `npm run conformance -- <folder>` runs the Open Responses compliance tests of a checkout instead,
// `npm run conformance -- llm-comply` that suite, after `pip install llm-comply==0.5.0`, `npm run conformance -- mcp` the
// official suite of MCP, and `npm run conformance -- anthropic-sdk <folder>` the tests of Anthropic's SDK.

import { spawn } from "node:child_process";
import path from "node:path";
import { z } from "zod";
import { modelOn, startHarness, WIRES } from "./translation/support/harness.ts";

const SUITE = "llmprobe@0.6.12";

const Report = z.object({
  conformance: z.object({
    passed: z.number(),
    total: z.number(),
    bySurface: z.array(z.object({ surface: z.string(), passed: z.number(), total: z.number() })),
    results: z.array(
      z.object({
        name: z.string(),
        outcome: z.string(),
        failures: z.array(z.union([z.string(), z.looseObject({ message: z.string() })])),
      }),
    ),
  }),
});

const ComplianceReport = z.object({
  results: z.array(
    z.object({ name: z.string(), status: z.string(), errors: z.array(z.string()).optional() }),
  ),
});

interface Outcome {
  readonly summary: string;
  readonly failures: readonly string[];
}

const COMPLY = "llm-comply";
/** The APIs that it tests, with the options for each. */
const COMPLY_FORMATS = [
  ["openai-chat"],
  ["open-responses"],
  ["anthropic", "--auth-header", "x-api-key", "--no-bearer", "-H", "anthropic-version:2023-06-01"],
] as const;

const [folder, checkout = ""] = process.argv.slice(2);
if (folder === "mcp") await import("./mcp/run-conformance.ts");
if (folder === "anthropic-sdk") {
  const { runAnthropicSuite } = await import("./clients/run-anthropic-suite.ts");
  process.exit(await runAnthropicSuite(checkout));
}
const harness = await startHarness();
const failures = new Map<string, string[]>();
const key = harness.account.headers["authorization"]?.replace("Bearer ", "") ?? "";
for (const wire of WIRES) {
  const outcome =
    folder === undefined
      ? await runProbe(modelOn(wire))
      : folder === COMPLY
        ? await runComply(modelOn(wire))
        : await runCompliance(folder, modelOn(wire));
  console.log(`${wire}: ${outcome.summary}`);
  for (const failure of outcome.failures)
    failures.set(failure, [...(failures.get(failure) ?? []), wire]);
}
await harness.stop();
for (const [failure, wires] of failures) console.log(`- ${failure} (${wires.join(", ")})`);

async function runProbe(model: string): Promise<Outcome> {
  const args = ["--yes", SUITE, `${harness.gateway.url}/v1`, "-k", key, "-m", model];
  const { conformance } = Report.parse(
    await jsonOutput("npx", [...args, "--no-bench", "--no-save", "--json"]),
  );
  const surfaces = conformance.bySurface.map(
    ({ surface, passed, total }) => `${surface} ${passed}/${total}`,
  );
  const failed = conformance.results.filter(({ outcome }) => outcome === "fail");
  return {
    summary: `${conformance.passed}/${conformance.total} (${surfaces.join(", ")})`,
    failures: failed.map(({ name, failures: [reason] }) => {
      const text = typeof reason === "object" ? reason.message : (reason ?? "");
      return `${name}: ${text}`;
    }),
  };
}

/** Skips what needs a model by its name. */
async function runComply(model: string): Promise<Outcome> {
  const summaries: string[] = [];
  const failed: string[] = [];
  for (const [format, ...options] of COMPLY_FORMATS) {
    const target = ["-u", `${harness.gateway.url}/v1`, "-k", key, "-m", model, "--json"];
    const { results } = ComplianceReport.parse(
      await jsonOutput(COMPLY, ["--format", format, ...options, ...target]),
    );
    const run = results.filter(({ status }) => status !== "skipped");
    const wrong = run.filter(({ status }) => status !== "passed");
    summaries.push(`${format} ${run.length - wrong.length}/${run.length}`);
    failed.push(...wrong.map(({ name, errors = [] }) => `${format} ${name}: ${errors.join("; ")}`));
  }
  return { summary: summaries.join(", "), failures: failed };
}

/** The tests of https://github.com/openresponses/openresponses, after `bun install` in its folder. */
async function runCompliance(checkout: string, model: string): Promise<Outcome> {
  const script = path.join(checkout, "bin/compliance-test.ts");
  const target = ["--base-url", `${harness.gateway.url}/v1`, "--api-key", key, "--model", model];
  const { results } = ComplianceReport.parse(
    await jsonOutput(process.execPath, [script, ...target, "--json"]),
  );
  const failed = results.filter(({ status }) => status === "failed");
  const passed = results.filter(({ status }) => status === "passed").length;
  return {
    summary: `${passed}/${results.length}`,
    failures: failed.map(({ name, errors = [] }) => `${name}: ${errors.join("; ")}`),
  };
}

async function jsonOutput(command: string, args: readonly string[]): Promise<unknown> {
  const child = spawn(command, [...args], { stdio: ["ignore", "pipe", "ignore"] });
  const chunks: Buffer[] = [];
  for await (const chunk of child.stdout) chunks.push(Buffer.from(chunk));
  const text = Buffer.concat(chunks).toString();
  if (!text.startsWith("{")) throw new Error(`${command} ${args.join(" ")} printed no report`);
  return JSON.parse(text);
}
