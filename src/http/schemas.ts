// What the records of every room have in common: pages, timestamps.

import { z } from "zod";
import { PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX } from "../base/pagination.ts";

export const Timestamp = z.iso.datetime({
  offset: true,
  error: "must be an RFC 3339 timestamp, such as 2027-01-31T00:00:00Z",
});

/** An amount of US dollars, which its room reads exactly. */
export const UsdAmount = z.union([z.number(), z.string()], {
  error: 'must be an amount of US dollars, such as 5 or "2.50"',
});

/** JavaScript reads `0x10`, `1e1` and an empty text as numbers, too. */
const parseDecimal = (value: unknown): unknown =>
  typeof value === "string" && !/^\d+$/.test(value) ? Number.NaN : value;

export const PageLimit = z.preprocess(
  parseDecimal,
  z.coerce
    .number({ error: "must be a whole number" })
    .int()
    .min(1, "must be 1 or more")
    .max(PAGE_LIMIT_MAX, `must be ${PAGE_LIMIT_MAX} or less`),
);

export const PageQuery = {
  limit: PageLimit.default(PAGE_LIMIT_DEFAULT).meta({
    description: "Records on a page.",
    default: PAGE_LIMIT_DEFAULT,
  }),
  cursor: cursorSchema("[a-z]+"),
};

/** The cursor of a list of ids that begin so: one of another list would give an empty page. */
export function cursorSchema(prefix: string) {
  return z
    .string()
    .regex(
      new RegExp(`^${prefix}_[0-9a-z]{26}$`),
      "is not a cursor of this list; take `next_cursor` of the page before",
    )
    .optional()
    .meta({ description: "`next_cursor` of the page before." });
}

export function listSchema(record: z.ZodType, id: string): z.ZodType {
  return z
    .object({
      object: z.literal("list"),
      data: z.array(record),
      has_more: z.boolean(),
      next_cursor: z.string().nullable(),
    })
    .meta({ id });
}

export function timestamp(at: number): string {
  return new Date(at).toISOString();
}

export function timestampOrNull(at: number | null): string | null {
  return at === null ? null : timestamp(at);
}
