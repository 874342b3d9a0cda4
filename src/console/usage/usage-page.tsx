/** @jsxImportSource hono/jsx */
// The usage of a workspace over a period: totals, a chart and a table by model, key, provider, API or label.

import type { Child } from "hono/jsx";
import {
  formatCosts,
  formatInteger,
  formatPercentile,
  formatPercent,
  formatSum,
} from "../../base/text/format.ts";
import {
  Card,
  EmptyState,
  type Figure,
  Figures,
  Segments,
} from "../../http/pages/components/content.tsx";
import { Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { type Dimension, DIMENSIONS, isLabelDimension } from "../../usage/usage-filter.ts";
import { cacheHitShare, type UsageSum } from "../../usage/usage-stats.ts";
import { consolePage, workspacePath } from "../console-layout.tsx";
import { CallTable } from "../logs/logs-page.tsx";
import type { WorkspaceView } from "../require-access.ts";
import { type SnippetSettings, CallSnippets } from "./call-snippets.tsx";
import {
  dayLink,
  FilterForm,
  hasFilter,
  pageWith,
  PeriodActions,
  TimeZoneLink,
} from "./filter-form.tsx";
import { EXPENSIVE_AMONG, type KeyNames, type UsageView } from "./read-usage.ts";
import { SpendChart } from "./spend-chart.tsx";
import { dimensionOf, type Period, periodText, type UsageQuery } from "./usage-query.ts";

const DIMENSION_NAMES: Readonly<Record<Dimension, string>> = {
  model: "Model",
  key: "Key",
  provider: "Provider",
  api: "API",
  label: "Label",
  session: "Session",
  agent: "Agent",
  parent_agent: "Parent agent",
  batch: "Batch",
};
const GROUPS_SHOWN_MAX = 200;

export interface UsagePageProps extends WorkspaceView {
  readonly query: UsageQuery;
  readonly period: Period;
  readonly view: UsageView;
  readonly snippets: SnippetSettings;
  readonly now: number;
}

export function usagePage(props: UsagePageProps): PageLayout {
  const { user, workspace, query, period, view, snippets, now } = props;
  const path = workspacePath(workspace.accountId, "/usage");
  const logs = workspacePath(workspace.accountId, "/logs");
  const dimension = dimensionOf(query);
  const name = groupNamer(dimension, view.keyNames);
  return consolePage({
    title: "Usage",
    workspace,
    user,
    page: "/usage",
    actions: <PeriodActions path={path} query={query} period={period} />,
    main: (
      <>
        <FilterForm path={path} query={query} options={view.options} keyNames={view.keyNames} />
        {view.totals.calls === 0 ? (
          <NoCalls query={query} period={period} snippets={snippets} />
        ) : (
          <>
            <Figures figures={totalFigures(view.totals, view.previous, period)} />
            <SpendChart
              title={`Spend by ${dimensionText(dimension)}`}
              points={view.points}
              period={period}
              now={now}
              groupName={name}
              choice={<GroupLinks path={path} query={query} dimension={dimension} />}
              dayHref={dayLink(path, query)}
            />
            <GroupTable
              view={view}
              dimension={dimension}
              name={name}
              callsHref={(group) => pageWith(logs, query, { ...NO_GROUPS, [dimension]: group })}
            />
            <ExpensiveCalls
              {...props}
              href={pageWith(logs, query, { ...NO_GROUPS, sort: "cost" })}
            />
          </>
        )}
        <div class="row">
          <TimeZoneLink path={path} query={query} />
          <a href={pageWith(logs, query, NO_GROUPS)}>Calls of this period</a>
        </div>
      </>
    ),
  });
}

function ExpensiveCalls({
  view,
  workspace,
  href,
}: UsagePageProps & { readonly href: string }): Child {
  const { records, isComplete } = view.expensive;
  return (
    <Card
      id="expensive"
      title={
        isComplete
          ? "Most expensive calls"
          : `Most expensive of the newest ${formatInteger(EXPENSIVE_AMONG)} calls`
      }
      aside={<a href={href}>All calls by cost</a>}
    >
      <CallTable
        calls={records}
        keyNames={view.keyNames}
        workspace={workspace}
        label="Most expensive calls"
        isShort
      />
    </Card>
  );
}

const NO_LABELS = {
  label: undefined,
  session: undefined,
  agent: undefined,
  parent_agent: undefined,
  batch: undefined,
};
const NO_GROUPS = { by: undefined, unit: undefined };

function dimensionText(dimension: Dimension): string {
  return dimension === "api" ? "API" : DIMENSION_NAMES[dimension].toLowerCase();
}

export function groupNamer(dimension: Dimension, keyNames: KeyNames): (group: string) => string {
  return (group) => (dimension === "key" ? (keyNames.get(group) ?? group) : group);
}

function NoCalls({
  query,
  period,
  snippets,
}: Pick<UsagePageProps, "query" | "period" | "snippets">): Child {
  const isFiltered = hasFilter({ ...query, from: undefined, to: undefined });
  return (
    <Card id="no-calls" title="Usage">
      <EmptyState title={isFiltered ? "No calls match these filters" : noCallsText(period)}>
        <p class="muted">
          Spend, tokens and latency by model, key, provider, API, label and session appear here
          after a call.
        </p>
        {isFiltered ? null : <CallSnippets snippets={snippets} />}
      </EmptyState>
    </Card>
  );
}

function noCallsText(period: Period): string {
  const text = periodText(period);
  if (period.range === "yesterday") return "No calls yesterday";
  return period.range === undefined ? `No calls, ${text}` : `No calls in the last ${text}`;
}

function GroupLinks({
  path,
  query,
  dimension,
}: {
  readonly path: string;
  readonly query: UsageQuery;
  readonly dimension: Dimension;
}): Child {
  return (
    <Segments
      label="Group by"
      links={DIMENSIONS.filter((by) => by !== "parent_agent" || by === dimension).map((by) => ({
        href: pageWith(path, isLabelDimension(by) ? { ...query, ...NO_LABELS } : query, {
          by,
          ...(isLabelDimension(by) ? { [by]: query[by] } : {}),
        }),
        label: DIMENSION_NAMES[by],
        isCurrent: by === dimension,
      }))}
    />
  );
}

function totalFigures(
  totals: UsageSum,
  previous: UsageSum | undefined,
  period: Period,
): readonly Figure[] {
  return [
    {
      label: `Spend, ${periodText(period)}`,
      value: formatSum([], totals.cost).total,
      remark: changeText(Number(totals.cost), previous && Number(previous.cost)),
    },
    {
      label: "Calls",
      value: formatInteger(totals.calls),
      remark: `${formatPercent(totals.errors / Math.max(1, totals.calls))} failed`,
    },
    {
      label: "Tokens",
      value: formatTokens(totals.inputTokens + totals.outputTokens),
      remark: `${formatPercent(cacheHitShare(totals))} of input cached`,
    },
    latencyFigure("Latency, p50", totals.latencyMs),
    latencyFigure("First token, p50", totals.firstTokenMs),
  ];
}

function latencyFigure(label: string, latency: UsageSum["latencyMs"]): Figure {
  return latency === undefined
    ? { label, value: "–", remark: "no calls measured" }
    : {
        label,
        value: formatPercentile(latency.p50),
        remark: `p95 ${formatPercentile(latency.p95)}`,
      };
}

export function changeText(now: number, before: number | undefined): string {
  if (before === undefined || before === 0) return "nothing in the period before";
  const change = (now - before) / before;
  const sign = change < 0 ? "−" : "+";
  return `${sign}${formatPercent(Math.abs(change))} from the period before`;
}

/** `1.2M`. */
function formatTokens(count: number): string {
  return count.toLocaleString("en-US", { notation: "compact", maximumFractionDigits: 1 });
}

function GroupTable({
  view,
  dimension,
  name,
  callsHref,
}: {
  readonly view: UsageView;
  readonly dimension: Dimension;
  readonly name: (group: string) => string;
  readonly callsHref: (group: string) => string;
}): Child {
  const { groups, totals } = view;
  const share = (sum: UsageSum): string =>
    totals.cost === 0n ? "–" : formatPercent(Number(sum.cost) / Number(totals.cost));
  const shown = groups.slice(0, GROUPS_SHOWN_MAX);
  const { parts: costs } = formatSum(
    groups.map(({ cost }) => cost),
    totals.cost,
  );
  const callCosts = formatCosts(shown.map(({ cost, calls }) => cost / BigInt(Math.max(1, calls))));
  return (
    <Card
      id="groups"
      title={`By ${dimensionText(dimension)}`}
      aside={
        groups.length <= GROUPS_SHOWN_MAX ? null : (
          <span class="note">The {GROUPS_SHOWN_MAX} that cost most; the export has all.</span>
        )
      }
    >
      <Table
        label={`Usage by ${dimensionText(dimension)}`}
        columns={[
          { name: DIMENSION_NAMES[dimension] },
          { name: "Calls", isNumber: true },
          { name: "Failed", isNumber: true, isExtra: true },
          { name: "Input", isNumber: true, isExtra: true },
          { name: "Cached", isNumber: true, isExtra: true },
          { name: "Output", isNumber: true, isExtra: true },
          { name: "p50", isNumber: true, isExtra: true },
          { name: "Per call", isNumber: true, isExtra: true },
          { name: "Cost", isNumber: true },
          { name: "Share", isNumber: true, isExtra: true },
        ]}
        rows={shown.map((sum, index) => [
          <a class="name" href={callsHref(sum.group)} title={`Calls of ${sum.group}`}>
            <bdi>{name(sum.group)}</bdi>
          </a>,
          formatInteger(sum.calls),
          formatInteger(sum.errors),
          formatInteger(sum.inputTokens),
          formatPercent(cacheHitShare(sum)),
          formatInteger(sum.outputTokens),
          sum.latencyMs === undefined ? "–" : formatPercentile(sum.latencyMs.p50),
          callCosts[index],
          costs[index],
          share(sum),
        ])}
      />
    </Card>
  );
}
