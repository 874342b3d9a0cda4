// `node bin/release-check.js v1.2.3`: checks that the tag is the version of package.json and has a section in CHANGELOG.md.
// With `--notes` it prints that section, the text of the release.

import { readFileSync } from "node:fs";
import path from "node:path";
import process, { argv } from "node:process";
import { root } from "./bun.js";

const [tag = "", option] = argv.slice(2);
const { version } = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8"));
const changelog = readFileSync(path.join(root, "CHANGELOG.md"), "utf8");
const section = changelog
  .split(/^## /m)
  .find((text) => text.startsWith(`${version} `) || text.startsWith(`${version}\n`));

if (tag !== `v${version}`)
  fail(`The tag is ${tag}, but the version of package.json is ${version}.`);
if (section === undefined)
  fail(`CHANGELOG.md has no section "## ${version} - YYYY-MM-DD". Rename "Unreleased".`);
if (option === "--notes")
  process.stdout.write(section.slice(section.indexOf("\n") + 1).trimStart());

function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}
