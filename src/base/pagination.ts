// Lists are paged by the last id of the page before: newest first, and stable while new records come in.

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

/** Above every id of its kind, in the order of every database. */
export function maxId(prefix: string): string {
  return `${prefix}_${"z".repeat(27)}`;
}

/** Makes a page out of up to `limit + 1` rows: the one too many says that there is more. */
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
