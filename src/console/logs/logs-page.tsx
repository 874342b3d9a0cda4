/** @jsxImportSource hono/jsx */
// The calls of a workspace, one row per call, newest first.

import type { Child } from "hono/jsx";
import type { Page } from "../../base/pagination.ts";
import { formatCosts, formatInteger, formatMilliseconds } from "../../base/text/format.ts";
import type { RefusedCall } from "../../http/finish-response.ts";
import { Card, EmptyState, Segments, Tag } from "../../http/pages/components/content.tsx";
import { FilterSelect } from "../../http/pages/components/form.tsx";
import { ClockLink, RelativeTime } from "../../http/pages/components/local-time.tsx";
import { type Column, Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { FilterValues } from "../../usage/filter-values.ts";
import { unitsOf } from "../../usage/list-price.ts";
import { USAGE_SORTS, type UsageSort } from "../../usage/usage-list.ts";
import type { Outcome, UsageRecord } from "../../usage/usage.ts";
import { consolePage, workspacePath } from "../console-layout.tsx";
import type { WorkspaceContext, WorkspaceView } from "../require-access.ts";
import { CallSnippets, type SnippetSettings } from "../usage/call-snippets.tsx";
import { FilterForm, hasFilter, pageWith, PeriodActions } from "../usage/filter-form.tsx";
import type { KeyNames } from "../usage/read-usage.ts";
import type { LogQuery, Period } from "../usage/usage-query.ts";
import { RefusedNote, RefusedTable } from "./refused-call-pages.tsx";

export interface LogsPageProps extends WorkspaceView {
  readonly query: LogQuery;
  readonly period: Period;
  readonly calls: Page<UsageRecord>;
  /** False if a sorted list compares only the newest calls of the period. */
  readonly isComplete: boolean;
  /** Set if the page shows the refused calls instead. */
  readonly refused?: Page<RefusedCall>;
  readonly options: FilterValues;
  readonly keyNames: KeyNames;
  readonly snippets: SnippetSettings;
}

const OUTCOME_NAMES: Readonly<Record<Outcome | "failed" | "refused", string>> = {
  completed: "Completed",
  failed: "Failed",
  refused: "Refused",
  client_aborted: "Aborted by the client",
  upstream_error: "Provider error",
  upstream_timeout: "Provider timeout",
  shut_down: "Shut down",
  limit_exceeded: "Reply too long",
  budget_cut: "Credits used up",
  empty_reply: "Empty reply",
  guardrail_denied: "Denied by a guardrail",
};

const SORT_NAMES: Readonly<Record<UsageSort, string>> = {
  cost: "Highest cost",
  latency: "Highest latency",
  tokens: "Most tokens",
};

function sortText(sort: UsageSort, isComplete: boolean): string {
  const scope = isComplete ? "this period" : "the newest 100,000 of this period";
  return `${SORT_NAMES[sort]} first, at most 50 calls of ${scope}.`;
}

export function outcomeName(outcome: Outcome): string {
  return OUTCOME_NAMES[outcome];
}

export function logsPage(props: LogsPageProps): PageLayout {
  const { user, workspace, query, period, calls, refused } = props;
  const path = workspacePath(workspace.accountId, "/logs");
  return consolePage({
    title: "Logs",
    workspace,
    user,
    page: "/logs",
    actions: <PeriodActions path={path} query={query} period={period} />,
    main: (
      <>
        <LogFilters {...props} path={path} />
        {refused !== undefined ? (
          <Card id="calls" title="Refused calls" aside={<OutcomeLinks path={path} query={query} />}>
            <RefusedTable calls={refused.data} keyNames={props.keyNames} workspace={workspace} />
            <Pager path={path} query={query} next={refused.next_cursor} />
          </Card>
        ) : calls.data.length === 0 ? (
          <NoCalls {...props} path={path} />
        ) : (
          <Card id="calls" title="Calls" aside={<OutcomeLinks path={path} query={query} />}>
            <CallTable
              calls={calls.data}
              keyNames={props.keyNames}
              workspace={workspace}
              label="Calls"
              isLong
              sort={{
                current: query.sort,
                href: (sort) => pageWith(path, query, { sort, cursor: undefined }),
              }}
            />
            <Pager path={path} query={query} next={calls.next_cursor} />
          </Card>
        )}
        {refused === undefined ? (
          <p class="note">
            {query.sort === undefined ? "Newest first." : sortText(query.sort, props.isComplete)} A
            record has what was measured and what it cost; prompts and replies are kept only for
            keys with <a href="/docs/prompt-logging">prompt logging</a>. A request that was rejected
            before a provider was called, such as for a missing balance, is among the{" "}
            <a href={pageWith(path, query, { outcome: "refused", cursor: undefined })}>
              refused calls
            </a>
            .
          </p>
        ) : (
          <RefusedNote />
        )}
      </>
    ),
  });
}

function OutcomeLinks({ path, query }: Pick<WithPath, "path" | "query">): Child {
  return (
    <Segments
      label="Outcome"
      links={([undefined, "failed", "refused"] as const).map((outcome) => ({
        href: pageWith(path, query, { outcome, cursor: undefined }),
        label: outcome === undefined ? "All" : OUTCOME_NAMES[outcome],
        isCurrent: query.outcome === outcome,
      }))}
    />
  );
}

type WithPath = LogsPageProps & { readonly path: string };

function LogFilters({ path, query, options, keyNames }: WithPath): Child {
  return (
    <FilterForm
      path={path}
      query={query}
      options={options}
      keyNames={keyNames}
      moreFilters={
        <>
          <div>
            <label for="status">Status</label>
            <input
              id="status"
              name="status"
              inputmode="numeric"
              pattern="[1-5][0-9][0-9]"
              placeholder="200"
              value={query.status}
            />
          </div>
          <div>
            <label for="request">Request id contains</label>
            <input id="request" name="request" placeholder="req_…" value={query.request} />
          </div>
          <div>
            <label for="min_cost">Cost at least (USD)</label>
            <input
              id="min_cost"
              name="min_cost"
              inputmode="decimal"
              placeholder="0.50"
              value={query.min_cost}
            />
          </div>
        </>
      }
    >
      <FilterSelect
        name="outcome"
        label="Outcome"
        allLabel="All outcomes"
        options={Object.entries(OUTCOME_NAMES).map(([value, label]) => ({ value, label }))}
        selected={query.outcome}
      />
      <FilterSelect
        name="sort"
        label="Order"
        allLabel="Newest first"
        options={USAGE_SORTS.map((value) => ({ value, label: SORT_NAMES[value] }))}
        selected={query.sort}
      />
    </FilterForm>
  );
}

function NoCalls({ path, query, calls, snippets }: WithPath): Child {
  const isFiltered = hasFilter(query) || query.cursor !== undefined;
  return (
    <Card id="calls" title="Calls" aside={<OutcomeLinks path={path} query={query} />}>
      <EmptyState title={isFiltered ? "No calls match these filters" : "No calls in this period"}>
        {isFiltered ? (
          <Pager path={path} query={query} next={calls.next_cursor} />
        ) : (
          <>
            <p class="muted">Each call appears here when it ends. Make one:</p>
            <CallSnippets snippets={snippets} />
          </>
        )}
      </EmptyState>
    </Card>
  );
}

function Pager({
  path,
  query,
  next,
}: {
  readonly path: string;
  readonly query: LogQuery;
  readonly next: string | null;
}): Child {
  if (next === null && query.cursor === undefined) return null;
  return (
    <nav class="pager" aria-label="Pages">
      {query.cursor === undefined ? (
        <span />
      ) : (
        <a href={pageWith(path, query, { cursor: undefined })}>Newest calls</a>
      )}
      {next === null ? null : <a href={pageWith(path, query, { cursor: next })}>Older calls</a>}
    </nav>
  );
}

const COLUMNS: readonly Column[] = [
  { name: "Time", isDate: true },
  { name: "Model" },
  { name: "Key", isExtra: true },
  { name: "Status" },
  { name: "Input", isNumber: true, isExtra: true },
  { name: "Cached", isNumber: true, isExtra: true },
  { name: "Output", isNumber: true, isExtra: true },
  { name: "Reasoning", isNumber: true, isExtra: true },
  { name: "Cost", isNumber: true },
  { name: "Latency", isNumber: true, isExtra: true },
  { name: "First token", isNumber: true, isExtra: true },
];
/** The columns of a short table. */
const SHORT_COLUMNS = new Set(["Time", "Model", "Key", "Status", "Cost"]);

interface CallTableProps {
  readonly calls: readonly UsageRecord[];
  readonly keyNames: KeyNames;
  readonly workspace: WorkspaceContext;
  readonly label: string;
  readonly isLong?: boolean;
  readonly isShort?: boolean;
  /** The column headings sort the table. */
  readonly sort?: {
    readonly current: UsageSort | undefined;
    readonly href: (sort: UsageSort | undefined) => string;
  };
}

const SORTED_COLUMNS: Readonly<Record<string, UsageSort>> = {
  Cost: "cost",
  Latency: "latency",
  Input: "tokens",
};

function sortable(column: Column, { sort }: Pick<CallTableProps, "sort">): Column {
  const by = SORTED_COLUMNS[column.name];
  if (sort === undefined || by === undefined) return column;
  const isSorted = sort.current === by;
  return {
    ...column,
    isSorted,
    sortHref: sort.href(isSorted ? undefined : by),
    isExtra: column.isExtra === true && !isSorted,
    ...(by === "tokens" && { title: "Sorts by input and output tokens" }),
  };
}

/** Most calls cost less than a cent. */
const COST_DECIMALS_MIN = 4;

export function CallTable(props: CallTableProps): Child {
  const { calls, keyNames, workspace, label, isLong = false, isShort = false } = props;
  const isShown = ({ name }: Column): boolean => !isShort || SHORT_COLUMNS.has(name);
  const costs = formatCosts(
    calls.map(({ cost }) => cost),
    COST_DECIMALS_MIN,
  );
  return (
    <Table
      label={label}
      columns={COLUMNS.filter(isShown).map((column) => sortable(column, props))}
      rows={calls.map((call, row) =>
        callCells(call, { keyNames, workspace, isShort, cost: costs[row] }).filter((_, index) => {
          const column = COLUMNS[index];
          return column !== undefined && isShown(column);
        }),
      )}
      isLong={isLong}
    />
  );
}

function callCells(
  call: UsageRecord,
  {
    keyNames,
    workspace,
    isShort = false,
    cost,
  }: Pick<CallTableProps, "keyNames" | "workspace" | "isShort"> & {
    readonly cost: string | undefined;
  },
): readonly Child[] {
  const href = `${workspacePath(workspace.accountId, "/logs")}/${call.id}`;
  const count = (tokens: number): string => (tokens === 0 ? "–" : formatInteger(tokens));
  const units = (side: "input" | "output"): string | undefined =>
    call.inputTokens + call.outputTokens === 0 ? unitsOf(call.price, side) : undefined;
  return [
    isShort ? (
      <a href={href}>
        <RelativeTime at={call.createdAt} />
      </a>
    ) : (
      <ClockLink at={call.createdAt} href={href} />
    ),
    <>
      <ModelName id={call.model} />
      {isShort ? null : (
        <span class="type hide-narrow">
          {call.provider} · {call.api}
          {call.stream ? ", streamed" : ""}
        </span>
      )}
    </>,
    <bdi class="line short" title={call.keyId}>
      {keyNames.get(call.keyId) ?? call.keyId}
    </bdi>,
    <OutcomeTag call={call} />,
    units("input") ?? count(call.inputTokens),
    count(call.cacheReadTokens),
    units("output") ?? count(call.outputTokens),
    count(call.reasoningTokens),
    <>
      {cost}
      {call.byok ? <span class="type">own key</span> : null}
    </>,
    formatMilliseconds(call.latencyMs),
    call.firstTokenMs === null ? "–" : formatMilliseconds(call.firstTokenMs),
  ];
}

/** Hides the provider on narrow screens, where a column of equal prefixes would be cut before the names differ. */
export function ModelName({ id }: { readonly id: string }): Child {
  const slash = id.indexOf("/") + 1;
  return (
    <bdi class="line" title={id}>
      <span class="hide-narrow">{id.slice(0, slash)}</span>
      {id.slice(slash)}
    </bdi>
  );
}

export function OutcomeTag({ call }: { readonly call: UsageRecord }): Child {
  if (call.outcome === "completed") return <Tag tone="good">{call.status}</Tag>;
  if (call.outcome === "client_aborted") return <Tag>aborted</Tag>;
  return (
    <span title={OUTCOME_NAMES[call.outcome]}>
      <Tag tone="danger">{call.status < 400 ? "cut off" : call.status}</Tag>
    </span>
  );
}
