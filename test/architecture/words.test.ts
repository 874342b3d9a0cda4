// The words of the project: retired terms stay retired, and commit subjects are imperative summaries.

import { describe, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import path from "node:path";
import { RETIRED_WORDS } from "../support/source/retired-words.ts";
import { commentText, identifierWords, wordsOf } from "../support/source/rules.ts";
import { filesUnder, readText, ROOT, type SourceFile } from "../support/source/source-files.ts";

const CODE = /\.(ts|tsx|js|mjs)$/;
const code = ["src", "packages", "test", "bench", "bin"]
  .flatMap((folder) => filesUnder(folder, CODE))
  .filter(({ path: file }) => file !== "test/support/source/retired-words.ts");
const scannedCode = code.map((file) => ({
  file: file.path,
  identifiers: identifierWords(file),
  comments: wordsIn(commentText(file)),
  titles: wordsIn(testTitles(file).join("\n")),
}));
const documentFiles: readonly SourceFile[] = [
  ...filesUnder("docs", /\.md$/),
  ...filesUnder("packages", /\.md$/),
  ...["README.md", "CONTRIBUTING.md"].map((file) => {
    const text = readText(file);
    return { path: file, text, lines: text.split("\n") };
  }),
];
const documents = documentFiles.map(({ path: file, text }) => ({ file, words: wordsIn(text) }));
const paths = ["src", "packages", "test", "bench", "bin", "docs", "deploy"]
  .flatMap((folder) => filesUnder(folder, /./))
  .map(({ path: file }) => file)
  .filter((file) => file !== "test/support/source/retired-words.ts");

/** The last commit before subjects were checked. */
const SUBJECTS_SINCE = "0ddf9b85c0373170dbb936bf71965fe774aebd56";
const SUBJECT_MAX_LENGTH = 72;
const SUBJECT = /^[a-z0-9][a-z0-9/.,_ -]*: [a-z`]\S* \S/;
/** First words that begin a sentence about the change instead of naming it. */
const NOT_IMPERATIVE =
  /: (?:a|an|the|what|who|whoever|where|when|nobody|nothing|of|no|both|it|its|earlier|[a-z]+(?<!need|embed|feed|seed|shed|speed|spread|bleed)ed|[a-z]+(?<!bring|string|ping)ing|(?!focus|pass|process|address|discuss|press|cross|bypass|access)[a-z]+[^s]s) /;

describe("retired words", () => {
  for (const [word, usual] of Object.entries(RETIRED_WORDS))
    test(`nothing is called or described as "${word}": ${usual}`, () => {
      expect([
        ...paths.filter((file) => wordsOf(file).includes(word)),
        ...scannedCode
          .filter(({ identifiers, comments }) => identifiers.has(word) || comments.has(word))
          .map(({ file }) => `${file}: identifier or comment`),
        ...scannedCode
          .filter(({ titles }) => titles.has(word))
          .map(({ file }) => `${file}: test title`),
        ...documents.filter(({ words }) => words.has(word)).map(({ file }) => file),
      ]).toEqual([]);
    });
});

describe("commit subjects", () => {
  const subjects = subjectsSince(SUBJECTS_SINCE);

  test.skipIf(subjects === undefined)(
    `are "area: imperative summary" in at most ${SUBJECT_MAX_LENGTH} characters${subjects === undefined ? " (skipped: no Git history here)" : ""}`,
    () => {
      expect(
        subjects?.filter(
          (subject) =>
            subject.length > SUBJECT_MAX_LENGTH ||
            !SUBJECT.test(subject) ||
            NOT_IMPERATIVE.test(subject),
        ),
      ).toEqual([]);
    },
  );

  test("the rule accepts an imperative summary and rejects a description", () => {
    const isAccepted = (subject: string): boolean =>
      SUBJECT.test(subject) && !NOT_IMPERATIVE.test(subject);
    expect(isAccepted("ledger: skip debtors without balance when collecting debts")).toBe(true);
    expect(isAccepted("http: address the socket by its file descriptor")).toBe(true);
    expect(isAccepted("http: the page of an address that leads nowhere leads on")).toBe(false);
    expect(isAccepted("billing: added a limit")).toBe(false);
    expect(isAccepted("billing: adds a limit")).toBe(false);
    expect(isAccepted("what was written twice is written once")).toBe(false);
  });
});

/** The words of a text, in lower case. Collected once, because there are many retired words. */
function wordsIn(text: string): ReadonlySet<string> {
  return new Set(text.toLowerCase().match(/\w+/g));
}

function testTitles({ path: file, text }: SourceFile): readonly string[] {
  if (!/\.test\.tsx?$/.test(file)) return [];
  return [...text.matchAll(/\b(?:test|describe)(?:\.\w+)*\(\s*["`]([^"`]*)/g)].map(
    ([, title = ""]) => title,
  );
}

/** Undefined where the project is not a Git checkout or its history is shallow. */
function subjectsSince(commit: string): readonly string[] | undefined {
  const log = spawnSync("git", ["log", "--no-merges", "--format=%s", `${commit}..HEAD`], {
    cwd: path.join(ROOT),
    encoding: "utf8",
  });
  return log.status === 0 ? log.stdout.split("\n").filter((line) => line !== "") : undefined;
}
