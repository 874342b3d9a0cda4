/** @jsxImportSource hono/jsx */
// Charts of the report: income and provider cost by day, providers, and the networks that created accounts.

import type { Child } from "hono/jsx";
import { NANO_PER_USD, type Nano } from "../../base/money/money.ts";
import {
  formatCosts,
  formatDay,
  formatInteger,
  formatPercent,
  formatSum,
  formatUsdShort,
} from "../../base/text/format.ts";
import { Card, Tag } from "../../http/pages/components/content.tsx";
import { Legend, StackedBars } from "../../http/pages/components/stacked-bars.tsx";
import { Table } from "../../http/pages/components/table.tsx";
import type {
  DailyFigures,
  IncomeSeries,
  ProviderFigures,
} from "../../verification/daily-figures.ts";

const ERROR_SHARE_WARN = 0.05;

export function DailyCharts({ figures }: { readonly figures: DailyFigures }): Child {
  const { days, income, cost, providers, networks } = figures;
  const series = (...names: readonly IncomeSeries[]) =>
    new Map([...income].filter(([name]) => names.includes(name)));
  return (
    <>
      <div class="side-by-side">
        <DayChart
          id="purchases-by-day"
          title="Purchases and fees by day"
          days={days}
          series={series("purchases", "fees")}
        />
        <DayChart
          id="usage-by-day"
          title="Charged usage by day"
          days={days}
          series={series("paid usage", "promotional usage")}
        />
      </div>
      <DayChart id="cost-by-day" title="Charges by provider and day" days={days} series={cost} />
      <div class="side-by-side">
        <Card id="providers" title="Providers">
          <ProviderTable providers={providers} />
        </Card>
        <Card id="networks" title="New accounts by network">
          {networks.length === 0 ? (
            <p class="muted">No accounts were created in this period.</p>
          ) : (
            <Table
              label="Networks that created most accounts"
              columns={[
                { name: "Network" },
                { name: "Accounts", isNumber: true },
                { name: "Claimed", isNumber: true },
              ]}
              rows={networks.map(({ network, accounts, claimed }) => [
                <code>{network}</code>,
                formatInteger(accounts),
                formatPercent(claimed / Math.max(1, accounts)),
              ])}
            />
          )}
        </Card>
      </div>
    </>
  );
}

interface DayChartProps {
  readonly id: string;
  readonly title: string;
  readonly days: readonly string[];
  readonly series: ReadonlyMap<string, readonly Nano[]>;
}

function DayChart({ id, title, days, series }: DayChartProps): Child {
  const shown = [...series].map(([label, amounts]) => ({
    label,
    amounts,
    values: amounts.map((amount) => Number(amount) / Number(NANO_PER_USD)),
  }));
  const columns = shown.map(({ amounts }) => formatSum(amounts).parts);
  return (
    <Card id={id} title={title} aside={<Legend series={shown} />}>
      {shown.length === 0 ? (
        <p class="muted">Nothing in this period.</p>
      ) : (
        <>
          <StackedBars
            label={`${title}. The table below has the same numbers.`}
            bars={days.map(formatDay)}
            series={shown}
            format={formatUsdShort}
          />
          <details class="chart-table">
            <summary>Show as table</summary>
            <Table
              isStacked
              label={`${title} as a table`}
              columns={[
                { name: "Day", isDate: true },
                ...shown.map(({ label }) => ({ name: label, isNumber: true })),
              ]}
              rows={days.map((day, index) => [day, ...columns.map((amounts) => amounts[index])])}
              isTall
            />
          </details>
        </>
      )}
    </Card>
  );
}

function ProviderTable({ providers }: { readonly providers: readonly ProviderFigures[] }): Child {
  const costs = formatCosts(providers.map(({ cost }) => cost));
  return (
    <Table
      label="Providers in this period"
      columns={[
        { name: "Provider" },
        { name: "Calls", isNumber: true },
        { name: "Failed", isNumber: true },
        { name: "Charged", isNumber: true },
      ]}
      rows={providers.map(({ provider, calls, errors }, index) => {
        const share = errors / Math.max(1, calls);
        return [
          provider,
          formatInteger(calls),
          <Tag tone={share > ERROR_SHARE_WARN ? "danger" : "good"}>{formatPercent(share)}</Tag>,
          costs[index] ?? "",
        ];
      })}
    />
  );
}
