// One row for each event that a webhook is to hear of: its tries, what the endpoint said, and when the next try is due.
// A worker takes what is due by moving that time ahead: a worker that dies lets go by itself, and nobody waits for it.

import { Fault } from "../base/fault.ts";
import { maxId, type Page, type PageRequest, toPage } from "../base/pagination.ts";
import { MINUTE_MS } from "../base/time.ts";
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
import { lockWebhook, webhookNotActive } from "./webhooks.ts";

/** Longer than any try takes. */
const LEASE_MS = MINUTE_MS;
/** Beyond those of one round, tries that a replay added. */
const ATTEMPTS_STORED_MAX = 10;

export const DELIVERY_STATUSES = ["pending", "delivered", "failed", "cancelled"] as const;
type DeliveryStatus = (typeof DELIVERY_STATUSES)[number];

interface DeliveryAttempt {
  readonly at: number;
  readonly durationMs: number;
  /** What the endpoint answered, if it did. */
  readonly status: number | null;
  readonly error: string | null;
  /** The beginning of the answer's body. */
  readonly response: string;
}

export interface Delivery {
  readonly id: string;
  readonly webhookId: string;
  readonly eventId: string;
  readonly eventType: string;
  readonly status: DeliveryStatus;
  readonly tries: number;
  readonly dueAt: number;
  readonly attempts: readonly DeliveryAttempt[];
  readonly createdAt: number;
  readonly endedAt: number | null;
}

/** What a worker has taken upon itself. */
export interface LeasedDelivery {
  readonly id: string;
  readonly webhookId: string;
  readonly accountId: string;
  readonly lease: string;
  /** This one included. */
  readonly tries: number;
  readonly attempts: readonly DeliveryAttempt[];
  readonly webhook: Row;
  readonly event: Row;
}

export async function hasDue(reader: Reader, now: number): Promise<boolean> {
  const row = await reader.get(
    "select id from webhook_delivery where status = 'pending' and due_at <= ? limit 1",
    [now],
  );
  return row !== undefined;
}

export interface LeaseRequest {
  readonly now: number;
  readonly limit: number;
  readonly lease: string;
  /** Webhooks that this worker is calling already: an endpoint gets one call at a time. */
  readonly busyWebhookIds: readonly string[];
}

/** Takes what is due, the oldest of each webhook. Two workers never take the same. */
export async function leaseDue(
  tx: Tx,
  { now, limit, lease, busyWebhookIds }: LeaseRequest,
): Promise<readonly LeasedDelivery[]> {
  const excludeBusy =
    busyWebhookIds.length === 0
      ? ""
      : ` and webhook_id not in (${busyWebhookIds.map(() => "?").join(", ")})`;
  const rows = await tx.all(
    `update webhook_delivery set due_at = ?, tries = tries + 1, lease = ?
     where status = 'pending' and due_at <= ? and id in (
       select id from (
         select id, due_at, row_number() over (partition by webhook_id order by due_at, id) as place
         from webhook_delivery where status = 'pending' and due_at <= ?${excludeBusy}
       ) as due where place = 1 order by due_at, id limit ?)
     returning *`,
    [now + LEASE_MS, lease, now, now, ...busyWebhookIds, limit],
  );
  const webhooks = await byId(tx, "webhook", rows, "webhook_id");
  const events = await byId(tx, "event", rows, "event_id");
  return rows.flatMap((row) => {
    const webhook = webhooks.get(text(row, "webhook_id"));
    const event = events.get(text(row, "event_id"));
    if (webhook === undefined || event === undefined) return [];
    return [
      {
        id: text(row, "id"),
        webhookId: text(row, "webhook_id"),
        accountId: text(row, "account_id"),
        lease,
        tries: integer(row, "tries"),
        attempts: toAttempts(row),
        webhook,
        event,
      },
    ];
  });
}

/** Gives back what was not tried after all. */
export async function releaseLease(
  tx: Tx,
  { id, lease }: LeasedDelivery,
  now: number,
): Promise<void> {
  await tx.run(
    "update webhook_delivery set due_at = ?, tries = tries - 1, lease = null where id = ? and lease = ?",
    [now, id, lease],
  );
}

export async function cancelDelivery(
  tx: Tx,
  { id, lease }: LeasedDelivery,
  now: number,
): Promise<void> {
  await tx.run(
    "update webhook_delivery set status = 'cancelled', lease = null, ended_at = ? where id = ? and lease = ?",
    [now, id, lease],
  );
}

export interface AttemptOutcome {
  readonly status: DeliveryStatus;
  readonly attempt: DeliveryAttempt;
  readonly dueAt: number;
  readonly endedAt: number | null;
}

/** Notes how a try went; false where another worker has taken the delivery since, or it was cancelled. */
export async function recordAttempt(
  tx: Tx,
  delivery: LeasedDelivery,
  outcome: AttemptOutcome,
): Promise<boolean> {
  const attempts = [...delivery.attempts, outcome.attempt].slice(-ATTEMPTS_STORED_MAX);
  const updated = await tx.run(
    `update webhook_delivery set status = ?, due_at = ?, lease = null, attempts = ?, ended_at = ?
     where id = ? and lease = ?`,
    [
      outcome.status,
      outcome.dueAt,
      JSON.stringify(attempts),
      outcome.endedAt,
      delivery.id,
      delivery.lease,
    ],
  );
  return updated === 1;
}

export async function listDeliveries(
  reader: Reader,
  accountId: string,
  webhookId: string,
  page: PageRequest,
): Promise<Page<Delivery>> {
  const rows = await reader.all(
    `${SELECT_DELIVERY} where webhook_delivery.account_id = ? and webhook_id = ? and webhook_delivery.id < ?
     order by webhook_delivery.id desc limit ?`,
    [accountId, webhookId, page.cursor ?? maxId("dlv"), page.limit + 1],
  );
  return toPage(rows.map(toDelivery), page.limit);
}

export async function getDelivery(
  reader: Reader,
  accountId: string,
  webhookId: string,
  id: string,
): Promise<Delivery> {
  const row = await reader.get(
    `${SELECT_DELIVERY} where webhook_delivery.account_id = ? and webhook_id = ? and webhook_delivery.id = ?`,
    [accountId, webhookId, id],
  );
  if (row === undefined)
    throw new Fault("not_found", "no such delivery", {
      message:
        "There is no delivery with that id. List them with GET /v1/webhooks/{id}/deliveries.",
      param: "delivery_id",
    });
  return toDelivery(row);
}

export interface ReplayRequest {
  readonly accountId: string;
  readonly webhookId: string;
  readonly id: string;
  readonly now: number;
}

/** Sends an event again at once, with a whole new round of tries, whatever became of it before. */
export async function replayDelivery(tx: Tx, replay: ReplayRequest): Promise<Delivery> {
  const { accountId, webhookId, id, now } = replay;
  const webhook = await lockWebhook(tx, accountId, webhookId);
  await getDelivery(tx, accountId, webhookId, id);
  if (webhook.status !== "active") throw webhookNotActive(webhookId);
  await tx.run(
    "update webhook_delivery set status = 'pending', tries = 0, due_at = ?, lease = null, ended_at = null where id = ?",
    [now, id],
  );
  return getDelivery(tx, accountId, webhookId, id);
}

const SELECT_DELIVERY = `select webhook_delivery.*, event.type from webhook_delivery
  join event on event.id = webhook_delivery.event_id`;

async function byId(
  tx: Tx,
  table: string,
  rows: readonly Row[],
  column: string,
): Promise<ReadonlyMap<string, Row>> {
  const ids = [...new Set(rows.map((row) => text(row, column)))];
  return new Map((await tx.readMany(table, "id", ids)).map((row) => [text(row, "id"), row]));
}

function toDelivery(row: Row): Delivery {
  return {
    id: text(row, "id"),
    webhookId: text(row, "webhook_id"),
    eventId: text(row, "event_id"),
    eventType: text(row, "type"),
    status: enumValue(row, "status", DELIVERY_STATUSES),
    tries: integer(row, "tries"),
    dueAt: integer(row, "due_at"),
    attempts: toAttempts(row),
    createdAt: integer(row, "created_at"),
    endedAt: integerOrNull(row, "ended_at"),
  };
}

function toAttempts(row: Row): readonly DeliveryAttempt[] {
  // Written by `noteAttempt` alone.
  return JSON.parse(textOrNull(row, "attempts") ?? "[]") as readonly DeliveryAttempt[];
}
