// The stream of an account's audit log and its queue. It owns the tables audit_stream and audit_stream_entry. One process at a
// time sends the entries of an account, oldest first; they stay queued until the destination has accepted them.

import { deriveKey } from "../base/crypto/encryption.ts";
import { DAY_MS } from "../base/time.ts";
import {
  enumValue,
  integer,
  integerOrNull,
  type Reader,
  type Row,
  text,
  textOrNull,
  type Tx,
} from "../store/db.ts";
import type { EncryptedColumn } from "../store/reencrypt-rows.ts";
import { type AuditEntry, toAuditEntry } from "./audit.ts";

export const STREAM_KINDS = ["webhook", "otlp"] as const;
export type StreamKind = (typeof STREAM_KINDS)[number];

/** Entries that could not be delivered for this long are dropped; the audit log itself keeps them. */
export const QUEUE_DAYS = 30;

export const HEADER_PURPOSE = "audit-stream-header/v1";

/** For the rotation of the master secret. */
export const STREAM_HEADERS: EncryptedColumn = {
  table: "audit_stream",
  column: "sealed",
  key: ["account_id"],
  reads: [],
  deriveKey: (master) => deriveKey(master, HEADER_PURPOSE),
  associatedData: (row) => headerBinding(text(row, "account_id")),
};

export interface AuditStream {
  readonly accountId: string;
  readonly kind: StreamKind;
  readonly url: string;
  readonly headerName: string | null;
  /** The encrypted value of the header. */
  readonly sealed: string | null;
  readonly tries: number;
  readonly failingSince: number | null;
  readonly lastError: string | null;
  readonly deliveredAt: number | null;
}

export type StreamSettings = Pick<AuditStream, "kind" | "url" | "headerName" | "sealed">;

export function headerBinding(accountId: string): string {
  return `${HEADER_PURPOSE}|${accountId}`;
}

export async function findStream(
  reader: Reader,
  accountId: string,
): Promise<AuditStream | undefined> {
  const row = await reader.get("select * from audit_stream where account_id = ?", [accountId]);
  return row && toStream(row);
}

/** A change ends the backoff. */
export async function saveStream(
  tx: Tx,
  accountId: string,
  { kind, url, headerName, sealed }: StreamSettings,
  now: number,
): Promise<void> {
  await tx.run(
    `insert into audit_stream (account_id, kind, url, header_name, sealed, created_at, due_at, tries)
     values (?, ?, ?, ?, ?, ?, ?, 0)
     on conflict (account_id) do update set kind = excluded.kind, url = excluded.url,
       header_name = excluded.header_name, sealed = excluded.sealed, due_at = excluded.due_at, lease = null,
       tries = 0, failing_since = null, last_error = null`,
    [accountId, kind, url, headerName, sealed, now, now],
  );
}

export async function deleteStream(tx: Tx, accountId: string): Promise<void> {
  await tx.run("delete from audit_stream where account_id = ?", [accountId]);
  await tx.run("delete from audit_stream_entry where account_id = ?", [accountId]);
}

export async function countQueued(reader: Reader, accountId: string): Promise<number> {
  const row = await reader.get(
    "select count(*) as count from audit_stream_entry where account_id = ?",
    [accountId],
  );
  return row === undefined ? 0 : integer(row, "count");
}

/** The accounts whose stream is due and has entries. */
export async function listDueStreams(
  reader: Reader,
  now: number,
  limit: number,
): Promise<readonly string[]> {
  const rows = await reader.all(
    `select account_id from audit_stream where due_at <= ? and exists
       (select 1 from audit_stream_entry where audit_stream_entry.account_id = audit_stream.account_id)
     order by due_at, account_id limit ?`,
    [now, limit],
  );
  return rows.map((row) => text(row, "account_id"));
}

interface StreamLease {
  readonly accountId: string;
  readonly lease: string;
  /** When another process may take over. */
  readonly until: number;
  readonly now: number;
}

/** Undefined if another process was first. */
export async function leaseStream(
  tx: Tx,
  { accountId, lease, until, now }: StreamLease,
): Promise<AuditStream | undefined> {
  const row = await tx.get(
    "update audit_stream set lease = ?, due_at = ? where account_id = ? and due_at <= ? returning *",
    [lease, until, accountId, now],
  );
  return row && toStream(row);
}

/** The oldest first. */
export async function readQueue(
  reader: Reader,
  accountId: string,
  limit: number,
): Promise<readonly AuditEntry[]> {
  const rows = await reader.all(
    `select audit.* from audit_stream_entry join audit on audit.id = audit_stream_entry.audit_id
     where audit_stream_entry.account_id = ? order by audit_stream_entry.audit_id limit ?`,
    [accountId, limit],
  );
  return rows.map(toAuditEntry);
}

export async function recordDelivery(
  tx: Tx,
  { accountId, lease, now }: Omit<StreamLease, "until">,
  delivered: readonly AuditEntry[],
): Promise<void> {
  for (const { id } of delivered)
    await tx.run("delete from audit_stream_entry where account_id = ? and audit_id = ?", [
      accountId,
      id,
    ]);
  await tx.run(
    `update audit_stream set lease = null, due_at = ?, tries = 0, failing_since = null, last_error = null, delivered_at = ?
     where account_id = ? and lease = ?`,
    [now, now, accountId, lease],
  );
}

export async function recordStreamFailure(
  tx: Tx,
  { accountId, lease, now }: Omit<StreamLease, "until">,
  { error, dueAt }: { readonly error: string; readonly dueAt: number },
): Promise<void> {
  await tx.run(
    `update audit_stream set lease = null, due_at = ?, tries = tries + 1,
       failing_since = coalesce(failing_since, ?), last_error = ? where account_id = ? and lease = ?`,
    [dueAt, now, error, accountId, lease],
  );
}

export async function sweepStreamEntries(tx: Tx, now: number): Promise<void> {
  await tx.run("delete from audit_stream_entry where created_at < ?", [now - QUEUE_DAYS * DAY_MS]);
}

function toStream(row: Row): AuditStream {
  return {
    accountId: text(row, "account_id"),
    kind: enumValue(row, "kind", STREAM_KINDS),
    url: text(row, "url"),
    headerName: textOrNull(row, "header_name"),
    sealed: textOrNull(row, "sealed"),
    tries: integer(row, "tries"),
    failingSince: integerOrNull(row, "failing_since"),
    lastError: textOrNull(row, "last_error"),
    deliveredAt: integerOrNull(row, "delivered_at"),
  };
}
