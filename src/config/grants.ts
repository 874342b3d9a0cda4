// Settings of the starting credit of new accounts.

import { z } from "zod";
import { usdAmount } from "./schema.ts";

export const GRANT_SETTINGS = {
  POSTERN_GRANT_USD_PER_DAY: {
    defaultValue: "5; 0 in development",
    description:
      "Starting credit granted per UTC day, in US dollars; 0 for no limit. One network gets only a share of it, see `docs/site/operations.md`.",
  },
  POSTERN_GRANT_EXHAUSTED: {
    defaultValue: "create",
    description:
      "When the starting credit of the day is used up: `create` accounts with a balance of 0, or `refuse` them with 429.",
  },
} as const;

export const GRANT_ENVIRONMENT = {
  POSTERN_GRANT_USD_PER_DAY: usdAmount,
  POSTERN_GRANT_EXHAUSTED: z
    .enum(["create", "refuse"], { error: "must be create or refuse" })
    .default("create"),
};
