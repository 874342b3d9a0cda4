// Rules about files and functions: sizes, lint rules, casts, comments, names of files.

import { describe, expect, test } from "bun:test";
import { matchingLines, objectSpreads } from "../support/source/rules.ts";
import {
  codeLines,
  commentLines,
  readText,
  type SourceFile,
  sourceFiles,
  testFiles,
} from "../support/source/source-files.ts";

const source = sourceFiles();

const FILE_LINES_MAX = 500;
const MEDIAN_LINES_MAX = 120;
const COMMENT_SHARE_MAX = 0.12;
/** Names that say nothing about the content. */
const VAGUE_NAMES =
  /^(utils?|helpers?|lib|libs|common|shared|misc|managers?|types|index)(\.[a-z]+)*$/;
/** A type assertion: `as` before a type name, not the word in prose. */
const CAST =
  /[\w)\]}"'`] as (?:[A-Z]\w*|unknown|string|number|boolean|bigint|object|never|readonly|keyof|typeof|\{ readonly|\(|\[)/;
/** What `src/server` may copy with a spread: records of data, whose keys are those of one type. */
const RECORDS: ReadonlySet<string> = new Set([
  "message",
  "idempotent",
  "idempotent.call",
  "signatureHeaders",
]);
/** A limit of elapsed or CPU time, which a busy machine exceeds. */
const TIME_LIMIT =
  /expect\(.*(performance\.now|nanoseconds|cpuUsage)\(.*\.toBeLess|\belapsed\w*\)\.toBeLess|^setDefaultTimeout\(/;
/** Conditions are awaited with `eventually`. */
const FIXED_WAIT = /\b(?:Bun\.sleep|setTimeout)\(/;

describe("code", () => {
  test(`a file has at most ${FILE_LINES_MAX} lines, and half of the files at most ${MEDIAN_LINES_MAX}`, () => {
    const sizes = source.map(({ lines }) => lines.length).sort((left, right) => left - right);
    expect(
      source
        .filter(({ lines }) => lines.length > FILE_LINES_MAX)
        .map(({ path: file, lines }) => `${file} ${lines.length}`),
    ).toEqual([]);
    expect(sizes[Math.floor(sizes.length / 2)] ?? 0).toBeLessThanOrEqual(MEDIAN_LINES_MAX);
  });

  test("oxlint forbids any, !, @ts-ignore, default exports, cycles, long functions and deep nesting", () => {
    const { rules } = JSON.parse(readText(".oxlintrc.json"));
    for (const rule of [
      "typescript/no-explicit-any",
      "typescript/no-non-null-assertion",
      "typescript/ban-ts-comment",
      "typescript/switch-exhaustiveness-check",
      "import/no-default-export",
      "import/no-cycle",
      "node/no-process-env",
    ])
      expect(`${rule} ${rules[rule]}`).toBe(`${rule} error`);
    expect(rules["max-lines"]).toEqual(["error", FILE_LINES_MAX]);
    expect(rules["max-lines-per-function"][1].max).toBe(70);
    expect(rules["max-depth"]).toEqual(["error", 3]);
  });

  test("no file disables a lint or compiler rule", () => {
    const disables = /(ox|es)lint-disable|@ts-(ignore|nocheck|expect-error)/;
    const files = [...source, ...testFiles()].filter(
      ({ path: file }) => !file.startsWith("test/architecture/"),
    );
    expect(matchingLines(files, (line) => disables.test(line))).toEqual([]);
  });

  test("a comment above each fixed wait of a test says why it waits for no event", () => {
    const waits = testFiles(/\.test\.tsx?$/).flatMap(({ path: file, lines }) =>
      lines.flatMap((line, index) =>
        FIXED_WAIT.test(line) && !/^\s*(\/\/|\*\/)/.test(lines[index - 1] ?? "")
          ? [`${file}:${index + 1} ${line.trim()}`]
          : [],
      ),
    );
    expect(waits).toEqual([]);
  });

  test("no test has a time limit: algorithms are tested with expectLinearCpuTime", () => {
    const tests = testFiles(/\.test\.tsx?$/);
    expect(matchingLines(tests, (line) => TIME_LIMIT.test(line))).toEqual([]);
  });

  test("no file but the entry of a package re-exports what another file exports", () => {
    const others = source.filter(({ path: file }) => !/^packages\/[^/]+\/[^/]+$/.test(file));
    expect(
      matchingLines(others, (line) => /^export (\*|\{[^}]*\}|type \{[^}]*\}) from /.test(line)),
    ).toEqual([]);
  });

  test("no file or folder is named utils, helpers, lib, common, types or index", () => {
    const names = [...source, ...testFiles()].map(({ path: file }) => file);
    expect(names.filter((file) => file.split("/").some((part) => VAGUE_NAMES.test(part)))).toEqual(
      [],
    );
  });

  test("no two files have the same name", () => {
    const names = source
      .map(({ path: file }) => file)
      .map((file) => file.slice(file.lastIndexOf("/") + 1).replace(/\.\w+$/, ""));
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
  });

  test("files and folders are named in kebab-case", () => {
    expect(
      source
        .map(({ path: file }) => file)
        .filter((file) => !/^(src|packages)(\/[a-z0-9-]+)*\/[a-z0-9-]+(\.d)?\.tsx?$/.test(file)),
    ).toEqual([]);
  });

  test("the only classes are errors", () => {
    expect(
      source.flatMap((file) =>
        codeLines(file)
          .filter((line) => /^\s*(export )?(abstract )?class \w/.test(line))
          .map((line) => `${file.path} ${line.trim()}`),
      ),
    ).toEqual([
      "src/base/fault.ts export class Fault extends Error {",
      "packages/wires/src/frames/malformed-stream.ts export class MalformedStream extends Error {",
      "packages/wires/src/invalid-request.ts export class InvalidRequest extends Error {",
    ]);
  });

  test("dependencies are named one by one: no object of them is spread into another", () => {
    const spreads = source.flatMap(objectSpreads);
    expect(
      spreads.filter(({ file, name }) =>
        file.startsWith("src/server/") ? !RECORDS.has(name) : /deps$/i.test(name),
      ),
    ).toEqual([]);
  });

  test("a comment on or above each cast says why it is safe", () => {
    expect(source.flatMap(unexplainedCasts)).toEqual([]);
  });

  test(`less than ${COMMENT_SHARE_MAX * 100}% of the lines are comments`, () => {
    const lines = source.reduce((sum, file) => sum + file.lines.length, 0);
    const comments = source.reduce((sum, file) => sum + commentLines(file), 0);
    expect(comments / lines).toBeLessThan(COMMENT_SHARE_MAX);
  });

  test("the main file of a folder begins with a comment on the folder's purpose", () => {
    expect(
      source
        .filter(({ path: file }) => /^(?:src|packages)\/([a-z-]+)\/\1\.tsx?$/.test(file))
        .filter(({ lines }) => !/^\/\/ \S/.test(lines[0] ?? ""))
        .map(({ path: file }) => file),
    ).toEqual([]);
  });
});

function unexplainedCasts(file: SourceFile): readonly string[] {
  const code = codeLines(file);
  let inImport = false;
  return code.flatMap((line, index) => {
    if (/^(import|export)\b.*\{?$|^(import|export) /.test(line))
      inImport = /^(import|export (type )?\{)/.test(line);
    const isName = inImport;
    if (line.includes(";")) inImport = false;
    if (isName || !CAST.test(line)) return [];
    const above = file.lines.slice(Math.max(0, index - 3), index + 1);
    return above.some((near) => /\/\/|\*\/|^\s*\*/.test(near))
      ? []
      : [`${file.path}:${index + 1} ${(file.lines[index] ?? "").trim()}`];
  });
}
