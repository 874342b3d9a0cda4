// `postern admin providers`: which providers are set up, what their calls of today did, and their open circuits.

import { usdText } from "../../base/money/money.ts";
import { DAY_MS } from "../../base/time.ts";
import type { Config } from "../../config/config.ts";
import { tableText } from "../../operator/report/report-output.ts";
import { type OpenCircuit, readOpenCircuits } from "../../operator/system/open-circuits.ts";
import type { Db } from "../../store/db.ts";
import { type ProviderFigures, readProviderFigures } from "../../verification/daily-figures.ts";
import type { CliEnv, Command, ParsedArgs } from "../command.ts";
import { withStore } from "../with-store.ts";
import { JSON_FLAG } from "./admin-flags.ts";

export const adminProviderCommands: Readonly<Record<string, Command>> = {
  "admin providers": {
    summary: "Show each provider's calls of today and open circuits",
    details:
      "Calls, failures and charges since 00:00 UTC, and the open circuits of all running processes: a circuit opens for 30\nseconds when a model fails five times in a row. It calls no provider; postern doctor does.",
    positionals: [],
    flags: { json: JSON_FLAG },
    run: (args, cli) => withStore(cli, (db, config) => providersCommand({ db, config }, args, cli)),
  },
};

const NO_CALLS = { calls: 0, errors: 0, cost: 0n };

interface ProviderState extends ProviderFigures {
  /** Whether the settings that this command reads enable it. */
  readonly isSet: boolean;
  readonly circuits: readonly OpenCircuit[];
}

async function providersCommand(
  { db, config }: { readonly db: Db; readonly config: Config },
  args: ParsedArgs,
  cli: CliEnv,
): Promise<number> {
  const now = cli.now();
  const { figures, circuits } = await db.snapshot(async (reader) => ({
    figures: await readProviderFigures(reader, { from: now - (now % DAY_MS), to: now + 1 }),
    circuits: await readOpenCircuits(reader, now),
  }));
  // The simulator needs no setting in development.
  const set = [...Object.keys(config.providers), ...(config.development ? ["sim"] : [])];
  const states = providerStates([...new Set(set)], figures, circuits);
  cli.print(args.has("json") ? JSON.stringify(statesJson(states), null, 2) : statesText(states));
  return 0;
}

function providerStates(
  set: readonly string[],
  figures: readonly ProviderFigures[],
  circuits: readonly OpenCircuit[],
): readonly ProviderState[] {
  const names = new Set([
    ...figures.map(({ provider }) => provider),
    ...circuits.map(({ provider }) => provider),
    ...set.toSorted(),
  ]);
  return [...names].map((provider) => {
    const { calls, errors, cost } = figures.find((one) => one.provider === provider) ?? NO_CALLS;
    return {
      provider,
      calls,
      errors,
      cost,
      isSet: set.includes(provider),
      circuits: circuits.filter((one) => one.provider === provider),
    };
  });
}

function statesText(states: readonly ProviderState[]): string {
  if (states.length === 0)
    return "No provider is set, and none was called today. Set OPENAI_API_KEY, ANTHROPIC_API_KEY or another provider key.";
  const rows = states.map(({ provider, isSet, calls, errors, cost, circuits }) => [
    provider,
    isSet ? "yes" : "no",
    String(calls),
    String(errors),
    usdText(cost),
    String(circuits.length),
  ]);
  const heads = ["provider", "set", "calls", "failed", "USD", "open circuits"];
  const lines = states.flatMap(({ circuits }) =>
    circuits.map(
      ({ process, provider, account, model }) =>
        `Open: ${provider} ${model} with account ${account}, in process ${process}`,
    ),
  );
  return [tableText([heads, ...rows]), ...lines].join("\n");
}

function statesJson(states: readonly ProviderState[]): unknown {
  return {
    providers: states.map(({ provider, isSet, calls, errors, cost, circuits }) => ({
      provider,
      set: isSet,
      calls,
      errors,
      cost_usd: usdText(cost),
      open_circuits: circuits.map(({ process, account, model }) => ({ process, account, model })),
    })),
  };
}
