// `npm run build`: one executable for this platform, dist/postern. `npm run build -- --all`: an executable per platform with
// SHA256SUMS and a CycloneDX SBOM, for a release. `--out <folder>` writes elsewhere. Each executable contains the licenses of what it
// bundles. Bun downloads its own executable of other platforms from the npm registry.

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import process, { argv } from "node:process";
import { findBun, root } from "./bun.js";
import { ENTRIES } from "./entries.js";
import { lastChangedOption } from "./last-changed.js";
import { isDependency, LICENSES_FILE, licenseTexts } from "./licenses.js";

const TARGETS = ["linux-x64", "linux-arm64", "darwin-arm64", "darwin-x64", "windows-x64"];
const dist = argv.includes("--out")
  ? path.resolve(argv[argv.indexOf("--out") + 1])
  : path.join(root, "dist");

const isRelease = argv.includes("--all");
mkdirSync(dist, { recursive: true });
const licenses = path.join(dist, LICENSES_FILE);
writeFileSync(licenses, licenseTexts());
const files = isRelease ? TARGETS.map(buildTarget) : [compile("postern", [])];
if (isRelease) files.push(writeSbom(), LICENSES_FILE);
if (isRelease) writeChecksums(files);
for (const file of files)
  process.stdout.write(
    `${path.join(dist, file)}  ${(statSync(path.join(dist, file)).size / 1e6).toFixed(1)} MB\n`,
  );

function buildTarget(target) {
  const name = `postern-${target}${target.startsWith("windows") ? ".exe" : ""}`;
  return compile(name, [`--target=bun-${target}`]);
}

function compile(name, options) {
  const outfile = path.join(dist, name);
  rmSync(outfile, { force: true });
  const args = [
    "build",
    "--compile",
    ...options,
    `--asset=${licenses}`,
    lastChangedOption(),
    ...ENTRIES,
    "--outfile",
    outfile,
  ];
  run(findBun() ?? fail("Bun is not installed. Run `npm ci`."), args);
  return name;
}

// `npm sbom --omit dev` leaves out packages that are needed both to run and to develop, so the lock file is read here.
function writeSbom() {
  const { name, version, license } = readJson("package.json");
  const { packages } = readJson("package-lock.json");
  const components = Object.entries(packages)
    .filter((entry) => isDependency(entry) && entry[1].dev !== true)
    .map(([location, entry]) => component(location.split("node_modules/").at(-1), entry));
  const sbom = {
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    version: 1,
    metadata: {
      timestamp: new Date().toISOString(),
      component: { type: "application", name, version, licenses: [{ license: { id: license } }] },
    },
    components,
  };
  writeFileSync(path.join(dist, "sbom.cdx.json"), `${JSON.stringify(sbom, undefined, 2)}\n`);
  return "sbom.cdx.json";
}

function component(name, { version, integrity, license }) {
  const purl = `pkg:npm/${name.replace("@", "%40")}@${version}`;
  const digest = Buffer.from(integrity.replace("sha512-", ""), "base64").toString("hex");
  return {
    type: "library",
    "bom-ref": purl,
    name,
    version,
    purl,
    hashes: [{ alg: "SHA-512", content: digest }],
    ...(license === undefined ? {} : { licenses: [{ license: { name: license } }] }),
  };
}

function readJson(file) {
  return JSON.parse(readFileSync(path.join(root, file), "utf8"));
}

function writeChecksums(names) {
  const lines = names.map((name) => {
    const digest = createHash("sha256")
      .update(readFileSync(path.join(dist, name)))
      .digest("hex");
    return `${digest}  ${name}\n`;
  });
  writeFileSync(path.join(dist, "SHA256SUMS"), lines.join(""));
}

function run(command, args) {
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd: root,
    encoding: "utf8",
    maxBuffer: 64 * 1_048_576,
  });
  if (status !== 0) fail(`${command} ${args.join(" ")} failed: ${error?.message ?? stderr}`);
  return stdout;
}

function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}
