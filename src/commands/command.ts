// What a command is, and how its line is read. Arguments are checked before anything is opened.

import { parseArgs, type ParseArgsOptionsConfig } from "node:util";
import type { ConfigResult } from "../config/config.ts";

interface Flag {
  readonly type: "string" | "boolean";
  readonly description: string;
  /** What stands for the value in the help: `<text>`. */
  readonly placeholder?: string;
  readonly required?: boolean;
}

/** What a command has of the world around it: nothing below `main.ts` asks the process itself. */
export interface CliEnv {
  readonly readConfig: () => ConfigResult;
  readonly now: () => number;
  readonly version: string;
  readonly isTerminal: boolean;
  /** One line, or several, to standard output. */
  readonly print: (text: string) => void;
  /** To standard error. */
  readonly printError: (text: string) => void;
  readonly onSignal: (signal: "SIGTERM" | "SIGINT", handler: () => void) => void;
}

export interface ParsedArgs {
  readonly positionals: readonly string[];
  /** The value of a string flag that was given. */
  readonly value: (name: string) => string | undefined;
  readonly has: (name: string) => boolean;
}

export interface Command {
  readonly summary: string;
  readonly details?: string;
  /** The names of the arguments, all of which must be given. */
  readonly positionals: readonly string[];
  readonly flags: Readonly<Record<string, Flag>>;
  /** Resolves with the exit code. */
  readonly run: (args: ParsedArgs, cli: CliEnv) => Promise<number>;
}

export const EXIT_FAILURE = 1;
export const EXIT_USAGE = 2;

export type ArgsResult =
  | { readonly kind: "line"; readonly args: ParsedArgs }
  | { readonly kind: "help" }
  | { readonly kind: "mistake"; readonly message: string };

export function parseCommandArgs(command: Command, args: readonly string[]): ArgsResult {
  const options: ParseArgsOptionsConfig = { help: { type: "boolean", short: "h" } };
  for (const [name, { type }] of Object.entries(command.flags)) options[name] = { type };
  try {
    const { values, positionals: words } = parseArgs({
      args: args.map((word) => word.replace(LEADING_MINUS, ESCAPED_MINUS)),
      options,
      allowPositionals: true,
      strict: true,
    });
    const positionals = words.map(unescapeMinus);
    if (values["help"] === true) return { kind: "help" };
    const message =
      positionalsError(command, positionals) ?? missingFlagError(command, Object.keys(values));
    if (message !== undefined) return { kind: "mistake", message };
    const line: ParsedArgs = {
      positionals,
      value: (name) => {
        const value = values[name];
        return typeof value === "string" ? unescapeMinus(value) : undefined;
      },
      has: (name) => values[name] !== undefined,
    };
    return { kind: "line", args: line };
  } catch (error) {
    // `parseArgs` adds advice on `--` to its sentence, which helps nobody here.
    const sentence = error instanceof Error ? error.message.split(". To specify")[0] : undefined;
    return { kind: "mistake", message: sentence ?? String(error) };
  }
}

// To `parseArgs` a number below zero is an option that nobody has, so it travels under another sign.
const ESCAPED_MINUS = "\u2212";
const LEADING_MINUS = /^-(?=\d)/;

function unescapeMinus(word: string): string {
  return word.startsWith(ESCAPED_MINUS) ? `-${word.slice(ESCAPED_MINUS.length)}` : word;
}

function positionalsError(command: Command, given: readonly string[]): string | undefined {
  const missing = command.positionals[given.length];
  if (missing !== undefined) return `<${missing}> is missing`;
  const surplus = given[command.positionals.length];
  return surplus === undefined ? undefined : `Nothing is expected at "${surplus}"`;
}

function missingFlagError(command: Command, given: readonly string[]): string | undefined {
  const missing = Object.entries(command.flags).find(
    ([name, flag]) => flag.required === true && !given.includes(name),
  );
  return missing === undefined
    ? undefined
    : `--${missing[0]} ${missing[1].placeholder ?? ""} is missing`;
}
