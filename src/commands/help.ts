// The help texts, made out of the commands themselves.

import type { Command } from "./command.ts";

export function helpOfAll(commands: Readonly<Record<string, Command>>): string {
  const names = Object.keys(commands);
  const width = Math.max(...names.map((name) => usageOf(name, commands[name]).length));
  const lines = Object.entries(commands).map(
    ([name, command]) => `  ${usageOf(name, command).padEnd(width)}   ${command.summary}`,
  );
  return [
    "Postern, an AI gateway that agents let themselves into.",
    "",
    "Usage: postern [command]",
    "",
    ...lines,
    "",
    "  postern <command> --help says more about one command; postern --version prints the version.",
    "",
    "Settings are environment variables, also read from a file .env; the README lists them.",
    "`postern doctor` says which of them are wrong.",
  ].join("\n");
}

export function helpOf(name: string, command: Command): string {
  const flags = Object.entries(command.flags);
  const forms = flags.map(
    ([flag, { value }]) => `--${flag}${value === undefined ? "" : ` ${value}`}`,
  );
  const width = Math.max(0, ...forms.map((form) => form.length));
  const lines = flags.map(
    ([, { means }], place) => `  ${(forms[place] ?? "").padEnd(width)}   ${means}`,
  );
  return [
    `${command.summary}.`,
    "",
    `Usage: postern ${usageOf(name, command)}${optionalForms(command)}`,
    ...(lines.length === 0 ? [] : ["", ...lines]),
    ...(command.details === undefined ? [] : ["", command.details]),
  ].join("\n");
}

function usageOf(name: string, command: Command | undefined): string {
  const required = Object.entries(command?.flags ?? {}).filter(
    ([, flag]) => flag.required === true,
  );
  return [
    name,
    ...(command?.positionals ?? []).map((positional) => `<${positional}>`),
    ...required.map(([flag, { value }]) => `--${flag} ${value ?? ""}`),
  ].join(" ");
}

function optionalForms(command: Command): string {
  return Object.entries(command.flags)
    .filter(([, flag]) => flag.required !== true)
    .map(([flag, { value }]) => ` [--${flag}${value === undefined ? "" : ` ${value}`}]`)
    .join("");
}
