// The type of a command, and the parsing of its arguments. Arguments are validated before anything is opened.

import { parseArgs, type ParseArgsOptionsConfig } from "node:util";
import { Fault } from "../base/fault.ts";
import { closestName } from "../base/text/suggest.ts";
import type { ConfigResult } from "../config/config.ts";
import type { RunCommand } from "../server/ledger-verification.ts";
import type { StartWorker } from "./workers/worker-process.ts";

export interface Flag {
  readonly type: "string" | "boolean";
  readonly description: string;
  /** The value in the help text: `<text>`. */
  readonly placeholder?: string;
  readonly required?: boolean;
}

/** `placeholder` is the value in the help text: `<text>`. */
export function stringFlag(placeholder: string, description: string): Flag {
  return { type: "string", placeholder, description };
}

export function requiredFlag(placeholder: string, description: string): Flag {
  return { type: "string", placeholder, description, required: true };
}

export function booleanFlag(description: string): Flag {
  return { type: "boolean", description };
}

interface ClientEnv {
  readonly homeFolder: string;
  readonly apiKey: string | undefined;
  readonly baseUrl: string | undefined;
  readonly port: string | undefined;
  /** Standard input. */
  readonly input: () => AsyncIterable<Uint8Array>;
}

interface ProgressEnv {
  /** Whether standard error is a terminal. */
  readonly isTerminal: boolean;
  /** Writes to standard error. */
  readonly write: (text: string) => void;
  readonly monotonicNow: () => number;
}

/** For `serve`. */
interface WorkersEnv {
  readonly cores: number;
  readonly platform: string;
  readonly start: StartWorker;
  /** Runs a command in a process of its own, with little priority. */
  readonly run: RunCommand;
  /** In a worker: tells the supervisor that it listens. */
  readonly reportReady: () => void;
}

/** The environment of a command. Only `main.ts` uses the process itself. */
export interface CliEnv {
  readonly readConfig: () => ConfigResult;
  readonly now: () => number;
  readonly version: string;
  readonly isTerminal: boolean;
  /** Writes to standard output. */
  readonly print: (text: string) => void;
  /** Writes to standard error. */
  readonly printError: (text: string) => void;
  /** For long commands. */
  readonly progress: ProgressEnv;
  /** For the commands that are clients of a gateway. */
  readonly client: ClientEnv;
  readonly workers: WorkersEnv;
  readonly onSignal: (signal: "SIGTERM" | "SIGINT" | "SIGHUP", handler: () => void) => void;
}

export interface ParsedArgs {
  readonly positionals: readonly string[];
  /** The value of a string flag, if given. */
  readonly value: (name: string) => string | undefined;
  readonly has: (name: string) => boolean;
}

export interface Command {
  readonly summary: string;
  readonly details?: string;
  /** The names of the arguments, all required. */
  readonly positionals: readonly string[];
  readonly flags: Readonly<Record<string, Flag>>;
  /** Resolves with the exit code. A thrown error is printed after the command's name, and the exit code is 1, or 2 for a `usageFault`. */
  readonly run: (args: ParsedArgs, cli: CliEnv) => Promise<number>;
}

export const EXIT_FAILURE = 1;
export const EXIT_USAGE = 2;
/** As shells report a process that Ctrl+C ended. */
export const EXIT_INTERRUPTED = 130;

/** The error of a command that is used wrongly, or whose settings are invalid: exit code 2. */
export function usageFault(message: string): Fault {
  return new Fault("invalid_request", message, { message });
}

export type ArgsResult =
  | { readonly kind: "args"; readonly args: ParsedArgs }
  | { readonly kind: "help" }
  | { readonly kind: "error"; readonly message: string };

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
    if (message !== undefined) return { kind: "error", message };
    const line: ParsedArgs = {
      positionals,
      value: (name) => {
        const value = values[name];
        return typeof value === "string" ? unescapeMinus(value) : undefined;
      },
      has: (name) => values[name] !== undefined,
    };
    return { kind: "args", args: line };
  } catch (error) {
    // `parseArgs` appends advice on `--`, which does not apply here.
    const [sentence = ""] = String(error instanceof Error ? error.message : error).split(
      ". To specify",
    );
    return { kind: "error", message: `${sentence}.${similarFlagHint(command, sentence)}` };
  }
}

// `parseArgs` reads a negative number as an unknown option, so its minus is replaced while parsing.
const ESCAPED_MINUS = "\u2212";
const LEADING_MINUS = /^-(?=\d)/;

function unescapeMinus(word: string): string {
  return word.startsWith(ESCAPED_MINUS) ? `-${word.slice(ESCAPED_MINUS.length)}` : word;
}

function similarFlagHint({ flags }: Command, sentence: string): string {
  const [, unknown] = /^Unknown option '--([^']+)'/.exec(sentence) ?? [];
  const meant = unknown === undefined ? undefined : closestName(unknown, Object.keys(flags));
  return meant === undefined ? "" : ` Did you mean --${meant}?`;
}

function positionalsError(command: Command, given: readonly string[]): string | undefined {
  const missing = command.positionals[given.length];
  if (missing !== undefined) return `<${missing}> is missing.`;
  const surplus = given[command.positionals.length];
  return surplus === undefined ? undefined : `Unexpected argument "${surplus}".`;
}

function missingFlagError(command: Command, given: readonly string[]): string | undefined {
  const missing = Object.entries(command.flags).find(
    ([name, flag]) => flag.required === true && !given.includes(name),
  );
  return missing === undefined
    ? undefined
    : `--${missing[0]} ${missing[1].placeholder ?? ""} is missing.`;
}
