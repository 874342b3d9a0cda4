// The public record of an audit entry.

import { z } from "zod";
import { timestamp } from "../http/schemas.ts";
import { ACTOR_TYPES, type AuditEntry } from "./audit.ts";

export const AuditEntryRecord = z
  .object({
    id: z.string().meta({ description: "Begins with `aud_`." }),
    object: z.literal("audit_entry"),
    created_at: z.string(),
    actor: z
      .object({ type: z.enum(ACTOR_TYPES), id: z.string() })
      .meta({ description: "Who acted: a key, a person, an operator or the gateway (`system`)." }),
    action: z.string(),
    target: z.string().nullable().meta({ description: "The id of the changed object." }),
    detail: z.record(z.string(), z.unknown()),
    network: z.string().nullable().meta({
      description: "The network of a key's request; null for other actors.",
    }),
  })
  .meta({ id: "AuditEntry" });

export const AUDIT_EXAMPLE = {
  id: "aud_01kah5t3mq7d2c9w4e6r8t0yax",
  object: "audit_entry",
  created_at: "2026-11-21T09:30:00.000Z",
  actor: { type: "key", id: "key_01kah5t3mq7d2c9w4e6r8t0yax" },
  action: "key.revoked",
  target: "key_01kah5s0aa7d2c9w4e6r8t0yax",
  detail: {
    name: "ci",
    last4: "Xy2b",
    limit_usd: "5",
    limit_window: "day",
    expires_at: "2027-01-01T00:00:00.000Z",
  },
  network: "203.0.113.0/24",
};

/** Customers do not see which operator acted. */
export function publicActor(actor: AuditEntry["actor"]): AuditEntry["actor"] {
  return actor.type === "operator" ? { type: "operator", id: "operator" } : actor;
}

/** For the owner of the workspace: also where the actor was, except for operators of the gateway. */
export function toOwnAuditRecord(entry: AuditEntry): z.infer<typeof AuditEntryRecord> & {
  readonly account_id: string | null;
  readonly ip: string | null;
} {
  const { accountId, actor, ip } = entry;
  const shown = actor.type === "operator" ? null : ip;
  return { ...toAuditEntryRecord(entry), account_id: accountId, ip: shown };
}

export function toAuditEntryRecord(entry: AuditEntry): z.infer<typeof AuditEntryRecord> {
  return {
    id: entry.id,
    object: "audit_entry",
    created_at: timestamp(entry.at),
    actor: publicActor(entry.actor),
    action: entry.action,
    target: entry.target,
    detail: entry.detail,
    network: entry.actor.type === "key" ? entry.network : null,
  };
}
