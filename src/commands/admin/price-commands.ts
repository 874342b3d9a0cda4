// `postern admin prices`: what a newer price table would change.

import { existsSync } from "node:fs";
import { invalid } from "../../base/fault.ts";
import type { Config } from "../../config/config.ts";
import { createLiveCatalog, modelsFileAt, readPriceTable } from "../../models/live-catalog.ts";
import { comparePrices, differenceText } from "../../models/price-differences.ts";
import type { CliEnv, Command, ParsedArgs } from "../command.ts";
import { withConfig } from "../with-store.ts";
import { JSON_FLAG } from "./admin-flags.ts";

export const adminPriceCommands: Readonly<Record<string, Command>> = {
  "admin prices": {
    summary: "Show what a newer price table changes, before it is used",
    details:
      "Compares the file with the table in use: the built-in one, or POSTERN_PRICES_FILE. Changes nothing. To use the file, set\nPOSTERN_PRICES_FILE to its path and restart. Prices of POSTERN_MODELS_FILE stay as they are.",
    positionals: ["file"],
    flags: { json: JSON_FLAG },
    run: (args, cli) => withConfig(cli, (config) => pricesCommand(config, args, cli)),
  },
};

async function pricesCommand(config: Config, args: ParsedArgs, cli: CliEnv): Promise<number> {
  const [file = ""] = args.positionals;
  if (!existsSync(file)) throw invalid("file", `The file ${file} does not exist.`);
  const { pricesFile, modelsFile } = config;
  const before = readPriceTable(pricesFile);
  const after = readPriceTable(file);
  // The models file must still be valid with the new table, because `priced_like` names its models.
  createLiveCatalog({
    now: cli.now(),
    prices: after,
    ...(modelsFile === undefined ? {} : { file: modelsFileAt(modelsFile) }),
  });
  const differences = comparePrices(before, after);
  if (args.has("json")) {
    cli.print(
      JSON.stringify({ before: before.checked, after: after.checked, differences }, null, 2),
    );
    return 0;
  }
  cli.print(`In use: checked on ${before.checked}. ${file}: checked on ${after.checked}.`);
  cli.print(differenceText(differences));
  return 0;
}
