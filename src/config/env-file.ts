// Reads a file of settings, such as systemd's EnvironmentFile: `NAME=value` lines, comments, and values in quotes.

import { readFileSync } from "node:fs";

export interface EnvFile {
  readonly variables: Readonly<Record<string, string>>;
  /** `file:line` of a variable. */
  readonly originOf: (name: string) => string | undefined;
}

const ASSIGNMENT = /^(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)$/;
const QUOTED = /^(?:"((?:[^"\\]|\\.)*)"|'([^']*)')\s*(?:#.*)?$/;

/** Throws an error that names the file and the line. */
export function readEnvFile(path: string): EnvFile {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (cause) {
    const code = cause instanceof Error && "code" in cause ? ` (${String(cause.code)})` : "";
    throw new Error(`--env-file: cannot read ${path}${code}`, { cause });
  }
  const variables: Record<string, string> = {};
  const lines = new Map<string, number>();
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    const content = line.trim();
    if (content === "" || content.startsWith("#") || content.startsWith(";")) continue;
    const [, name, value] = ASSIGNMENT.exec(content) ?? [];
    if (name === undefined || value === undefined)
      throw new Error(
        `${path}:${index + 1}: not a setting: write NAME=value, without spaces before =`,
      );
    variables[name] = unquote(value);
    lines.set(name, index + 1);
  }
  return {
    variables,
    originOf: (name) => {
      const line = lines.get(name);
      return line === undefined ? undefined : `${path}:${line}`;
    },
  };
}

function unquote(value: string): string {
  const [, double, single] = QUOTED.exec(value.trim()) ?? [];
  if (double !== undefined) return double.replaceAll(/\\(.)/g, "$1");
  return single ?? value.trim();
}

/** The value of a leading `--env-file`, and the other arguments. */
export function takeEnvFile(args: readonly string[]): {
  readonly path: string | undefined;
  readonly args: readonly string[];
} {
  const [first = "", second] = args;
  if (first === "--env-file") return { path: second ?? "", args: args.slice(2) };
  return first.startsWith("--env-file=")
    ? { path: first.slice("--env-file=".length), args: args.slice(1) }
    : { path: undefined, args };
}
