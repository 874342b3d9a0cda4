// Reads the project's source files for the architecture tests.

import { readdirSync, readFileSync, statSync } from "node:fs";
import path from "node:path";

export const ROOT = path.resolve(import.meta.dir, "../../..");

export interface SourceFile {
  /** Relative to the project root, with forward slashes: `src/keys/keys.ts`. */
  readonly path: string;
  readonly text: string;
  readonly lines: readonly string[];
}

export interface Import {
  readonly from: string;
  /** Whether only types are imported. */
  readonly isTypeOnly: boolean;
  /** The imported file of this project; undefined for packages. */
  readonly target: string | undefined;
}

export function readText(file: string): string {
  return readFileSync(path.join(ROOT, file), "utf8");
}

export function filesUnder(folder: string, pattern = /\.(ts|tsx)$/): readonly SourceFile[] {
  return readdirSync(path.join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .map((name) => path.posix.join(folder, name.replaceAll("\\", "/")))
    .filter((file) => pattern.test(file) && statSync(path.join(ROOT, file)).isFile())
    .sort()
    .map((file) => {
      const text = readText(file);
      return { path: file, text, lines: text.replace(/\n$/, "").split("\n") };
    });
}

/** The source of the gateway and of its packages, without tests. */
export function sourceFiles(): readonly SourceFile[] {
  return [
    ...filesUnder("src"),
    ...filesUnder("packages").filter(({ path: file }) => !isTest(file)),
  ];
}

/** The tests of the gateway and of its packages, and what supports them. */
export function testFiles(pattern?: RegExp): readonly SourceFile[] {
  const ofPackages = filesUnder("packages", pattern).filter(({ path: file }) => isTest(file));
  return [...filesUnder("test", pattern), ...ofPackages];
}

function isTest(file: string): boolean {
  return /^packages\/[^/]+\/test\//.test(file);
}

/** The top-level folder: `keys` for `src/keys/keys.ts`. A file directly in `src` is its own module. */
export function moduleOf(file: string): string {
  return file.split("/")[1] ?? file;
}

export function importsOf(file: SourceFile): readonly Import[] {
  const statements = file.text.matchAll(
    /^(?:import|export)\s(?:([^;"]*?)\sfrom\s)?"([^"]+)"|\bimport\("([^"]+)"\)/gm,
  );
  return [...statements].map(([, names = "", named, loaded]) => {
    const from = named ?? loaded ?? "";
    return { from, isTypeOnly: hasOnlyTypes(names), target: targetOf(file, from) };
  });
}

function targetOf(file: SourceFile, from: string): string | undefined {
  const name = /^@postern\/([a-z-]+)$/.exec(from)?.[1];
  if (name !== undefined) return `packages/${name}/${name}.ts`;
  return from.startsWith(".") ? path.posix.join(path.posix.dirname(file.path), from) : undefined;
}

function hasOnlyTypes(names: string): boolean {
  if (names.startsWith("type ")) return true;
  const braces = /^\{([^}]*)\}$/s.exec(names.trim());
  const entries = (braces?.[1] ?? "").split(",").filter((name) => name.trim() !== "");
  return entries.length > 0 && entries.every((name) => name.trim().startsWith("type "));
}

const NON_CODE =
  /\/\/[^\n]*|\/\*[\s\S]*?\*\/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`|(?<=[(,=:[!&|?{};+\-*%<>~^\n]\s*|return\s+)\/(?![/*])(?:[^/\\\n[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/g;

/** The code with comments, strings and regular expressions replaced by spaces, line by line. */
export function codeLines(file: SourceFile): readonly string[] {
  return file.text.replaceAll(NON_CODE, (match) => match.replaceAll(/[^\n]/g, " ")).split("\n");
}

/** The number of lines that contain only a comment. */
export function commentLines(file: SourceFile): number {
  return file.lines.filter((line) => /^\s*(\/\/|\/\*|\*)/.test(line)).length;
}
