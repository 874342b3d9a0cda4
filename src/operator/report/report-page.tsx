/** @jsxImportSource hono/jsx */
// Income, costs and liabilities of a period.

import { utcDay } from "../../base/time.ts";
import type { Child } from "hono/jsx";
import { formatDateTime, formatInteger, formatUsd } from "../../base/format.ts";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { DefinitionList, operatorPage, Table, ErrorMessage } from "../operator-layout.tsx";
import type { ProviderCost } from "./provider-costs.ts";
import type { Report } from "./report.ts";
import { totalCost, reportFigures } from "./report-output.ts";
import { type Operator, OPERATOR_PATH } from "../sign-in/operator-sessions.ts";

const PATH = `${OPERATOR_PATH}/report`;

export interface ReportPageProps {
  readonly periodQuery: { readonly from: string; readonly to: string };
  readonly report?: Report;
  readonly errorMessage?: string;
}

export function reportPage(
  operator: Operator,
  { periodQuery, report, errorMessage }: ReportPageProps,
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
            <label for="from">From the day (UTC)</label>
            <input id="from" name="from" type="date" value={from.slice(0, 10)} />
          </div>
          <div>
            <label for="to">To before the day; empty for now</label>
            <input id="to" name="to" type="date" value={periodQuery.to.slice(0, 10)} />
          </div>
          <button type="submit">Show</button>
        </form>
        <ErrorMessage message={errorMessage} />
        {report === undefined ? null : <ReportSections report={report} />}
      </>
    ),
  });
}

const SECTION_TITLES: Readonly<Record<string, string>> = {
  income: "Income",
  grants: "Grants given",
  usage: "Usage, as it was charged",
  adjustments: "Adjustments",
  losses: "Losses",
  liabilities: "Liabilities at the end: what customers still hold",
  owed_to_us: "Owed to the house at the end",
  provider_cost: "Cost at providers",
};

function ReportSections({ report }: { readonly report: Report }): Child {
  const { from, to } = report.period;
  return (
    <>
      <p class="note">
        From {formatDateTime(from)} to before {formatDateTime(to)}.
      </p>
      {Object.entries(reportFigures(report)).map(([section, amounts]) => (
        <>
          <h2>{SECTION_TITLES[section] ?? section}</h2>
          <DefinitionList
            figures={Object.entries(amounts).map(([name, amount]) => [
              name.replaceAll("_", " "),
              formatUsd(amount),
            ])}
          />
        </>
      ))}
      <ProviderCostTable
        title="Cost per provider: what its bill should say"
        emptyText="No call went on the gateway's accounts at providers."
        costs={report.providers}
      />
      <ProviderCostTable
        title="Calls on customers' own keys, at list prices"
        emptyText="No call went on a customer's own key."
        costs={report.ownKeys}
      />
      <h2>Through the processors</h2>
      {report.processors.length === 0 ? (
        <p>No payment came in or went back.</p>
      ) : (
        <ProcessorTable report={report} />
      )}
    </>
  );
}

function ProviderCostTable({
  title,
  emptyText,
  costs,
}: {
  readonly title: string;
  readonly emptyText: string;
  readonly costs: readonly ProviderCost[];
}): Child {
  return (
    <>
      <h2>{title}</h2>
      {costs.length === 0 ? (
        <p>{emptyText}</p>
      ) : (
        <Table
          label={title}
          columns={[
            { name: "Model" },
            { name: "Provider" },
            { name: "Calls", isNumber: true },
            { name: "Tokens in", isNumber: true },
            { name: "Tokens out", isNumber: true },
            { name: "Cost", isNumber: true },
          ]}
          rows={costs.map((one) => [
            one.model,
            one.provider,
            formatInteger(one.calls),
            formatInteger(one.inputTokens),
            formatInteger(one.outputTokens),
            formatUsd(one.cost),
          ])}
          footer={[
            "All",
            "",
            formatInteger(sumField(costs, "calls")),
            formatInteger(sumField(costs, "inputTokens")),
            formatInteger(sumField(costs, "outputTokens")),
            formatUsd(totalCost(costs)),
          ]}
        />
      )}
    </>
  );
}

function sumField(
  costs: readonly ProviderCost[],
  of: "calls" | "inputTokens" | "outputTokens",
): number {
  return costs.reduce((sum, one) => sum + one[of], 0);
}

const TOTAL_COLUMNS = ["credit", "debt", "fee", "tax", "suspense", "borne", "total"] as const;

function ProcessorTable({ report }: { readonly report: Report }): Child {
  return (
    <Table
      label="Money through the processors"
      columns={[
        { name: "Processor and kind" },
        ...TOTAL_COLUMNS.map((part) => ({ name: part, isNumber: true })),
      ]}
      rows={report.processors.map((one) => [
        `${one.processor}, ${one.kind.replaceAll("_", " ")}`,
        ...TOTAL_COLUMNS.map((part) => (one[part] === 0n ? "–" : formatUsd(one[part]))),
      ])}
    />
  );
}
