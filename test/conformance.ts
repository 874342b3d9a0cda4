// `npm run conformance`: runs llmprobe, a public conformance suite for model APIs, against a gateway with one simulated model
// per wire, and prints what passes on each API and every failure. npm downloads the suite; it is not a dependency.

import { spawn } from "node:child_process";
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

const harness = await startHarness();
const failures = new Map<string, string[]>();
const key = harness.account.headers["authorization"]?.replace("Bearer ", "") ?? "";
for (const wire of WIRES) {
  const { conformance } = await runSuite(harness.gateway.url, key, modelOn(wire));
  const surfaces = conformance.bySurface.map(
    ({ surface, passed, total }) => `${surface} ${passed}/${total}`,
  );
  console.log(`${wire}: ${conformance.passed}/${conformance.total} (${surfaces.join(", ")})`);
  for (const { name, outcome, failures: reasons } of conformance.results)
    if (outcome === "fail") {
      const [reason] = reasons;
      const text = typeof reason === "object" ? reason.message : (reason ?? "");
      const failure = `${name}: ${text}`;
      failures.set(failure, [...(failures.get(failure) ?? []), wire]);
    }
}
await harness.stop();
for (const [failure, wires] of failures) console.log(`- ${failure} (${wires.join(", ")})`);

async function runSuite(url: string, apiKey: string, model: string) {
  const options = ["--no-bench", "--no-save", "--json"];
  const child = spawn("npx", ["--yes", SUITE, `${url}/v1`, "-k", apiKey, "-m", model, ...options], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  const chunks: Buffer[] = [];
  for await (const chunk of child.stdout) chunks.push(Buffer.from(chunk));
  const text = Buffer.concat(chunks).toString();
  if (!text.startsWith("{")) throw new Error(`${SUITE} could not be run: npm has to reach it`);
  return Report.parse(JSON.parse(text));
}
