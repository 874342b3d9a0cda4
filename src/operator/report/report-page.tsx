/** @jsxImportSource hono/jsx */
// The report page: income, costs and liabilities of a period.

import type { Child } from "hono/jsx";
import {
  capitalize,
  formatCosts,
  formatDateTime,
  formatInteger,
  formatSum,
} from "../../base/text/format.ts";
import { utcDay } from "../../base/time.ts";
import { Amounts, Card, Figures } from "../../http/pages/components/content.tsx";
import { ErrorMessage } from "../../http/pages/components/form.tsx";
import { Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { type Operator } from "../../http/route.ts";
import type { DailyFigures } from "../../verification/daily-figures.ts";
import type { ProviderCost } from "../../verification/provider-costs.ts";
import { profitOf, type Report } from "../../verification/report.ts";
import { operatorPage } from "../operator-layout.tsx";
import { OPERATOR_PATH } from "../sign-in/operator-sessions.ts";
import { DailyCharts } from "./daily-charts.tsx";
import { PROCESSOR_COLUMNS, reportFigures } from "./report-output.ts";

const PATH = `${OPERATOR_PATH}/report`;

export interface ReportPageProps {
  readonly periodQuery: { readonly from: string; readonly to: string };
  readonly report?: Report;
  readonly figures?: DailyFigures;
  readonly errorMessage?: string;
}

export function reportPage(
  operator: Operator,
  { periodQuery, report, figures, errorMessage }: ReportPageProps,
): PageLayout {
  const from = report === undefined ? periodQuery.from : utcDay(report.period.from);
  return operatorPage({
    title: "Report",
    operator,
    path: PATH,
    main: (
      <>
        <form class="inline" method="get" action={PATH}>
          <div>
            <label for="from">From (UTC)</label>
            <input id="from" name="from" type="date" value={from.slice(0, 10)} />
          </div>
          <div>
            <label for="to">To, exclusive (UTC)</label>
            <input id="to" name="to" type="date" value={periodQuery.to.slice(0, 10)} />
          </div>
          <button type="submit">Show report</button>
        </form>
        <ErrorMessage message={errorMessage} />
        {report === undefined ? null : (
          <p class="note">
            {formatDateTime(report.period.from)} to {formatDateTime(report.period.to)} (exclusive).{" "}
            <a href={`${PATH}.csv?${new URLSearchParams(periodQuery).toString()}`}>
              Export CSV by day
            </a>
          </p>
        )}
        {report === undefined || figures === undefined ? null : (
          <ProfitFigures report={report} figures={figures} />
        )}
        {figures === undefined ? null : <DailyCharts figures={figures} />}
        {report === undefined ? null : <ReportSections report={report} />}
      </>
    ),
  });
}

/** The last day is today, unless the period is in the past. */
function ProfitFigures({
  report,
  figures,
}: {
  readonly report: Report;
  readonly figures: DailyFigures;
}): Child {
  const profit = profitOf(report);
  const last = figures.profit.at(-1);
  const { parts, total } = formatSum([
    profit.fees,
    profit.promotionalUsage,
    profit.refundLosses + profit.writtenOff,
    profit.adjustments,
  ]);
  const [fees, promotional, losses, given] = parts;
  return (
    <Figures
      figures={[
        {
          label: `Profit on ${figures.days.at(-1) ?? "the last day"}`,
          value: formatCosts([last?.total ?? 0n, profit.total])[0],
          remark: "so far, in UTC",
        },
        { label: "Profit of the period", value: total, remark: "the sum of these" },
        { label: "Fees", value: fees, remark: "of purchases, less returned" },
        { label: "Promotional credit", value: promotional, remark: "spent by calls" },
        { label: "Losses", value: losses, remark: "refunds and write-offs" },
        { label: "Credit given", value: given, remark: "adjustments, less taken" },
      ]}
    />
  );
}

const SECTION_TITLES: Readonly<Record<string, string>> = {
  profit: "Profit",
  income: "Income",
  grants: "Grants",
  usage: "Charged usage",
  adjustments: "Adjustments",
  losses: "Losses",
  liabilities: "Liabilities at the end",
  owed_to_us: "Receivables at the end",
  provider_cost: "Provider cost",
};

const AMOUNT_NAMES: Readonly<Record<string, string>> = {
  promo: "promotional",
  own_keys: "with customers' own keys",
};

function ReportSections({ report }: { readonly report: Report }): Child {
  return (
    <>
      <div class="side-by-side small">
        {Object.entries(reportFigures(report)).map(([section, amounts]) => {
          const shown = formatCosts(Object.values(amounts));
          return (
            <Card id={section} title={SECTION_TITLES[section] ?? section}>
              <Amounts
                items={Object.keys(amounts).map((name, index) => [
                  AMOUNT_NAMES[name] ?? name.replaceAll("_", " "),
                  shown[index],
                ])}
              />
            </Card>
          );
        })}
      </div>
      <ProviderCostTable
        id="costs"
        title="Provider cost by model (expected bills)"
        emptyText="No calls with the gateway's provider accounts."
        costs={report.providers}
      />
      <ProviderCostTable
        id="own-key-costs"
        title="Calls with customers' own provider keys, at list prices"
        emptyText="No calls with customers' own provider keys."
        costs={report.ownKeys}
      />
      <Card id="processors" title="Payment processors">
        {report.processors.length === 0 ? (
          <p class="muted">No payments or refunds.</p>
        ) : (
          <ProcessorTable report={report} />
        )}
      </Card>
    </>
  );
}

function ProviderCostTable({
  id,
  title,
  emptyText,
  costs,
}: {
  readonly id: string;
  readonly title: string;
  readonly emptyText: string;
  readonly costs: readonly ProviderCost[];
}): Child {
  const sum = formatSum(costs.map(({ cost }) => cost));
  return (
    <Card id={id} title={title}>
      {costs.length === 0 ? (
        <p class="muted">{emptyText}</p>
      ) : (
        <Table
          label={title}
          columns={[
            { name: "Model" },
            { name: "Provider", isExtra: true },
            { name: "Calls", isNumber: true },
            { name: "Input tokens", isNumber: true, isExtra: true },
            { name: "Output tokens", isNumber: true, isExtra: true },
            { name: "Cost", isNumber: true },
          ]}
          rows={costs.map((cost, index) => [
            cost.model,
            cost.provider,
            formatInteger(cost.calls),
            formatInteger(cost.inputTokens),
            formatInteger(cost.outputTokens),
            sum.parts[index],
          ])}
          footer={[
            "Total",
            "",
            formatInteger(sumField(costs, "calls")),
            formatInteger(sumField(costs, "inputTokens")),
            formatInteger(sumField(costs, "outputTokens")),
            sum.total,
          ]}
        />
      )}
    </Card>
  );
}

function sumField(
  costs: readonly ProviderCost[],
  field: "calls" | "inputTokens" | "outputTokens",
): number {
  return costs.reduce((sum, cost) => sum + cost[field], 0);
}

function ProcessorTable({ report }: { readonly report: Report }): Child {
  const columns = PROCESSOR_COLUMNS.map((name) => {
    const shown = formatCosts(report.processors.map((totals) => totals[name]));
    return report.processors.map((totals, index) => (totals[name] === 0n ? "–" : shown[index]));
  });
  return (
    <Table
      label="Payments by processor"
      isStacked
      columns={[
        { name: "Processor and type" },
        ...PROCESSOR_COLUMNS.map((name) => ({ name: capitalize(name), isNumber: true })),
      ]}
      rows={report.processors.map((totals, index) => [
        `${totals.processor}, ${totals.kind.replaceAll("_", " ")}`,
        ...columns.map((column) => column[index]),
      ])}
    />
  );
}
