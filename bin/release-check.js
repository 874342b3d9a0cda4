// `node bin/release-check.js v1.2.3`: checks that the tag is the version of package.json and has a section in CHANGELOG.md, and
// that the documents name the package that is published: another one of that name would run as the reader.
// With `--notes` it prints that section, the text of the release.

import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import process, { argv } from "node:process";
import { root } from "./bun.js";

/** In a command, and in the configuration of a client. */
const PRINTED_NAMES = [
  /\b(?:npx|npm (?:i|install))(?: -\w+)* ((?:@[\w-]+\/)?postern)\b/g,
  /"npx"[^}]{0,40}?"((?:@[\w-]+\/)?postern)"/g,
];

const [tag = "", option] = argv.slice(2);
const { name, version } = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8"));
const changelog = readFileSync(path.join(root, "CHANGELOG.md"), "utf8");
const section = changelog
  .split(/^## /m)
  .find((text) => text.startsWith(`${version} `) || text.startsWith(`${version}\n`));

if (tag !== `v${version}`)
  fail(`The tag is ${tag}, but the version of package.json is ${version}.`);
if (section === undefined)
  fail(`CHANGELOG.md has no section "## ${version} - YYYY-MM-DD". Rename "Unreleased".`);
for (const file of documents())
  for (const printed of printedNames(readFileSync(file, "utf8")))
    if (printed !== name)
      fail(`${path.relative(root, file)} names the npm package ${printed}, but it is ${name}.`);
if (option === "--notes")
  process.stdout.write(section.slice(section.indexOf("\n") + 1).trimStart());

function printedNames(text) {
  const matches = PRINTED_NAMES.flatMap((pattern) => Array.from(text.matchAll(pattern)));
  return matches.map(([, printed]) => printed);
}

/** What readers see, and what the gateway serves. */
function documents() {
  const pages = readdirSync(path.join(root, "docs/site"), { recursive: true })
    .filter((page) => page.endsWith(".md"))
    .map((page) => path.join("docs/site", page));
  return ["README.md", "CHANGELOG.md", ...pages].map((page) => path.join(root, page));
}

function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}
