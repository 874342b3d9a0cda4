/** @jsxImportSource hono/jsx */
// The filters of the usage and log pages: a form that puts them into the address, and the choice of a period.

import type { Child } from "hono/jsx";
import { Segments } from "../../http/pages/components/content.tsx";
import { FilterSelect } from "../../http/pages/components/form.tsx";
import type { FilterValues } from "../../usage/filter-values.ts";
import { USAGE_APIS } from "../../usage/usage.ts";
import { withQuery } from "../confirm.tsx";
import type { KeyNames } from "./read-usage.ts";
import { type Period, RANGE_NAMES, type UsageQuery } from "./usage-query.ts";

type Query = UsageQuery & Readonly<Record<string, string | number | undefined>>;

/** The address of a page with some of its parameters changed. */
export function pageWith(path: string, query: Query, change: Query): string {
  return withQuery(
    path,
    Object.fromEntries(
      Object.entries({ ...query, ...change }).map(([name, value]) => [name, value?.toString()]),
    ),
  );
}

interface FilterProps {
  readonly path: string;
  readonly query: Query;
  readonly period: Period;
}

export function RangeLinks({ path, query, period }: FilterProps): Child {
  return (
    <Segments
      label="Period"
      links={RANGE_NAMES.map((range) => ({
        href: pageWith(path, query, { range, from: undefined, to: undefined, cursor: undefined }),
        label: range === "yesterday" ? "Yesterday" : range,
        isCurrent: period.range === range,
      }))}
    />
  );
}

/** Links to the periods, and to a CSV file of what the page shows. */
export function PeriodActions({ path, query, period }: FilterProps): Child {
  return (
    <>
      <RangeLinks path={path} query={query} period={period} />
      <a class="button secondary" href={pageWith(`${path}.csv`, query, {})}>
        Export CSV
      </a>
    </>
  );
}

/** The usage of one day. */
export function dayLink(path: string, query: Query): (day: string) => string {
  return (day) => pageWith(path, query, { range: undefined, from: day, to: day });
}

/** A switch between UTC and the time zone of the browser, which only a script knows. */
export function TimeZoneLink({ path, query }: Omit<FilterProps, "period">): Child {
  if (query.tz !== undefined && query.tz !== "UTC")
    return (
      <p class="note">
        Times are in {query.tz}. <a href={pageWith(path, query, { tz: "UTC" })}>Show UTC</a>
      </p>
    );
  return (
    <p class="note">
      Times are in UTC.{" "}
      <a href={pageWith(path, query, { tz: undefined })} data-local-time-zone="" hidden>
        Show local time
      </a>
    </p>
  );
}

interface FilterFormProps extends Omit<FilterProps, "period"> {
  readonly options: FilterValues;
  readonly keyNames: KeyNames;
  /** Filters of this page only, beside the model and the key. */
  readonly children?: Child;
  /** Rarely used filters of this page only. */
  readonly moreFilters?: Child;
}

export function FilterForm(props: FilterFormProps): Child {
  const { path, query, options, keyNames, children, moreFilters } = props;
  const kept = { range: query.range, tz: query.tz, by: query.by, unit: query.unit };
  return (
    <details class="filter-box" open={hasFilter(query)}>
      <summary>Filters</summary>
      <form class="inline filters" method="get" action={path}>
        {Object.entries(kept).map(([name, value]) =>
          value === undefined ? null : <input type="hidden" name={name} value={value} />,
        )}
        <FilterSelect
          name="model"
          label="Model"
          allLabel="All models"
          options={options.models}
          selected={query.model}
        />
        <FilterSelect
          name="key"
          label="Key"
          allLabel="All keys"
          options={options.keys.map((id) => ({ value: id, label: keyNames.get(id) ?? id }))}
          selected={query.key}
        />
        {children}
        <DayField name="from" label="First day" value={query.from} />
        <DayField name="to" label="Last day" value={query.to} />
        <button type="submit" class="secondary">
          Apply
        </button>
        {hasFilter(query) ? (
          <a class="button secondary" href={pageWith(path, kept, {})}>
            Clear
          </a>
        ) : null}
        <MoreFilters query={query} options={options}>
          {moreFilters}
        </MoreFilters>
      </form>
    </details>
  );
}

function MoreFilters({
  query,
  options,
  children,
}: Pick<FilterFormProps, "query" | "options" | "children">): Child {
  return (
    <details class="more-filters" open={MORE_NAMES.some((name) => query[name] !== undefined)}>
      <summary>More filters</summary>
      <div class="inline filters">
        <FilterSelect
          name="provider"
          label="Provider"
          allLabel="All providers"
          options={options.providers}
          selected={query.provider}
        />
        <FilterSelect
          name="api"
          label="API"
          allLabel="All APIs"
          options={USAGE_APIS}
          selected={query.api}
        />
        {options.labels.length === 0 ? null : (
          <FilterSelect
            name="label"
            label="Label"
            allLabel="All labels"
            options={options.labels}
            selected={query.label}
          />
        )}
        <TextField name="session" label="Session" value={query.session} />
        <TextField name="agent" label="Agent" value={query.agent} />
        <TextField name="batch" label="Batch" value={query.batch} />
        {query.parent_agent === undefined ? null : (
          <TextField name="parent_agent" label="Parent agent" value={query.parent_agent} />
        )}
        {children}
      </div>
    </details>
  );
}

interface FieldProps {
  readonly name: string;
  readonly label: string;
  readonly value: string | undefined;
}

function TextField({ name, label, value }: FieldProps): Child {
  return (
    <div>
      <label for={name}>{label}</label>
      <input id={name} name={name} value={value} />
    </div>
  );
}

function DayField({ name, label, value }: FieldProps): Child {
  return (
    <div>
      <label for={name}>{label}</label>
      <input id={name} name={name} type="date" value={value} />
    </div>
  );
}

const MORE_NAMES = [
  "provider",
  "api",
  "label",
  "session",
  "agent",
  "parent_agent",
  "batch",
  "status",
  "request",
  "min_cost",
];
const KEPT_NAMES = new Set(["range", "tz", "by", "unit", "cursor", "sort"]);

export function hasFilter(query: Query): boolean {
  return Object.entries(query).some(
    ([name, value]) => value !== undefined && !KEPT_NAMES.has(name),
  );
}
