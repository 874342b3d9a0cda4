// A report as text for a terminal and as JSON. Amounts are decimal dollars with all digits of the ledger.

import { type Nano, usdNumber, usdText } from "../../base/money/money.ts";
import { type CsvColumn, writeCsv } from "../../base/text/csv-writer.ts";
import { timestamp } from "../../http/schemas.ts";
import type { DailyFigures } from "../../verification/daily-figures.ts";
import type { ProviderCost } from "../../verification/provider-costs.ts";
import { type ProcessorTotals, profitOf, type Report } from "../../verification/report.ts";

type NamedAmounts = Readonly<Record<string, Nano>>;

/** The amounts of a report by section and name. */
export function reportFigures(report: Report): Readonly<Record<string, NamedAmounts>> {
  const { grants, adjustments, usage, balances } = report;
  const { promo, paid, owed } = usage;
  const profit = profitOf(report);
  return {
    profit: {
      fees: profit.fees,
      promotional_usage: profit.promotionalUsage,
      refund_losses: profit.refundLosses,
      written_off: profit.writtenOff,
      adjustments: profit.adjustments,
      total: profit.total,
    },
    income: { fees: report.feeIncome, usage_paid: paid },
    grants: {
      starting: grants.starting,
      claim: grants.claim,
      operator: grants.operator,
      service_credits: grants.serviceCredits,
      total: grants.starting + grants.claim + grants.operator + grants.serviceCredits,
    },
    usage: { promo, paid, owed, total: promo + paid + owed },
    adjustments: { ...adjustments },
    losses: {
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

function totalCost(costs: readonly ProviderCost[]): Nano {
  return costs.reduce((sum, { cost }) => sum + cost, 0n);
}

export function reportJson(report: Report): unknown {
  return {
    object: "report",
    from: timestamp(report.period.from),
    to: timestamp(report.period.to),
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
    `Period: ${timestamp(report.period.from)} to ${timestamp(report.period.to)} (exclusive). Liabilities are at its end.`,
    ...sections,
    ...processorText(report.processors),
    ...costTableText("provider cost (expected bills)", report.providers),
    ...costTableText("calls with customers' own keys, at list prices", report.ownKeys),
  ].join("\n\n");
}

/** The amounts of a processor, by their names in the report. */
export const PROCESSOR_COLUMNS = [
  "credit",
  "debt",
  "fee",
  "tax",
  "suspense",
  "loss",
  "total",
] as const;

function processorText(processors: readonly ProcessorTotals[]): readonly string[] {
  if (processors.length === 0) return [];
  return [
    tableText([
      ["processor", ...PROCESSOR_COLUMNS],
      ...processors.map((totals) => [
        `  ${totals.processor} ${totals.kind.replaceAll("_", " ")}`,
        ...PROCESSOR_COLUMNS.map((name) => usdText(totals[name])),
      ]),
    ]),
  ];
}

function costTableText(title: string, costs: readonly ProviderCost[]): readonly string[] {
  if (costs.length === 0) return [];
  const rows = costs.map(({ provider, model, calls, inputTokens, outputTokens, cost }) => [
    `  ${provider}  ${model}`,
    String(calls),
    String(inputTokens),
    String(outputTokens),
    usdText(cost),
  ]);
  return [tableText([[title, "calls", "input tokens", "output tokens", "USD"], ...rows])];
}

/** Aligns the first column to the left and the others to the right. */
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

/** The days of a report, one row each. */
export async function dailyCsv({ days, income, cost, profit }: DailyFigures): Promise<string> {
  const amounts = [...income, ...cost].map(([name, values], index): CsvColumn<number> => [
    `${index < income.size ? "" : "charged_"}${name.replaceAll(" ", "_")}_usd`,
    (day) => usdText(values[day] ?? 0n),
  ]);
  return await writeCsv<number>(
    [
      ["day", (day) => days[day] ?? ""],
      ...amounts,
      ["profit_usd", (day) => usdNumber(profit[day]?.total ?? 0n)],
    ],
    days.map((_, day) => day),
  );
}
