// Filters of usage records and of their roll-ups.

import { minIdAt } from "../base/id.ts";
import type { Nano } from "../base/money/money.ts";
import { MINUTE_MS } from "../base/time.ts";
import type { Value } from "../store/db.ts";
import { NAMED_LABELS, type NamedLabel, namedLabelOf } from "./session-labels.ts";
import type { IdRange } from "./usage-of-account.ts";
import type { Outcome, UsageApi } from "./usage.ts";

/** What usage is grouped by, besides time. */
export const DIMENSIONS = ["model", "key", "provider", "api", "label", ...NAMED_LABELS] as const;
export type Dimension = (typeof DIMENSIONS)[number];

export interface UsageFilter {
  readonly from?: number | undefined;
  readonly to?: number | undefined;
  readonly model?: string | undefined;
  readonly keyId?: string | undefined;
  readonly provider?: string | undefined;
  readonly api?: UsageApi | undefined;
  /** `name=value`. */
  readonly label?: string | undefined;
  readonly session?: string | undefined;
  readonly agent?: string | undefined;
  readonly parentAgent?: string | undefined;
  readonly batch?: string | undefined;
}

/** The dimensions that are labels, of which a call can have several. */
export type LabelDimension = "label" | NamedLabel;

export function isLabelDimension(dimension: string | undefined): dimension is LabelDimension {
  return dimension === "label" || NAMED_LABELS.some((name) => name === dimension);
}

/** The label of the caller, or the session, agent, parent agent or batch, that a label belongs to. */
export function labelDimensionOf(label: string): LabelDimension {
  return namedLabelOf(label) ?? "label";
}

/** `name=value` for each filter by a label. */
export function labelsOfFilter(filter: UsageFilter): string[] {
  const { label, session, agent, parentAgent, batch } = filter;
  const ids = Object.entries({ session, agent, parent_agent: parentAgent, batch });
  return [
    ...(label === undefined ? [] : [label]),
    ...ids.flatMap(([name, id]) => (id === undefined ? [] : [`${name}=${id}`])),
  ];
}

/** The roll-ups do not know these. */
export interface UsageListFilter extends UsageFilter {
  readonly outcome?: Outcome | "failed" | undefined;
  readonly status?: number | undefined;
  readonly id?: string | undefined;
  /** A part of the id. */
  readonly idText?: string | undefined;
  readonly minCost?: Nano | undefined;
}

export interface Condition {
  readonly sql: string;
  readonly values: readonly Value[];
}

/** Ids contain the time of the request, and `created_at` is the same time; clocks of tests may differ a little. */
export const ID_SLACK_MS = 10 * MINUTE_MS;

export function joinConditions(conditions: readonly Condition[]): {
  readonly where: string;
  readonly params: Value[];
} {
  return {
    where: conditions.map(({ sql }) => sql).join(" and "),
    params: conditions.flatMap(({ values }) => values),
  };
}

/** The columns that records and roll-ups have in common. */
export function dimensionConditions(filter: UsageFilter): readonly Condition[] {
  return given([
    ["model = ?", filter.model],
    ["key_id = ?", filter.keyId],
    ["provider = ?", filter.provider],
    ["api = ?", filter.api],
  ]);
}

/** Ids contain the time, and a range of them is a range of the primary key, which the times are not. */
export function idRange({ from, to }: Pick<UsageListFilter, "from" | "to">): IdRange {
  return {
    from: from === undefined ? undefined : minIdAt("req", from - ID_SLACK_MS),
    before: to === undefined ? undefined : minIdAt("req", to + ID_SLACK_MS),
  };
}

/** Without those of `idRange`. */
export function recordConditions(filter: UsageListFilter): readonly Condition[] {
  const { from, to, outcome } = filter;
  return [
    ...dimensionConditions(filter),
    ...given([
      ["created_at >= ?", from],
      ["created_at < ?", to],
      ...labelsOfFilter(filter).map(
        (label) => ["labels like ? escape '\\'", `%,${escapeLike(label)},%`] as const,
      ),
      ["status = ?", filter.status],
      ["id = ?", filter.id],
      [
        "id like ? escape '\\'",
        filter.idText === undefined ? undefined : `%${escapeLike(filter.idText.toLowerCase())}%`,
      ],
      ["cost_nano >= ?", filter.minCost],
      ["outcome = ?", outcome === "failed" ? undefined : outcome],
    ]),
    ...(outcome === "failed"
      ? [{ sql: "outcome not in ('completed', 'client_aborted')", values: [] }]
      : []),
  ];
}

function escapeLike(text: string): string {
  return text.replaceAll(/[\\%_]/g, "\\$&");
}

function given(
  conditions: readonly (readonly [sql: string, value: Value | undefined])[],
): readonly Condition[] {
  return conditions.flatMap(([sql, value]) =>
    value === undefined ? [] : [{ sql, values: [value] }],
  );
}
