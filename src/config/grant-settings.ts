// Settings of the starting credit of new accounts.

import { z } from "zod";
import { integer, usdAmount } from "./setting-schemas.ts";
import { VERIFIED_AGENT_ENVIRONMENT, VERIFIED_AGENT_SETTINGS } from "./verified-agent-settings.ts";

/** A proof of this many bits takes minutes on one core. */
const PROOF_OF_WORK_BITS_MAX = 28;

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
  POSTERN_PROOF_OF_WORK_BITS: {
    defaultValue: "0",
    description:
      "Zero bits of the proof of work that a new account needs; 0 for none. 20 takes an agent about a second, and each further bit twice as long.",
  },
  ...VERIFIED_AGENT_SETTINGS,
} as const;

export const GRANT_ENVIRONMENT = {
  POSTERN_GRANT_USD_PER_DAY: usdAmount,
  POSTERN_GRANT_EXHAUSTED: z
    .enum(["create", "refuse"], { error: "must be create or refuse" })
    .default("create"),
  POSTERN_PROOF_OF_WORK_BITS: integer(0, PROOF_OF_WORK_BITS_MAX).default(0),
  ...VERIFIED_AGENT_ENVIRONMENT,
};
