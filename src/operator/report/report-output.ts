// A report as a table for a terminal, and as JSON. Amounts are decimal dollars with every digit, as the ledger has them.

import { type Nano, usdText } from "../../base/money.ts";
import type { ProviderCost } from "./provider-costs.ts";
import type { ProcessorTotals, Report } from "./report.ts";

type NamedAmounts = Readonly<Record<string, Nano>>;

/** The figures of a report by their names, section by section. */
export function reportFigures(report: Report): Readonly<Record<string, NamedAmounts>> {
  const { grants, adjustments, usage, balances } = report;
  const { promo, paid, overrun } = usage;
  return {
    income: { fees: report.feeIncome, usage_paid: paid },
    grants: { ...grants, total: grants.starting + grants.claim + grants.operator },
    usage: { promo, paid, overrun, total: promo + paid + overrun },
    adjustments: { ...adjustments },
    losses: {
      overrun,
      refunds: report.refundLoss,
      written_off: report.writtenOff,
    },
    liabilities: {
      promo: balances.promo,
      paid: balances.paid,
      total: balances.promo + balances.paid,
      suspense: balances.suspense,
      tax: balances.tax,
    },
    owed_to_us: { customers: balances.owed },
    provider_cost: {
      total: totalCost(report.providers),
      own_keys: totalCost(report.ownKeys),
    },
  };
}

export function totalCost(costs: readonly ProviderCost[]): Nano {
  return costs.reduce((sum, { cost }) => sum + cost, 0n);
}

export function reportJson(report: Report): unknown {
  return {
    object: "report",
    from: new Date(report.period.from).toISOString(),
    to: new Date(report.period.to).toISOString(),
    ...Object.fromEntries(
      Object.entries(reportFigures(report)).map(([section, named]) => [section, usdFields(named)]),
    ),
    processors: report.processors.map(({ processor, kind, ...amounts }) => ({
      processor,
      kind,
      ...usdFields(amounts),
    })),
    providers: report.providers.map(costJson),
    own_keys: report.ownKeys.map(costJson),
  };
}

function usdFields(amounts: NamedAmounts): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(amounts).map(([name, amount]) => [`${name}_usd`, usdText(amount)]),
  );
}

function costJson(cost: ProviderCost): unknown {
  return {
    provider: cost.provider,
    model: cost.model,
    calls: cost.calls,
    estimated_calls: cost.estimated,
    input_tokens: cost.inputTokens,
    output_tokens: cost.outputTokens,
    cost_usd: usdText(cost.cost),
  };
}

export function reportText(report: Report): string {
  const date = (at: number): string => new Date(at).toISOString();
  const sections = Object.entries(reportFigures(report)).map(([section, amounts]) =>
    tableText([
      [section.replaceAll("_", " "), "USD"],
      ...Object.entries(amounts).map(([name, amount]) => [
        `  ${name.replaceAll("_", " ")}`,
        usdText(amount),
      ]),
    ]),
  );
  return [
    `From ${date(report.period.from)} to before ${date(report.period.to)}; liabilities are those at its end.`,
    ...sections,
    ...processorText(report.processors),
    ...costTableText("provider cost, as its bill should say", report.providers),
    ...costTableText("calls on the callers' own keys, at list prices", report.ownKeys),
  ].join("\n\n");
}

function processorText(processors: readonly ProcessorTotals[]): readonly string[] {
  if (processors.length === 0) return [];
  const names = ["credit", "debt", "fee", "tax", "suspense", "borne", "total"] as const;
  return [
    tableText([
      ["processor", ...names],
      ...processors.map((one) => [
        `  ${one.processor} ${one.kind.replaceAll("_", " ")}`,
        ...names.map((name) => usdText(one[name])),
      ]),
    ]),
  ];
}

function costTableText(title: string, costs: readonly ProviderCost[]): readonly string[] {
  if (costs.length === 0) return [];
  const rows = costs.map((one) => [
    `  ${one.provider}  ${one.model}`,
    String(one.calls),
    String(one.inputTokens),
    String(one.outputTokens),
    usdText(one.cost),
  ]);
  return [tableText([[title, "calls", "tokens in", "tokens out", "USD"], ...rows])];
}

/** The first column to the left, the others to the right. */
export function tableText(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => (row[column] ?? "").length)),
  );
  return rows
    .map((row) =>
      row
        .map((cell, column) =>
          column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0),
        )
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}
