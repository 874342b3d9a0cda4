// All commands by name, and the dispatch of a command line.

import { readFile } from "node:fs/promises";
import path from "node:path";
import { Fault } from "../base/fault.ts";
import { closestName } from "../base/text/suggest.ts";
import { isUnavailable } from "../store/db.ts";
import { adminAccountCommands } from "./admin/account-commands.ts";
import { adminCommands, adminPriceCommands, adminReportCommands } from "./admin/admin-commands.ts";
import { adminBillingCommands } from "./admin/billing-commands.ts";
import { adminProviderCommands } from "./admin/provider-commands.ts";
import { connect } from "./client/connect.ts";
import { mcp } from "./client/mcp-command.ts";
import { status } from "./client/status.ts";
import { verifyLedgerProof } from "./client/verify-ledger-proof.ts";
import { verifyReceipt } from "./client/verify-receipt.ts";
import {
  type CliEnv,
  type Command,
  EXIT_FAILURE,
  EXIT_INTERRUPTED,
  EXIT_USAGE,
  parseCommandArgs,
} from "./command.ts";
import { doctor } from "./doctor/doctor.ts";
import { commandHelp, familyHelp, helpIndex } from "./help.ts";
import { migrateStore } from "./migrate-command.ts";
import { moveCommand } from "./move.ts";
import { isInterrupted } from "./progress.ts";
import { serve } from "./serve.ts";
import { simulate } from "./simulate.ts";
import { errorMessage, withConfig } from "./with-store.ts";

// `postern licenses`: the build embeds the texts in the executable, and puts them beside the bundle of the npm package.
const FILE = "THIRD-PARTY-LICENSES.txt";

const licenses: Command = {
  summary: "Print the licenses of the packages in this program",
  positionals: [],
  flags: {},
  run: async (_line, cli) => {
    const texts = await readFile(path.join(import.meta.dirname, FILE), "utf8").catch(
      (cause: unknown) => {
        throw new Error(
          "This is a checkout, not a build: the license of each package is in its folder of node_modules.",
          { cause },
        );
      },
    );
    cli.print(texts);
    return 0;
  },
};

// `postern healthcheck`: for container images without curl.
const TIMEOUT_MS = 3_000;
const ALL_INTERFACES = new Set(["0.0.0.0", "::", "[::]"]);

const healthcheck: Command = {
  summary: "Check that the gateway of these settings responds on this machine",
  details:
    "Requests /healthz; the exit code is 0 if it responds with 200. For the health check of a container.",
  positionals: [],
  flags: {},
  run: (_line, cli) =>
    withConfig(cli, async ({ host, port }) => {
      const url = `http://${urlHost(host)}:${port}/healthz`;
      const { status } = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS) }).catch(
        (cause: unknown) => {
          throw new Error(`${url} does not respond: ${errorMessage(cause)}`, { cause });
        },
      );
      cli.print(`${url} responded with ${status}`);
      return status === 200 ? 0 : EXIT_FAILURE;
    }),
};

function urlHost(host: string): string {
  if (ALL_INTERFACES.has(host)) return "127.0.0.1";
  return host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
}

export const COMMANDS: Readonly<Record<string, Command>> = {
  serve,
  simulate,
  migrate: migrateStore,
  move: moveCommand,
  doctor,
  mcp,
  connect,
  status,
  "verify-receipt": verifyReceipt,
  "verify-proof": verifyLedgerProof,
  healthcheck,
  licenses,
  ...adminCommands,
  ...adminAccountCommands,
  ...adminBillingCommands,
  ...adminReportCommands,
  ...adminPriceCommands,
  ...adminProviderCommands,
};

/** Runs a command line. Resolves with the exit code. */
export async function runCommandLine(args: readonly string[], cli: CliEnv): Promise<number> {
  const [first] = args;
  if (first === "--version" || first === "-v") {
    cli.print(cli.version);
    return 0;
  }
  if (first === "help" && args.length > 1)
    return await runCommandLine([...args.slice(1), "--help"], cli);
  if (first === "--help" || first === "-h" || first === "help") {
    cli.print(helpIndex(COMMANDS));
    return 0;
  }
  const found = findCommand(args);
  if (found === undefined) return explainUnknownCommand(args, cli);
  const { name, command, rest } = found;
  const parsed = parseCommandArgs(command, rest);
  if (parsed.kind === "help") {
    cli.print(commandHelp(name, command));
    return 0;
  }
  if (parsed.kind === "error") {
    cli.printError(`postern ${name}: ${parsed.message} See postern ${name} --help.`);
    return EXIT_USAGE;
  }
  try {
    return await command.run(parsed.args, cli);
  } catch (error) {
    if (isInterrupted(error)) {
      cli.printError(`postern ${name}: ${errorMessage(error)}`);
      return EXIT_INTERRUPTED;
    }
    const message = `${errorMessage(error)}${missingAccountHint(error, command)}`;
    cli.printError(
      isUnavailable(error)
        ? `postern ${name}: the store is not available: ${message}. Run postern doctor for details.`
        : `postern ${name}: ${message}`,
    );
    const isUsageError = error instanceof Fault && error.code === "invalid_request";
    return isUsageError ? EXIT_USAGE : EXIT_FAILURE;
  }
}

function missingAccountHint(error: unknown, { positionals }: Command): string {
  const isMissing = error instanceof Fault && error.code === "not_found";
  return isMissing && positionals[0] === "account" ? " postern admin list lists the accounts." : "";
}

interface CommandMatch {
  readonly name: string;
  readonly command: Command;
  readonly rest: readonly string[];
}

// The longest name wins: `admin grant` before `admin`. Without a name the command is `serve`.
function findCommand(args: readonly string[]): CommandMatch | undefined {
  if (args[0] === undefined || args[0].startsWith("-"))
    return { name: "serve", command: serve, rest: args };
  for (const words of [2, 1]) {
    const name = args.slice(0, words).join(" ");
    const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
    if (command !== undefined) return { name, command, rest: args.slice(words) };
  }
  return undefined;
}

/** `admin` alone and `admin --help` list the commands of the family. Resolves with the exit code. */
function explainUnknownCommand(args: readonly string[], cli: CliEnv): number {
  const [first = "", second = ""] = args;
  const names = Object.keys(COMMANDS);
  const family = names.filter((name) => name.startsWith(`${first} `));
  if (family.length > 0 && (second === "" || second.startsWith("-"))) {
    const isHelp = args.includes("--help") || args.includes("-h");
    const print = isHelp ? cli.print : cli.printError;
    const commands = Object.entries(COMMANDS).filter(([name]) => family.includes(name));
    print(familyHelp(first, Object.fromEntries(commands)));
    return isHelp ? 0 : EXIT_USAGE;
  }
  const start = family.length > 0 ? `${first} ` : "";
  const named = start === "" ? first : `${first} ${second}`;
  const rests = family.map((name) => name.slice(start.length));
  const meant =
    start === ""
      ? (names.find((name) => name.endsWith(` ${first}`)) ??
        closestName(`${first} ${second}`, names) ??
        closestName(first, names))
      : closestName(second, rests);
  const hint = meant === undefined ? "" : ` Did you mean ${start}${meant}?`;
  cli.printError(
    `postern: Unknown command "${named}".${hint} postern ${start}--help lists the commands.`,
  );
  return EXIT_USAGE;
}
