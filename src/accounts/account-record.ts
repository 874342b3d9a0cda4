// The public record of an account.

import { z } from "zod";
import { timestamp, timestampOrNull } from "../http/schemas.ts";
import type { Account } from "./accounts.ts";

export const AccountRecord = z
  .object({
    id: z.string().meta({ description: "Begins with `acct_`." }),
    name: z.string().nullable().meta({ description: "null if the account has no name." }),
    email: z.string().nullable().meta({ description: "null if none was given." }),
    created_at: z.string(),
    claimed_at: z.string().nullable().meta({
      description: "When a person claimed the account; null if unclaimed.",
    }),
    origin: z.enum(["agent", "person"]).meta({ description: "Who created the account." }),
    receipts: z.boolean().meta({ description: "Whether every call gets a signed receipt." }),
    data_policy: z.string().nullable().meta({
      description: "What providers may do with the data of all calls; null for no rules.",
    }),
    prompt_retention_days: z.int().nullable().meta({
      description: "Days until logged prompts are deleted; null for the gateway's setting.",
    }),
  })
  .meta({ id: "Account" });

export const ACCOUNT_EXAMPLE = {
  id: "acct_01kah5t3mq7d2c9w4e6r8t0yax",
  name: null,
  email: null,
  created_at: "2026-11-21T09:30:00.000Z",
  claimed_at: null,
  origin: "agent",
  receipts: false,
  data_policy: null,
  prompt_retention_days: null,
};

export function toAccountRecord(account: Account): z.infer<typeof AccountRecord> {
  return {
    id: account.id,
    name: account.name,
    email: account.email,
    created_at: timestamp(account.createdAt),
    claimed_at: timestampOrNull(account.claimedAt),
    origin: account.createdBy === null ? "agent" : "person",
    receipts: account.signsReceipts,
    data_policy: account.dataPolicy,
    prompt_retention_days: account.promptRetentionDays,
  };
}
