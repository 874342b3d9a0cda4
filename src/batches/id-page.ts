// Pages of lists of batches and files, as OpenAI and Anthropic have them: a page names its first and its last record.

import { z } from "zod";

/** The fields of such a page. */
export function idPageFields<T extends z.ZodType>(record: T) {
  return {
    data: z.array(record),
    first_id: z.string().nullable(),
    last_id: z.string().nullable(),
    has_more: z.boolean(),
  };
}

export function toIdPage<T extends { readonly id: string }>(data: readonly T[], hasMore: boolean) {
  return {
    data: [...data],
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: hasMore,
  };
}

/** The position in a list: an id of an earlier page. */
export function idCursor(description: string) {
  return z.string().max(200).optional().meta({ description });
}

/** How many records a page has. */
export function idPageLimit(kind: string, { most, usual }: { most: number; usual: number }) {
  return z.coerce
    .number()
    .int()
    .min(1)
    .max(most)
    .default(usual)
    .meta({ description: `Number of ${kind} per page.` });
}
