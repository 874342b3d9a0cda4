// The help texts, generated from the commands.

import type { Command } from "./command.ts";

type Commands = Readonly<Record<string, Command>>;

export function helpIndex(commands: Commands): string {
  return [
    "Postern, an AI gateway that AI agents can sign up for on their own.",
    "",
    "Usage: postern [command]",
    "",
    ...commandLines(commands),
    "",
    "  postern <command> --help shows the options of a command; postern --version prints the version.",
    "",
    "Settings are environment variables, also read from a .env file; see docs/site/settings.md.",
    "`postern doctor` checks them.",
  ].join("\n");
}

/** The commands that share a first word, such as `admin`. */
export function familyHelp(family: string, commands: Commands): string {
  return [
    `Usage: postern ${family} <command>`,
    "",
    ...commandLines(commands),
    "",
    `postern ${family} <command> --help shows the options of a command.`,
  ].join("\n");
}

function commandLines(commands: Commands): readonly string[] {
  const names = Object.keys(commands);
  const width = Math.max(...names.map((name) => usageLine(name, commands[name]).length));
  return Object.entries(commands).map(
    ([name, command]) => `  ${usageLine(name, command).padEnd(width)}   ${command.summary}`,
  );
}

export function commandHelp(name: string, command: Command): string {
  const flags = Object.entries(command.flags);
  const flagColumns = flags.map(
    ([flag, { placeholder }]) => `--${flag}${placeholder === undefined ? "" : ` ${placeholder}`}`,
  );
  const width = Math.max(0, ...flagColumns.map((form) => form.length));
  const lines = flags.map(
    ([, { description }], index) =>
      `  ${(flagColumns[index] ?? "").padEnd(width)}   ${description}`,
  );
  return [
    `${command.summary}.`,
    "",
    `Usage: postern ${usageLine(name, command)}${optionalFlags(command)}`,
    ...(lines.length === 0 ? [] : ["", ...lines]),
    ...(command.details === undefined ? [] : ["", command.details]),
  ].join("\n");
}

export function usageLine(name: string, command: Command | undefined): string {
  const required = Object.entries(command?.flags ?? {}).filter(
    ([, flag]) => flag.required === true,
  );
  return [
    name,
    ...(command?.positionals ?? []).map((positional) => `<${positional}>`),
    ...required.map(([flag, { placeholder }]) => `--${flag} ${placeholder ?? ""}`),
  ].join(" ");
}

function optionalFlags(command: Command): string {
  return Object.entries(command.flags)
    .filter(([, flag]) => flag.required !== true)
    .map(
      ([flag, { placeholder }]) =>
        ` [--${flag}${placeholder === undefined ? "" : ` ${placeholder}`}]`,
    )
    .join("");
}
