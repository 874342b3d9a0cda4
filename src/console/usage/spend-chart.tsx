/** @jsxImportSource hono/jsx */
// A stacked chart of spend by group, with the same numbers as a table.

import type { Child } from "hono/jsx";
import { NANO_PER_USD } from "../../base/money/money.ts";
import { formatSum, formatUsdShort } from "../../base/text/format.ts";
import { Card } from "../../http/pages/components/content.tsx";
import { Legend, SERIES_MAX, StackedBars } from "../../http/pages/components/stacked-bars.tsx";
import { Table } from "../../http/pages/components/table.tsx";
import type { CostPoint } from "../../usage/usage-stats.ts";
import { bucketLabel, bucketsOf, type Period, periodText } from "./usage-query.ts";

interface SpendChartProps {
  readonly title: string;
  readonly points: readonly CostPoint[];
  readonly period: Period;
  readonly now: number;
  readonly groupName: (group: string) => string;
  /** The choice of the groups, beside the title. */
  readonly choice: Child;
  /** The page of one day. */
  readonly dayHref: (day: string) => string;
}

interface GroupSeries {
  readonly label: string;
  readonly costs: readonly bigint[];
}

export function SpendChart(props: SpendChartProps): Child {
  const { title, points, period, now, groupName, choice, dayHref } = props;
  const buckets = bucketsOf(period, now);
  const groups = groupSeries(points, buckets, groupName);
  const labels = buckets.map((bucket) => bucketLabel(period, bucket));
  const series = groups.map(({ label, costs }) => ({
    label,
    values: costs.map((cost) => Number(cost) / Number(NANO_PER_USD)),
  }));
  const columns = groups.map(({ costs }) => formatSum(costs).parts);
  const isDaily = period.buckets.unit === "day";
  return (
    <Card id="spend-chart" title={title} aside={choice}>
      <Legend series={series} />
      <StackedBars
        label={`${title}, ${periodText(period)}. The table below has the same numbers.`}
        bars={labels}
        series={series}
        format={formatUsdShort}
        hrefs={isDaily ? buckets.map(dayHref) : undefined}
      />
      <details class="chart-table">
        <summary>Show as table</summary>
        <Table
          isStacked
          label={`${title} as a table`}
          columns={[
            { name: isDaily ? "Day" : "Hour", isDate: true },
            ...groups.map(({ label }) => ({ name: label, isNumber: true })),
          ]}
          rows={labels.map((label, index) => [
            isDaily ? <a href={dayHref(buckets[index] ?? "")}>{label}</a> : label,
            ...columns.map((costs) => costs[index]),
          ])}
          isTall={labels.length > 14}
        />
      </details>
    </Card>
  );
}

/** The groups that cost most, and the others as one. */
function groupSeries(
  points: readonly CostPoint[],
  buckets: readonly string[],
  groupName: (group: string) => string,
): readonly GroupSeries[] {
  const positions = new Map(buckets.map((bucket, index) => [bucket, index]));
  const byGroup = new Map<string, { total: bigint; readonly costs: bigint[] }>();
  for (const { bucket, group, cost } of points) {
    const index = positions.get(bucket);
    if (index === undefined) continue;
    let found = byGroup.get(group);
    if (found === undefined) byGroup.set(group, (found = { total: 0n, costs: zeros(buckets) }));
    found.costs[index] = (found.costs[index] ?? 0n) + cost;
    found.total += cost;
  }
  const sorted = [...byGroup].sort(([, one], [, other]) => (one.total < other.total ? 1 : -1));
  const shown = sorted.length <= SERIES_MAX ? sorted : sorted.slice(0, SERIES_MAX - 1);
  const rest = sorted.slice(shown.length);
  const series = shown.map(([group, { costs }]) => ({ label: groupName(group), costs }));
  if (rest.length === 0) return series;
  const others = buckets.map((_, index) =>
    rest.reduce((sum, [, { costs }]) => sum + (costs[index] ?? 0n), 0n),
  );
  return [...series, { label: `${rest.length} others`, costs: others }];
}

function zeros(buckets: readonly string[]): bigint[] {
  return buckets.map(() => 0n);
}
