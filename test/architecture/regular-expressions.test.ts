// Regular expressions take time in proportion to their text. Callers send texts of megabytes, and an expression that can read a
// text in several ways occupies the process for hours.

import { describe, expect, test } from "bun:test";
import { Visitor, parseSync } from "oxc-parser";
import { analyse } from "scslre";
import { type SourceFile, sourceFiles } from "../support/source/source-files.ts";

/** Their texts are settings, files of the project and arguments of commands. */
const TRUSTED_TEXTS = [
  "src/commands/",
  "src/config/",
  "src/discovery/",
  "src/models/tables/",
  "src/store/",
];

interface Found {
  readonly place: string;
  readonly pattern: string;
  readonly flags: string;
}

function regularExpressionsOf({ path: file, text }: SourceFile): readonly Found[] {
  const found: Found[] = [];
  const visitor = new Visitor({
    Literal: (node) => {
      if (!("regex" in node)) return;
      const line = text.slice(0, node.start).split("\n").length;
      found.push({ place: `${file}:${line}`, ...node.regex });
    },
  });
  visitor.visit(parseSync(file, text).program);
  return found;
}

function isLinear({ pattern, flags }: Omit<Found, "place">): boolean {
  return analyse({ source: pattern, flags }, { maxReports: 1 }).reports.length === 0;
}

describe("regular expressions", () => {
  test("are linear in texts that callers or providers send", () => {
    const all = sourceFiles()
      .filter(({ path: file }) => !TRUSTED_TEXTS.some((folder) => file.startsWith(folder)))
      .flatMap(regularExpressionsOf);
    expect(all.length).toBeGreaterThan(500);
    const slow = all.filter((one) => !isLinear(one));
    expect(slow.map(({ place, pattern }) => `${place} ${pattern}`)).toEqual([]);
  });

  test.each([
    ["a group with two ways to read a letter", "^(?:a+)+$", false],
    ["two repetitions side by side", "^a+a+$", false],
    ["a repetition at the end, tried from each position", "a+$", false],
    ["a repetition that begins only at its first character", "(?<!a)a+$", true],
    ["a repetition from the start", "^a+$", true],
  ])("%s", (_, pattern, expected) => {
    expect(isLinear({ pattern, flags: "" })).toBe(expected);
  });
});
