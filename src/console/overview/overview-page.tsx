/** @jsxImportSource hono/jsx */
// The overview of a workspace: what needs attention, balance, spend, latency, the latest calls and keys.

import type { Child } from "hono/jsx";
import {
  formatInteger,
  formatPercentile,
  formatPercent,
  formatCosts,
  formatSum,
  formatUsd,
  pluralize,
} from "../../base/text/format.ts";
import {
  Card,
  EmptyState,
  type Figure,
  Figures,
  Segments,
  UsageBar,
} from "../../http/pages/components/content.tsx";
import { Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import { cacheHitShare } from "../../usage/usage-stats.ts";
import { consolePage, workspacePath } from "../console-layout.tsx";
import { keyPath } from "../keys/keys-page.tsx";
import { CallTable } from "../logs/logs-page.tsx";
import type { WorkspaceContext, WorkspaceView } from "../require-access.ts";
import { CallSnippets, type SnippetSettings } from "../usage/call-snippets.tsx";
import { dayLink, pageWith, RangeLinks } from "../usage/filter-form.tsx";
import { keyName } from "../usage/read-usage.ts";
import { SpendChart } from "../usage/spend-chart.tsx";
import { changeText, groupNamer } from "../usage/usage-page.tsx";
import { type Period, periodText, type UsageQuery } from "../usage/usage-query.ts";
import { Attention } from "./attention.tsx";
import type { Overview } from "./read-overview.ts";

const KEYS_SHOWN = 6;
/** A longer forecast is too uncertain to show. */
const FORECAST_DAYS_MAX = 365;

export interface OverviewPageProps extends WorkspaceView {
  readonly overview: Overview;
  readonly query: UsageQuery;
  readonly period: Period;
  readonly snippets: SnippetSettings;
  readonly now: number;
}

export function overviewPage(props: OverviewPageProps): PageLayout {
  const { user, workspace, overview, query, period, snippets, now } = props;
  const { usage } = overview;
  const path = workspacePath(workspace.accountId, "");
  const dimension = query.by === "key" ? "key" : "model";
  return consolePage({
    title: "Overview",
    workspace,
    user,
    page: "",
    actions: (
      <>
        <RangeLinks path={path} query={query} period={period} />
        <a class="button secondary" href={workspacePath(workspace.accountId, "/keys")}>
          Create key
        </a>
        <a class="button" href={workspacePath(workspace.accountId, "/billing")}>
          Buy credits
        </a>
      </>
    ),
    main: (
      <>
        <Attention workspace={workspace} overview={overview} now={now} />
        <Figures figures={overviewFigures(overview, period)} />
        {usage.totals.calls === 0 ? null : (
          <>
            <SpendChart
              title={`Spend by ${dimension}`}
              points={usage.points}
              period={period}
              now={now}
              groupName={groupNamer(dimension, usage.keyNames)}
              choice={<DimensionLinks path={path} query={query} dimension={dimension} />}
              dayHref={dayLink(workspacePath(workspace.accountId, "/usage"), query)}
            />
          </>
        )}
        <div class="columns">
          <LatestCalls workspace={workspace} overview={overview} />
          <Keys workspace={workspace} overview={overview} />
        </div>
        <Card
          id="snippets"
          title="Call a model"
          aside={<a href={workspacePath(workspace.accountId, "/playground")}>Try it here</a>}
        >
          <p class="note">
            <code>POSTERN_API_KEY</code> is a key of this workspace.{" "}
            <a href={workspacePath(workspace.accountId, "/keys")}>Create a key</a>
          </p>
          <CallSnippets snippets={snippets} />
        </Card>
      </>
    ),
  });
}

function DimensionLinks({
  path,
  query,
  dimension,
}: {
  readonly path: string;
  readonly query: UsageQuery;
  readonly dimension: "model" | "key";
}): Child {
  return (
    <Segments
      label="Group the chart by"
      links={[
        {
          href: pageWith(path, query, { by: undefined }),
          label: "Model",
          isCurrent: dimension === "model",
        },
        {
          href: pageWith(path, query, { by: "key" }),
          label: "Key",
          isCurrent: dimension === "key",
        },
      ]}
    />
  );
}

function overviewFigures(overview: Overview, period: Period): readonly Figure[] {
  const { balance, usage } = overview;
  const { totals, previous } = usage;
  return [
    {
      label: "Balance",
      value: formatUsd(balance.promo + balance.paid),
      remark: balanceRemark(overview),
    },
    {
      label: `Spend, ${periodText(period)}`,
      value: formatSum([], totals.cost).total,
      remark: changeText(Number(totals.cost), previous && Number(previous.cost)),
    },
    {
      label: "Calls",
      value: formatInteger(totals.calls),
      remark:
        totals.calls === 0 ? "none yet" : `${formatPercent(totals.errors / totals.calls)} failed`,
    },
    latencyFigure(totals),
  ];
}

/** Streams are judged by their first token. */
function latencyFigure(totals: Overview["usage"]["totals"]): Figure {
  const { latencyMs, firstTokenMs } = totals;
  const measured = firstTokenMs ?? latencyMs;
  if (measured === undefined) return { label: "Latency, p50", value: "–", remark: "no calls" };
  return {
    label: firstTokenMs === undefined ? "Latency, p50" : "First token, p50",
    value: formatPercentile(measured.p50),
    remark: `p95 ${formatPercentile(measured.p95)}, ${formatPercent(cacheHitShare(totals))} of input cached`,
  };
}

function balanceRemark({ balance, usage }: Overview): string {
  const held = balance.held === 0n ? "" : `, ${formatUsd(balance.held)} on hold`;
  const promo = balance.promo === 0n ? "" : `${formatUsd(balance.promo)} of it promotional`;
  if (usage.dailyCost === 0n) return `${promo === "" ? "no spend this week" : promo}${held}`;
  if (balance.promo + balance.paid <= 0n) return `used up${held}`;
  const days = Number((balance.promo + balance.paid) / usage.dailyCost);
  if (days < 1) return `less than a day at this rate${held}`;
  if (days > FORECAST_DAYS_MAX) return `more than a year at this rate${held}`;
  return `about ${pluralize(days, "day")} at this rate${held}`;
}

interface PanelProps {
  readonly workspace: WorkspaceContext;
  readonly overview: Overview;
}

function LatestCalls({ workspace, overview: { usage } }: PanelProps): Child {
  return (
    <Card
      id="latest"
      title="Latest calls"
      aside={<a href={workspacePath(workspace.accountId, "/logs")}>All logs</a>}
    >
      {usage.latest.length === 0 ? (
        <EmptyState title="No calls yet">
          <p class="muted">
            After the first call, this page shows spend by day, latency and errors. Make one with
            the code below.
          </p>
        </EmptyState>
      ) : (
        <CallTable
          calls={usage.latest}
          keyNames={usage.keyNames}
          workspace={workspace}
          label="Latest calls"
          isShort
        />
      )}
    </Card>
  );
}

function Keys({ workspace, overview }: PanelProps): Child {
  const keys = overview.keys
    .toSorted((one, other) => (one.spent < other.spent ? 1 : -1))
    .slice(0, KEYS_SHOWN);
  const spends = formatCosts(keys.map(({ spent }) => spent));
  return (
    <Card
      id="keys"
      title="Keys"
      aside={
        <span>
          <a href={workspacePath(workspace.accountId, "/keys")}>
            {pluralize(overview.liveKeys, "active key")}
          </a>
          {" · "}
          <a href={workspacePath(workspace.accountId, "/members")}>
            {pluralize(overview.members, "member")}
          </a>
        </span>
      }
    >
      {keys.length === 0 ? (
        <p class="muted">
          No active keys. <a href={workspacePath(workspace.accountId, "/keys")}>Create a key</a>
        </p>
      ) : (
        <Table
          label="Keys by spend"
          columns={[
            { name: "Name" },
            { name: "Limit", isExtra: true },
            { name: "Spend", isNumber: true },
          ]}
          rows={keys.map((key, index) => [
            <a class="line" href={keyPath(workspace.accountId, key.id)} title={key.id}>
              <bdi>{keyName(key)}</bdi>
            </a>,
            key.limit === null ? (
              <span class="muted">none</span>
            ) : (
              <UsageBar label={`Limit of ${keyName(key)}`} used={key.spent} limit={key.limit} />
            ),
            <>
              {spends[index]}
              {key.limit === null ? null : (
                <span class="type">
                  of {formatUsd(key.limit)}
                  {key.limitWindow === null ? "" : ` a ${key.limitWindow}`}
                </span>
              )}
            </>,
          ])}
        />
      )}
    </Card>
  );
}
