// The documents: generated parts are current, links lead somewhere, decisions have one form, dependencies are explained.

import { describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import path from "node:path";
import { SETTINGS } from "../../src/config/config.ts";
import { accountSettings, defaultRoutes, generatedDocs } from "../support/source/generated-docs.ts";
import { matchingLines } from "../support/source/rules.ts";
import { filesUnder, readText, ROOT } from "../support/source/source-files.ts";

const README_LINES_MAX = 150;
const DECISION = /\/\d{4}-[a-z0-9-]+\.md$/;
const DECISION_WORDS_MAX = 600;

describe("documents", () => {
  test("the generated parts are what the program says (npm run docs writes them)", async () => {
    for (const { file, current, expected } of generatedDocs(await defaultRoutes()))
      expect(`${file}\n${current}`).toBe(`${file}\n${expected}`);
  });

  test(`the README has at most ${README_LINES_MAX} lines`, () => {
    expect(readText("README.md").split("\n").length).toBeLessThanOrEqual(README_LINES_MAX);
  });

  test.each([
    ["docs/site/security.md", 30],
    ["docs/client-forms.md", 60],
  ])("each row of %s that names a test names one that exists", (page, rowsMin) => {
    const rows = [
      ...readText(page).matchAll(/^\| .+ \| `((?:packages\/\w+\/)?test\/\S+)` \| (.+) \|$/gm),
    ];
    expect(rows.length).toBeGreaterThan(rowsMin);
    for (const [, file = "", title = ""] of rows)
      expect({ file, title, exists: readText(file).includes(title) }).toMatchObject({
        exists: true,
      });
  });

  test("each step of the life of a call names a function that exists in its file", () => {
    const steps = [
      ...readText("docs/life-of-a-call.md").matchAll(
        /`([a-zA-Z]+)` in `((?:src|packages)\/[a-z0-9/-]+\.tsx?)`/g,
      ),
    ];
    expect(steps.length).toBeGreaterThan(10);
    const missing = steps.filter(
      ([, name = "", file = ""]) =>
        !existsSync(path.join(ROOT, file)) ||
        !new RegExp(String.raw`\b(function|const) ${name}\b|\b${name}:|\b${name}\(`).test(
          readText(file),
        ),
    );
    expect(missing.map(([step]) => step)).toEqual([]);
  });

  test("docs/dependencies.md says why each dependency is there", () => {
    const { dependencies } = JSON.parse(readText("package.json"));
    const rows = readText("docs/dependencies.md").matchAll(/^\| (`.+`) \| \S.+ \|$/gm);
    const explained = new Set(
      [...rows].flatMap(([, names = ""]) => names.replaceAll("`", "").split(", ")),
    );
    expect(Object.keys(dependencies).filter((name) => !explained.has(name))).toEqual([]);
  });

  test("dependencies are pinned exactly", () => {
    const { dependencies, devDependencies } = JSON.parse(readText("package.json"));
    const loose = Object.entries({ ...dependencies, ...devDependencies }).filter(
      ([, version]) => !/^\d+\.\d+\.\d+(-[a-z0-9.]+)?$/.test(String(version)),
    );
    expect(loose).toEqual([]);
  });

  test(".env.example names every setting", () => {
    const example = readText(".env.example");
    expect(
      [...Object.keys(SETTINGS), ...accountSettings().map(([name]) => name)].filter(
        (name) => !new RegExp(`^#? ?${name}=`, "m").test(example),
      ),
    ).toEqual([]);
  });

  test(`a decision has status, date, context, decision and consequences in at most ${DECISION_WORDS_MAX} words`, () => {
    const decisions = filesUnder("docs/decisions", DECISION);
    const numbers = decisions.map(({ path: file }) => path.basename(file).slice(0, 4));
    expect(new Set(numbers).size).toBe(numbers.length);
    const wrong = decisions.flatMap(({ path: file, text }) => {
      const number = path.basename(file).slice(0, 4);
      const words = text.split(/\s+/).filter((word) => word !== "").length;
      const headings = [...text.matchAll(/^## (.+)$/gm)].map(([, heading]) => heading);
      return [
        ...(text.startsWith(`# ${number}: `) ? [] : [`${file}: title`]),
        ...(/^Status: \w+.* · Date: \d{4}-\d{2}-\d{2}$/m.test(text)
          ? []
          : [`${file}: status and date`]),
        ...(headings.join() === "Context,Decision,Consequences" ? [] : [`${file}: headings`]),
        ...(words <= DECISION_WORDS_MAX ? [] : [`${file}: ${words} words`]),
      ];
    });
    expect(wrong).toEqual([]);
  });

  test("the index lists every decision, and source and tests name only existing ones", () => {
    const decisions = filesUnder("docs/decisions", /\.md$/)
      .map(({ path: file }) => path.basename(file))
      .filter((file) => file !== "README.md");
    expect(decisions.filter((file) => !DECISION.test(`/${file}`))).toEqual([]);
    const index = readText("docs/decisions/README.md");
    const listed = [...index.matchAll(/^\| \[(\d{4})\]\((\1-[^)]+)\) /gm)].map(
      ([, , file]) => file,
    );
    expect(new Set(listed)).toEqual(new Set(decisions));
    const named = ["src", "test", "docs", "bench", "bin"].flatMap((folder) =>
      filesUnder(folder, /\.(tsx?|m?js|md)$/).flatMap(({ path: file, text }) =>
        [...text.matchAll(/decisions\/(\d{4}[\w-]*(?:\.md)?)/g)].map(([, name = ""]) => ({
          file,
          name,
        })),
      ),
    );
    expect(named.filter(({ name }) => !decisions.includes(name))).toEqual([]);
  });

  test("every file that a document links to exists", () => {
    const pages = [
      ...filesUnder("docs", /\.md$/),
      ...filesUnder("packages", /\.md$/),
      ...["README.md", "CONTRIBUTING.md"].map((page) => ({ path: page, text: readText(page) })),
    ];
    const missing = pages.flatMap(({ path: page, text }) =>
      // Links that begin with a slash lead to pages of a gateway; the test of the documentation site follows them.
      [...text.matchAll(/\]\((?!https?:|#|\/)([^)#]+)/g)]
        .map(([, link = ""]) => path.posix.join(path.posix.dirname(page), link))
        .filter((link) => !existsSync(path.join(ROOT, link)))
        .map((link) => `${page} → ${link}`),
    );
    expect(missing).toEqual([]);
  });

  test("nothing names a folder of one machine or holds a secret", () => {
    const everything = ["src", "packages", "test", "docs", "bin", "bench", ".ci"].flatMap(
      (folder) => filesUnder(folder, /\.(ts|tsx|js|mjs|json|jsonl|md|sql|txt|yaml|yml)$|\/run$/),
    );
    const folders = new RegExp(String.raw`(^|[\s"'(=])/(work|home|Users|root)/[a-z]`, "i");
    const secrets =
      /\bsk-(ant-|proj-)?[A-Za-z0-9_-]{40,}|\bAKIA[A-Z0-9]{16}\b|-----BEGIN [A-Z ]*PRIVATE KEY|\bgh[pousr]_[A-Za-z0-9]{36}/;
    expect(matchingLines(everything, (line) => folders.test(line) || secrets.test(line))).toEqual(
      [],
    );
  });
});
