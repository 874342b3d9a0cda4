// The query of a SCIM list: the filter, and the page by index.

import { z } from "zod";
import { parseFilter } from "./scim-filter.ts";
import type { ResourcePage } from "./scim-users.ts";

export const LIST_PAGE_MAX = 200;
const LIST_PAGE_DEFAULT = 100;

const Names = z.string().max(1_000).optional();

const SELECTION = {
  attributes: Names.meta({ description: "Only these attributes, separated by commas." }),
  excludedAttributes: Names.meta({ description: "All but these attributes." }),
};

export const ResourceQuery = z.object(SELECTION);

export const ListQuery = z.object({
  filter: z.string().max(1_000).optional().meta({
    description: 'One attribute that equals a value: `userName eq "ada@example.com"`.',
  }),
  startIndex: z.coerce.number().int().optional().meta({ description: "From 1." }),
  count: z.coerce
    .number()
    .int()
    .optional()
    .meta({ description: `At most ${LIST_PAGE_MAX}; ${LIST_PAGE_DEFAULT} by default.` }),
  ...SELECTION,
});

/** RFC 7644 §3.4.2.4: smaller values count as 1, and a negative `count` as 0. */
export function pageOf({
  filter,
  startIndex = 1,
  count = LIST_PAGE_DEFAULT,
}: z.infer<typeof ListQuery>): {
  readonly page: ResourcePage;
  readonly startIndex: number;
} {
  const first = Math.max(1, startIndex);
  return {
    startIndex: first,
    page: {
      filter: filter === undefined ? undefined : parseFilter(filter),
      offset: first - 1,
      limit: Math.min(LIST_PAGE_MAX, Math.max(0, count)),
    },
  };
}
