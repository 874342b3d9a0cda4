// Rows of the table webhook: the subscriptions of events. webhooks/webhooks.ts creates and changes webhooks.

import { deriveKey } from "../base/crypto/encryption.ts";
import { Fault } from "../base/fault.ts";
import { maxId, type Page, type PageRequest, toPage } from "../base/pagination.ts";
import {
  enumValue,
  type Reader,
  type Row,
  text,
  textOrNull,
  type Tx,
  integer,
  integerOrNull,
} from "../store/db.ts";
import type { EncryptedColumn } from "../store/reencrypt-rows.ts";
import { cancelPendingDeliveries } from "./deliveries.ts";

export const WEBHOOK_STATUSES = ["active", "disabled", "deleted"] as const;
type WebhookStatus = (typeof WEBHOOK_STATUSES)[number];

export interface Webhook {
  readonly id: string;
  readonly accountId: string;
  readonly url: string;
  readonly events: readonly string[];
  readonly description: string | null;
  readonly status: WebhookStatus;
  readonly disabledReason: string | null;
  readonly failingSince: number | null;
  /** Until when the former secret signs too; 0 without a former secret. */
  readonly formerUntil: number;
  readonly createdAt: number;
}

export const SECRET_PURPOSE = "webhook-secret/v1";

/** What an encrypted signing secret is bound to. */
export function secretBinding(accountId: string, id: string): string {
  return `${SECRET_PURPOSE}|${accountId}|${id}`;
}

/** For the rotation of the master secret. */
export function webhookSecrets(column: "sealed" | "former_sealed"): EncryptedColumn {
  return {
    table: "webhook",
    column,
    key: ["id"],
    reads: ["account_id"],
    deriveKey: (master) => deriveKey(master, SECRET_PURPOSE),
    associatedData: (row) => secretBinding(text(row, "account_id"), text(row, "id")),
  };
}

export interface NewWebhook {
  readonly id: string;
  readonly accountId: string;
  readonly url: string;
  readonly events: readonly string[];
  readonly description: string | null;
  /** The encrypted signing secret. */
  readonly sealed: string;
  readonly now: number;
}

export async function insertWebhook(tx: Tx, webhook: NewWebhook): Promise<void> {
  const { id, accountId, url, events, description, sealed, now } = webhook;
  await tx.run(
    `insert into webhook (id, account_id, url, events, description, status, sealed, former_until, created_at)
     values (?, ?, ?, ?, ?, 'active', ?, 0, ?)`,
    [id, accountId, url, events.join(" "), description, sealed, now],
  );
}

export async function updateWebhook(
  tx: Tx,
  webhook: Omit<Webhook, "accountId" | "formerUntil" | "createdAt">,
): Promise<void> {
  const { id, url, events, description, status, disabledReason, failingSince } = webhook;
  await tx.run(
    `update webhook set url = ?, events = ?, description = ?, status = ?, disabled_reason = ?, failing_since = ?
     where id = ?`,
    [url, events.join(" "), description, status, disabledReason, failingSince, id],
  );
}

/** The former secret signs too until the given time. */
export async function replaceWebhookSecret(
  tx: Tx,
  id: string,
  { sealed, formerUntil }: { readonly sealed: string; readonly formerUntil: number },
): Promise<void> {
  await tx.run(
    "update webhook set former_sealed = sealed, former_until = ?, sealed = ? where id = ?",
    [formerUntil, sealed, id],
  );
}

/** Erases the secrets and keeps the record. */
export async function markWebhookDeleted(tx: Tx, id: string): Promise<void> {
  await tx.run(
    `update webhook set status = 'deleted', sealed = null, former_sealed = null, former_until = 0,
       disabled_reason = null where id = ?`,
    [id],
  );
}

export async function getWebhook(reader: Reader, accountId: string, id: string): Promise<Webhook> {
  const row = await reader.get("select * from webhook where account_id = ? and id = ?", [
    accountId,
    id,
  ]);
  if (row === undefined) throw noSuchWebhook();
  return toWebhook(row);
}

export async function listWebhooks(
  reader: Reader,
  accountId: string,
  page: PageRequest,
): Promise<Page<Webhook>> {
  const rows = await reader.all(
    "select * from webhook where account_id = ? and id < ? order by id desc limit ?",
    [accountId, page.cursor ?? maxId("whk"), page.limit + 1],
  );
  return toPage(rows.map(toWebhook), page.limit);
}

/** All that are not deleted. Their number is limited per account. */
export async function listLiveWebhooks(
  reader: Reader,
  accountId: string,
): Promise<readonly Webhook[]> {
  const rows = await reader.all(
    "select * from webhook where account_id = ? and status <> 'deleted' order by id desc",
    [accountId],
  );
  return rows.map(toWebhook);
}

/** The URLs of the webhooks that are not deleted, newest first. */
export async function listWebhookUrls(
  reader: Reader,
  accountId: string,
): Promise<readonly string[]> {
  return (await listLiveWebhooks(reader, accountId)).map(({ url }) => url);
}

/** Throws if the webhook was deleted. */
export async function lockWebhook(tx: Tx, accountId: string, id: string): Promise<Webhook> {
  const webhook = await lockAnyWebhook(tx, accountId, id);
  if (webhook.status === "deleted")
    throw new Fault("conflict", "webhook is deleted", {
      message: "A deleted webhook cannot be changed. Create a new one with POST /v1/webhooks.",
    });
  return webhook;
}

/** Also a deleted one. */
export async function lockAnyWebhook(tx: Tx, accountId: string, id: string): Promise<Webhook> {
  await tx.lockMany("webhook", "id", [id]);
  return getWebhook(tx, accountId, id);
}

export async function recordSuccess(tx: Tx, id: string): Promise<void> {
  await tx.run(
    "update webhook set failing_since = null where id = ? and failing_since is not null",
    [id],
  );
}

/** Returns since when all attempts of this webhook have failed. */
export async function recordFailure(tx: Tx, id: string, now: number): Promise<number> {
  const row = await tx.get(
    "update webhook set failing_since = coalesce(failing_since, ?) where id = ? returning failing_since",
    [now, id],
  );
  return row === undefined ? now : integer(row, "failing_since");
}

/** Cancels all pending deliveries. Returns false if the webhook was no longer active. */
export async function disableWebhook(
  tx: Tx,
  id: string,
  reason: string,
  now: number,
): Promise<boolean> {
  const disabled = await tx.run(
    "update webhook set status = 'disabled', disabled_reason = ? where id = ? and status = 'active'",
    [reason, id],
  );
  if (disabled === 0) return false;
  await cancelPendingDeliveries(tx, id, now);
  return true;
}

/** Those that are not deleted. */
export async function countWebhooks(reader: Reader, accountId: string): Promise<number> {
  const row = await reader.get(
    "select count(*) as count from webhook where account_id = ? and status <> 'deleted'",
    [accountId],
  );
  return row === undefined ? 0 : integer(row, "count");
}

function toWebhook(row: Row): Webhook {
  return {
    id: text(row, "id"),
    accountId: text(row, "account_id"),
    url: text(row, "url"),
    events: text(row, "events").split(" "),
    description: textOrNull(row, "description"),
    status: enumValue(row, "status", WEBHOOK_STATUSES),
    disabledReason: textOrNull(row, "disabled_reason"),
    failingSince: integerOrNull(row, "failing_since"),
    formerUntil: integer(row, "former_until"),
    createdAt: integer(row, "created_at"),
  };
}

function noSuchWebhook(): Fault {
  return new Fault("not_found", "no such webhook", {
    message: "No webhook has this id. List your webhooks with GET /v1/webhooks.",
    param: "id",
    next: [{ method: "GET", url: "/v1/webhooks", why: "List the webhooks." }],
  });
}
