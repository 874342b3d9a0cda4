// Settings of how long records are kept.

import path from "node:path";
import { z } from "zod";
import { STORE_MODES } from "../base/response-storage.ts";
import { integer, settings } from "./setting-schemas.ts";

/** The spend of a key in a month is proved by the month's usage records, and a call may be settled a week late. */
const USAGE_RETENTION_MIN_DAYS = 62;

export const RETENTION_SETTINGS = settings({
  POSTERN_USAGE_RETENTION_DAYS: [
    integer(USAGE_RETENTION_MIN_DAYS, 36_500).optional(),
    "",
    `Moves usage records older than this to files, at least ${USAGE_RETENTION_MIN_DAYS} days; see \`docs/site/operations.md\`. Not set: usage records stay in the store.`,
  ],
  POSTERN_USAGE_ARCHIVE_DIR: [
    z.string().optional(),
    "`usage-archive` in the data folder",
    "The folder of the files of archived usage records.",
  ],
});

export interface UsageRetention {
  readonly days: number;
  readonly folder: string;
}

export function retentionConfigFrom(
  env: {
    readonly POSTERN_USAGE_RETENTION_DAYS?: number | undefined;
    readonly POSTERN_USAGE_ARCHIVE_DIR?: string | undefined;
  },
  dataDir: string,
): { readonly usageRetention?: UsageRetention } {
  const { POSTERN_USAGE_RETENTION_DAYS: days, POSTERN_USAGE_ARCHIVE_DIR: folder } = env;
  if (days === undefined) return {};
  return { usageRetention: { days, folder: folder ?? path.join(dataDir, "usage-archive") } };
}

// Settings of stored responses and logged prompts.
export const RESPONSE_STORAGE_SETTINGS = settings({
  POSTERN_STORE_RESPONSES: [
    z.enum(STORE_MODES, { error: `must be ${STORE_MODES.join(", ")}` }).default("by_default"),
    "by_default",
    "Which responses of `/v1/responses` are stored, encrypted: all without `store: false` (`by_default`, as at OpenAI), those with `store: true` (`on_request`), or none (`never`). Accounts can choose a stricter setting.",
  ],
  POSTERN_RESPONSE_RETENTION_DAYS: [
    integer(1, 365).default(30),
    "30",
    "Days after which stored responses are deleted, 1 to 365. Accounts can choose a shorter time.",
  ],
  POSTERN_PROMPT_RETENTION_DAYS: [
    integer(1, 365).default(30),
    "30",
    "Days after which the logged requests and replies of keys with `prompt_logging` are deleted, 1 to 365. Accounts can choose a shorter time; see `docs/site/prompt-logging.md`.",
  ],
});
