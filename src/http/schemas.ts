// Schemas shared by all API modules: timestamps, amounts, pagination.

import { z } from "zod";
import { PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX } from "../base/pagination.ts";
import { oneResponse, type ResponseDoc } from "./route.ts";

export const Timestamp = z.iso.datetime({
  offset: true,
  error: "must be an RFC 3339 timestamp, such as 2027-01-31T00:00:00Z",
});

/** A US dollar amount; a string keeps more decimals than a number. */
export const UsdAmount = z.union([z.number(), z.string()], {
  error: 'must be a US dollar amount, such as 5 or "2.50"',
});

/** Number() also accepts `0x10`, `1e1` and an empty string. */
const parseDecimal = (value: unknown): unknown =>
  typeof value === "string" && !/^\d+$/.test(value) ? Number.NaN : value;

export const PageLimit = z.preprocess(
  parseDecimal,
  z.coerce
    .number({ error: "must be an integer" })
    .int()
    .min(1, "must be at least 1")
    .max(PAGE_LIMIT_MAX, `must be at most ${PAGE_LIMIT_MAX}`),
);

export const PageQuery = {
  limit: PageLimit.default(PAGE_LIMIT_DEFAULT).meta({
    description: "Number of records per page.",
    default: PAGE_LIMIT_DEFAULT,
  }),
  cursor: cursorSchema("[a-z]+"),
};

/** A cursor of ids with this prefix: the cursor of another list would give an empty page. */
export function cursorSchema(prefix: string) {
  return z
    .string()
    .regex(
      new RegExp(`^${prefix}_[0-9a-z]{26}$`),
      "is not a cursor of this list. Use `next_cursor` of the previous page",
    )
    .optional()
    .meta({ description: "`next_cursor` of the previous page." });
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

/** The documentation of a route that returns a page of records. */
export function listResponse(
  description: string,
  record: z.ZodType,
  id: string,
  example: unknown,
): Readonly<Record<number, ResponseDoc>> {
  const page = { object: "list", data: [example], has_more: false, next_cursor: null };
  return oneResponse(description, listSchema(record, id), page);
}

export const NextStepSchema = z
  .object({
    method: z.enum(["GET", "POST", "PATCH", "DELETE"]),
    url: z.string(),
    body: z.record(z.string(), z.unknown()).optional().describe("An example request body."),
    content_type: z
      .literal("application/x-www-form-urlencoded")
      .optional()
      .describe("The type of the body; JSON by default."),
    why: z.string(),
  })
  .meta({
    id: "NextStep",
    description: "A possible next step, as data that a program can act on.",
  });

/** Browsers send an empty input of a form as an empty string. */
export const emptyAsUndefined = <T extends z.ZodType>(schema: T) =>
  z.preprocess((value) => (value === "" ? undefined : value), schema.optional());

export function timestamp(at: number): string {
  return new Date(at).toISOString();
}

export function timestampOrNull(at: number | null): string | null {
  return at === null ? null : timestamp(at);
}

const DAY_SECONDS = 24 * 60 * 60;

/** How long a replaced secret stays valid. */
export const OverlapSeconds = z
  .int()
  .min(0)
  .max(7 * DAY_SECONDS)
  .default(DAY_SECONDS);
