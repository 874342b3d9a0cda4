// Settings that limit how much one key or network uses the gateway at a time.

import { z } from "zod";
import { integer, settings, usdAmount } from "./setting-schemas.ts";
import { VERIFIED_AGENT_SETTINGS } from "./verified-agent-settings.ts";

export const LIMIT_SETTINGS = settings({
  POSTERN_REQUESTS_PER_MINUTE: [
    integer(0, 10_000_000).optional(),
    "600; 0 in development",
    "Requests per key and minute; 0 for no limit.",
  ],
  POSTERN_OPEN_CALLS_PER_KEY: [
    integer(0, 1_000_000).optional(),
    "100; 0 in development",
    "Concurrent model calls per key; 0 for no limit.",
  ],
  POSTERN_FETCHED_FILES_PER_MINUTE: [
    integer(0, 1_000_000).default(120),
    "120",
    "Images and documents that the gateway fetches from URLs in requests to Amazon Bedrock, and as many web pages for models, per account, minute and process; 0 to fetch none.",
  ],
  POSTERN_CONNECTIONS_PER_NETWORK: [
    integer(0, 1_000_000).optional(),
    "a quarter of the file descriptors, at most 4096; 0 in development",
    "Open connections of an IPv4 address or IPv6 /64 to a process; 0 for no limit. At most half of the file descriptors.",
  ],
});

/** A proof of this many bits takes minutes on one core. */
const PROOF_OF_WORK_BITS_MAX = 28;

export const GRANT_SETTINGS = settings({
  POSTERN_GRANT_USD_PER_DAY: [
    usdAmount,
    "5; 0 in development",
    "Starting credit granted per UTC day, in US dollars; 0 for no limit. One network gets only a share of it, see `docs/site/operations.md`.",
  ],
  POSTERN_GRANT_EXHAUSTED: [
    z.enum(["create", "refuse"], { error: "must be create or refuse" }).default("create"),
    "create",
    "When the starting credit of the day is used up: `create` accounts with a balance of 0, or `refuse` them with 429.",
  ],
  POSTERN_PROOF_OF_WORK_BITS: [
    integer(0, PROOF_OF_WORK_BITS_MAX).default(0),
    "0",
    "Zero bits of the proof of work that a new account needs; 0 for none. 20 takes an agent about a second, and each further bit twice as long.",
  ],
  ...VERIFIED_AGENT_SETTINGS,
});
