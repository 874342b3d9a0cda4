// Shared rules of the architecture tests: import violations, cycles, comments, identifiers.

import { readdirSync } from "node:fs";
import path from "node:path";
import { codeLines, importsOf, ROOT, type SourceFile } from "./source-files.ts";

export function compareText(left: string, right: string): number {
  return left < right ? -1 : Number(left > right);
}

/** The names of the folders in a folder, sorted. */
export function foldersOf(folder: string): readonly string[] {
  return readdirSync(path.join(ROOT, folder), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
    .sort(compareText);
}

/** The imports that violate a rule, as `file → target`. */
export function violations(
  files: readonly SourceFile[],
  isViolation: (file: string, target: string, isTypeOnly: boolean) => boolean,
): readonly string[] {
  return files.flatMap((file) =>
    importsOf(file).flatMap(({ target, isTypeOnly }) =>
      target !== undefined &&
      /^(src|packages)\//.test(target) &&
      isViolation(file.path, target, isTypeOnly)
        ? [`${file.path} → ${target}`]
        : [],
    ),
  );
}

/** Groups of files that import each other in a cycle, type imports included. */
export function importCycles(files: readonly SourceFile[]): readonly string[] {
  const targets = new Map(
    files.map((file) => [file.path, importsOf(file).flatMap(({ target }) => target ?? [])]),
  );
  const reachable = (from: string): ReadonlySet<string> => {
    const seen = new Set<string>();
    const queue = [...(targets.get(from) ?? [])];
    for (let next = queue.pop(); next !== undefined; next = queue.pop()) {
      if (seen.has(next)) continue;
      seen.add(next);
      queue.push(...(targets.get(next) ?? []));
    }
    return seen;
  };
  return files.map((file) => file.path).filter((file) => reachable(file).has(file));
}

/** `file:line text` of every line that a rule matches. */
export function matchingLines(
  files: readonly SourceFile[],
  matches: (line: string) => boolean,
): readonly string[] {
  return files.flatMap(({ path: file, lines }) =>
    lines.flatMap((line, index) => (matches(line) ? [`${file}:${index + 1} ${line.trim()}`] : [])),
  );
}

/** A spread of a named value into an object: `{ ...deps }`, but not `[...list]` or `{ ...(isSet && { key }) }`. */
export interface ObjectSpread {
  readonly file: string;
  readonly line: number;
  readonly name: string;
}

export function objectSpreads(file: SourceFile): readonly ObjectSpread[] {
  const open: string[] = [];
  return codeLines(file).flatMap((line, index) =>
    [...line.matchAll(/[([{]|[)\]}]|\.\.\.(\w[\w.]*)?/g)].flatMap(([token, name]) => {
      if ("([{".includes(token)) open.push(token);
      else if (")]}".includes(token)) open.pop();
      else if (name !== undefined && open.at(-1) === "{")
        return [{ file: file.path, line: index + 1, name }];
      return [];
    }),
  );
}

const COMMENT = /(?<![:"'`])\/\/[^\n]*|\/\*[\s\S]*?\*\//g;

/** The comments of a file as one text. */
export function commentText(file: SourceFile): string {
  return [...file.text.matchAll(COMMENT)].map(([comment]) => comment).join("\n");
}

/** The words of a file's identifiers, in lower case: `holdBuffer` is `hold` and `buffer`. */
export function identifierWords(file: SourceFile): ReadonlySet<string> {
  const identifiers =
    codeLines(file)
      .join("\n")
      .match(/[A-Za-z_$][\w$]*/g) ?? [];
  return new Set(identifiers.flatMap(wordsOf));
}

export function wordsOf(name: string): readonly string[] {
  return name
    .replaceAll(/([a-z0-9])([A-Z])/g, "$1 $2")
    .split(/[^A-Za-z]+/)
    .filter((word) => word !== "")
    .map((word) => word.toLowerCase());
}
