// Cursor pagination by id, newest first: pages stay stable while new records are added.

export const PAGE_LIMIT_MAX = 100;
export const PAGE_LIMIT_DEFAULT = 20;

export interface PageRequest {
  readonly limit: number;
  readonly cursor?: string | undefined;
}

export interface Page<T> {
  readonly object: "list";
  readonly data: readonly T[];
  readonly has_more: boolean;
  readonly next_cursor: string | null;
}

/** Sorts after every id with this prefix, in the collation of either database. */
export function maxId(prefix: string): string {
  return `${prefix}_${"z".repeat(27)}`;
}

/** Takes up to `limit + 1` rows: the extra row only shows that there are more. */
export function toPage<T extends { readonly id: string }>(
  rows: readonly T[],
  limit: number,
): Page<T> {
  const data = rows.slice(0, limit);
  const hasMore = rows.length > limit;
  return {
    object: "list",
    data,
    has_more: hasMore,
    next_cursor: hasMore ? (data.at(-1)?.id ?? null) : null,
  };
}
