// Webhook deliveries, one row per event and subscribed webhook; only this folder writes them. A worker leases a due
// delivery by moving `due_at` ahead, so the lease of a dead worker expires.

import { Fault } from "../base/fault.ts";
import { newId } from "../base/id.ts";
import { maxId, type Page, type PageRequest, toPage } from "../base/pagination.ts";
import { DAY_MS, MINUTE_MS } from "../base/time.ts";
import type { DueTable } from "../store/clamp-due.ts";
import {
  type Column,
  enumValue,
  integer,
  integerOrNull,
  type Reader,
  type Row,
  text,
  textOrNull,
  type Tx,
  type Value,
} from "../store/db.ts";

/** Longer than any attempt takes. */
const LEASE_MS = MINUTE_MS;
/** One round has eight attempts; each replay adds a round. */
export const ATTEMPTS_STORED_MAX = 50;

/** The longest retry delay is 24 hours plus a fifth. */
export const DELIVERY_DUE_TABLE: DueTable = {
  table: "webhook_delivery",
  where: "status = 'pending'",
  maxAheadMs: 2 * DAY_MS,
};

export const DELIVERY_STATUSES = ["pending", "delivered", "failed", "cancelled"] as const;
type DeliveryStatus = (typeof DELIVERY_STATUSES)[number];

interface DeliveryAttempt {
  readonly at: number;
  readonly durationMs: number;
  /** The HTTP status, null if the endpoint did not respond. */
  readonly status: number | null;
  readonly error: string | null;
  /** The beginning of the response body. */
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
  /** The newest `ATTEMPTS_STORED_MAX`, oldest first, also those before a replay. */
  readonly attempts: readonly DeliveryAttempt[];
  readonly createdAt: number;
  readonly endedAt: number | null;
}

export interface LeasedDelivery {
  readonly id: string;
  readonly webhookId: string;
  readonly accountId: string;
  readonly lease: string;
  /** Includes the attempt that this lease is for. */
  readonly tries: number;
  readonly attempts: readonly DeliveryAttempt[];
  readonly webhook: Row;
  readonly event: Row;
}

export interface NewDeliveries {
  readonly eventId: string;
  readonly accountId: string;
  readonly webhookIds: readonly string[];
  readonly now: number;
}

const INSERT_COLUMNS: readonly Column[] = [
  "id:text",
  "webhook_id:text",
  "account_id:text",
  "event_id:text",
  "status:text",
  "tries:bigint",
  "due_at:bigint",
  "attempts:text",
  "created_at:bigint",
];

/** Queues one delivery per webhook, due at once. Returns their ids. */
export async function queueDeliveries(
  tx: Tx,
  { eventId, accountId, webhookIds, now }: NewDeliveries,
): Promise<readonly string[]> {
  const ids = webhookIds.map(() => newId("dlv", now));
  const rows = webhookIds.map((webhookId, index): Value[] => [
    ids[index] ?? null,
    webhookId,
    accountId,
    eventId,
    "pending",
    0,
    now,
    "[]",
    now,
  ]);
  await tx.insertMany("webhook_delivery", INSERT_COLUMNS, rows);
  return ids;
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
  /** The account of each webhook that this worker is calling already: it sends an endpoint one request at a time. */
  readonly busy: ReadonlyMap<string, string>;
}

/** If more deliveries are due, they are not all read: one account can have any number of them. */
const READ_DUE_MAX = 1_000;
const DUE = "from webhook_delivery where status = 'pending' and due_at <= ? order by due_at";
const DUE_WEBHOOKS = `with candidate(webhook_id) as (
  select distinct webhook_id from (select webhook_id ${DUE} limit ${READ_DUE_MAX}) as due)`;
/** Each webhook with pending deliveries, by one look-up in the index: its queue can be long. */
const PENDING_WEBHOOKS = `with recursive candidate(webhook_id) as (
  select min(webhook_id) from webhook_delivery where status = 'pending'
  union all
  select (select min(webhook_id) from webhook_delivery where status = 'pending' and webhook_id > candidate.webhook_id)
    from candidate where candidate.webhook_id is not null)`;
const FIRST_DELIVERY = `select id from webhook_delivery
  where status = 'pending' and webhook_id = candidate.webhook_id order by due_at, id limit 1`;

/**
 * Leases the oldest due delivery of each webhook, and first those of accounts with the fewest requests in flight: slow endpoints
 * of one account do not stop the deliveries of another. Two workers never lease the same delivery.
 */
export async function leaseDue(
  tx: Tx,
  { now, limit, lease, busy }: LeaseRequest,
): Promise<readonly LeasedDelivery[]> {
  const busyWebhooks = [...busy.keys()];
  const inFlight = Object.entries(Object.groupBy(busy.values(), (accountId) => accountId));
  const excludeBusy =
    busyWebhooks.length === 0
      ? ""
      : ` and candidate.webhook_id not in (${busyWebhooks.map(() => "?").join(", ")})`;
  const countInFlight =
    inFlight.length === 0
      ? ""
      : ` + case account_id${" when ? then ?".repeat(inFlight.length)} else 0 end`;
  const hasMany =
    (await tx.get(`select id ${DUE} limit 1 offset ${READ_DUE_MAX}`, [now])) !== undefined;
  const rows = await tx.all(
    `update webhook_delivery set due_at = ?, tries = tries + 1, lease = ?
     where status = 'pending' and due_at <= ? and id in (${hasMany ? PENDING_WEBHOOKS : DUE_WEBHOOKS}
       select id from (
         select delivery.id, delivery.due_at, delivery.account_id,
           row_number() over (partition by delivery.account_id order by delivery.due_at, delivery.id) as queue_position
         from candidate join webhook_delivery as delivery on delivery.id = (${FIRST_DELIVERY})
         where delivery.due_at <= ?${excludeBusy}
       ) as due order by queue_position${countInFlight}, due_at, id limit ?)
     returning *`,
    [
      now + LEASE_MS,
      lease,
      now,
      ...(hasMany ? [] : [now]),
      now,
      ...busyWebhooks,
      ...inFlight.flatMap(([accountId, requests = []]) => [accountId, requests.length]),
      limit,
    ],
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

/** Makes a leased delivery due again without counting an attempt. */
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

/** Cancels what a webhook that is disabled or deleted has still to send. */
export async function cancelPendingDeliveries(
  tx: Tx,
  webhookId: string,
  now: number,
): Promise<void> {
  await tx.run(
    "update webhook_delivery set status = 'cancelled', lease = null, ended_at = ? where webhook_id = ? and status = 'pending'",
    [now, webhookId],
  );
}

export interface AttemptOutcome {
  readonly status: DeliveryStatus;
  readonly attempt: DeliveryAttempt;
  readonly dueAt: number;
  readonly endedAt: number | null;
}

/** Returns false if the lease was lost: another worker took the delivery, or it was canceled. */
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
        "No delivery of this webhook has this id. List them with GET /v1/webhooks/{id}/deliveries.",
      param: "delivery_id",
    });
  return toDelivery(row);
}

/** Makes a delivery due at once, with a new round of attempts. */
export async function requeueDelivery(tx: Tx, id: string, now: number): Promise<void> {
  await tx.run(
    "update webhook_delivery set status = 'pending', tries = 0, due_at = ?, lease = null, ended_at = null where id = ?",
    [now, id],
  );
}

export async function hasPendingDelivery(
  reader: Reader,
  webhookId: string,
  eventType: string,
): Promise<boolean> {
  const row = await reader.get(
    `select webhook_delivery.id from webhook_delivery join event on event.id = webhook_delivery.event_id
     where webhook_id = ? and webhook_delivery.status = 'pending' and event.type = ?`,
    [webhookId, eventType],
  );
  return row !== undefined;
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
  // Safe: only `recordAttempt` writes this column.
  return JSON.parse(textOrNull(row, "attempts") ?? "[]") as readonly DeliveryAttempt[];
}
