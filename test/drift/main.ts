// `npm run drift`: installs the newest SDKs and coding agents into a temporary folder and prints what they can send and receive
// beyond the installed versions and test/drift/known-strings.json, with what the gateway does with it. Fails if the gateway
// refuses something without a reason in known-refusals.ts.
// `npm run drift -- --update` also writes known-strings.json; `-- --folder <node_modules>` reads packages that are there.

import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { startHarness } from "../translation/support/harness.ts";
import { askString } from "./ask-gateway.ts";
import { type Finding, findDrift, formatFinding, INSTALLED, isFailure } from "./drift.ts";
import { reasonFor } from "./known-refusals.ts";
import { BUNDLES, PROGRAMS, readStrings } from "./read-strings.ts";
import { TYPED_PACKAGES } from "./surface.ts";

const KNOWN_STRINGS = path.join(import.meta.dir, "known-strings.json");
const PACKAGES = [...TYPED_PACKAGES, ...BUNDLES, ...PROGRAMS];

const args = process.argv.slice(2);
const given = args[args.indexOf("--folder") + 1];
const folder = args.includes("--folder") && given !== undefined ? given : install();
// Written by this program.
const known = JSON.parse(readFileSync(KNOWN_STRINGS, "utf8")) as Record<string, readonly string[]>;
const strings: Record<string, readonly string[]> = {};
const harness = await startHarness({ sellsServerTools: true, providers: ["openai"] });
let failures = 0;

for (const name of PACKAGES) {
  const findings = await findingsOf(name);
  const failed = findings.filter(isFailure).length;
  failures += failed;
  console.log(`${name} ${versionOf(name, folder)}: ${findings.length} new, ${failed} refused`);
  for (const finding of findings) console.log(formatFinding(finding));
}
await harness.stop();
if (args.includes("--update"))
  writeFileSync(KNOWN_STRINGS, `${JSON.stringify(strings, null, 2)}\n`);
if (!args.includes("--folder")) rmSync(path.dirname(folder), { recursive: true, force: true });
process.exit(failures === 0 ? 0 : 1);

function install(): string {
  const target = mkdtempSync(path.join(tmpdir(), "postern-drift-"));
  writeFileSync(path.join(target, "package.json"), '{ "private": true }\n');
  // With the tag, npm does not choose an older version for an older Node.js.
  const { status } = spawnSync(
    "npm",
    ["install", "--no-audit", "--no-fund", "--silent", ...PACKAGES.map((name) => `${name}@latest`)],
    { cwd: target, stdio: ["ignore", "ignore", "inherit"] },
  );
  if (status !== 0) throw new Error("npm could not install the newest packages");
  return path.join(target, "node_modules");
}

async function findingsOf(name: string): Promise<readonly Finding[]> {
  if (TYPED_PACKAGES.includes(name))
    return findDrift(harness, name, { newest: folder, installed: INSTALLED });
  const found = await readStrings(name, folder);
  strings[name] = found.map(({ text }) => text);
  const findings: Finding[] = [];
  for (const one of found.filter(({ text }) => known[name]?.includes(text) !== true)) {
    const own = await askString(harness, one);
    const label = `${one.kind} ${one.text}`;
    const reason = own.verdict === "refuse" ? reasonFor(label) : undefined;
    findings.push({ kind: "string", name: label, own, ...(reason !== undefined && { reason }) });
  }
  return findings;
}

function versionOf(name: string, from: string): string {
  // Every installed package has a version.
  return (
    JSON.parse(readFileSync(path.join(from, name, "package.json"), "utf8")) as { version: string }
  ).version;
}
