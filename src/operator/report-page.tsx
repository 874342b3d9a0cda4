/** @jsxImportSource hono/jsx */
// Income, costs and liabilities of a period.

import { dayOf } from "../base/day.ts";
import type { Child } from "hono/jsx";
import { minute, number } from "../console/words.ts";
import type { PageFrame } from "../http/layout.tsx";
import { Figures, operatorPage, signed, Table, Wrong } from "./frame.tsx";
import type { ProviderCost } from "./provider-costs.ts";
import type { Report } from "./report.ts";
import { costOf, figuresOf } from "./report-text.ts";
import { type Operator, OPERATOR_PATH } from "./sessions.ts";

const PATH = `${OPERATOR_PATH}/report`;

export interface ReportState {
  readonly asked: { readonly from: string; readonly to: string };
  readonly report?: Report;
  readonly wrong?: string;
}

export function reportPage(operator: Operator, { asked, report, wrong }: ReportState): PageFrame {
  const from = report === undefined ? asked.from : dayOf(report.period.from);
  return operatorPage({
    title: "Report",
    operator,
    path: PATH,
    main: (
      <>
        <form class="line" method="get" action={PATH}>
          <div>
            <label for="from">From the day (UTC)</label>
            <input id="from" name="from" type="date" value={from.slice(0, 10)} />
          </div>
          <div>
            <label for="to">To before the day; empty for now</label>
            <input id="to" name="to" type="date" value={asked.to.slice(0, 10)} />
          </div>
          <button type="submit">Show</button>
        </form>
        <Wrong wrong={wrong} />
        {report === undefined ? null : <Sections report={report} />}
      </>
    ),
  });
}

const TITLES: Readonly<Record<string, string>> = {
  income: "Income",
  grants: "Grants given",
  usage: "Usage, as it was charged",
  adjustments: "Adjustments",
  losses: "Losses",
  liabilities: "Liabilities at the end: what customers still hold",
  owed_to_us: "Owed to the house at the end",
  provider_cost: "Cost at providers",
};

function Sections({ report }: { readonly report: Report }): Child {
  const { from, to } = report.period;
  return (
    <>
      <p class="note">
        From {minute(from)} to before {minute(to)}.
      </p>
      {Object.entries(figuresOf(report)).map(([section, named]) => (
        <>
          <h2>{TITLES[section] ?? section}</h2>
          <Figures
            figures={Object.entries(named).map(([name, amount]) => [
              name.replaceAll("_", " "),
              signed(amount),
            ])}
          />
        </>
      ))}
      <Costs
        title="Cost per provider: what its bill should say"
        none="No call went on the gateway's accounts at providers."
        costs={report.providers}
      />
      <Costs
        title="Calls on customers' own keys, at list prices"
        none="No call went on a customer's own key."
        costs={report.ownKeys}
      />
      <h2>Through the processors</h2>
      {report.passed.length === 0 ? (
        <p>No payment came in or went back.</p>
      ) : (
        <PassedTable report={report} />
      )}
    </>
  );
}

function Costs({
  title,
  none,
  costs,
}: {
  readonly title: string;
  readonly none: string;
  readonly costs: readonly ProviderCost[];
}): Child {
  return (
    <>
      <h2>{title}</h2>
      {costs.length === 0 ? (
        <p>{none}</p>
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
            number(one.calls),
            number(one.inputTokens),
            number(one.outputTokens),
            signed(one.cost),
          ])}
          foot={[
            "All",
            "",
            number(sumOf(costs, "calls")),
            number(sumOf(costs, "inputTokens")),
            number(sumOf(costs, "outputTokens")),
            signed(costOf(costs)),
          ]}
        />
      )}
    </>
  );
}

function sumOf(
  costs: readonly ProviderCost[],
  of: "calls" | "inputTokens" | "outputTokens",
): number {
  return costs.reduce((sum, one) => sum + one[of], 0);
}

const PARTS = ["credit", "debt", "fee", "tax", "suspense", "borne", "total"] as const;

function PassedTable({ report }: { readonly report: Report }): Child {
  return (
    <Table
      label="Money through the processors"
      columns={[
        { name: "Processor and kind" },
        ...PARTS.map((part) => ({ name: part, isNumber: true })),
      ]}
      rows={report.passed.map((one) => [
        `${one.processor}, ${one.kind.replaceAll("_", " ")}`,
        ...PARTS.map((part) => (one[part] === 0n ? "–" : signed(one[part]))),
      ])}
    />
  );
}
