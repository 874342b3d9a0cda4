// Transactional outbox: an event and its webhook deliveries are inserted in the transaction of the change that they report,
// so a crash or a rollback cannot leave one without the other. webhooks/delivery-worker.ts sends the deliveries, and
// email/email-worker.ts finds the recipients of emails.

import { minIdAt, newId } from "../base/id.ts";
import { maxId, type Page, type PageRequest, toPage } from "../base/pagination.ts";
import { DAY_MS } from "../base/time.ts";
import { integer, type Reader, type Row, text, type Tx } from "../store/db.ts";
import { queueDeliveries } from "./deliveries.ts";

export const EVENT_TYPES = [
  "claim.started",
  "claim.completed",
  "member.invited",
  "member.added",
  "allowance.requested",
  "balance.low",
  "balance.empty",
  "budget.reached",
  "key.created",
  "key.rotated",
  "key.revoked",
  "key.limit_reached",
  "invoice.paid",
  "top_up.failed",
  "top_up.stopped",
  "top_up.ceiling_reached",
  "key.expiring",
  "webhook.disabled",
  "sink.disabled",
  "batch.ended",
  "response.completed",
  "response.incomplete",
  "response.failed",
  "response.cancelled",
  "service_credit.posted",
] as const;
export type EventType = (typeof EVENT_TYPES)[number];

/** Events that people also get by email. */
export const EMAILED_TYPES = [
  "claim.started",
  "member.invited",
  "balance.low",
  "balance.empty",
  "budget.reached",
  "key.limit_reached",
  "key.expiring",
  "invoice.paid",
  "top_up.failed",
  "top_up.stopped",
  "top_up.ceiling_reached",
  "webhook.disabled",
  "sink.disabled",
  "allowance.requested",
  "member.added",
] as const satisfies readonly EventType[];

const IS_EMAILED: ReadonlySet<string> = new Set(EMAILED_TYPES);

/** Subscribes to every type, including types added later. */
export const ALL_EVENTS = "*";

interface KeyData {
  readonly key_id: string;
  readonly name: string | null;
  readonly prefix: string;
  readonly last4: string;
  /** The id of the key, person or operator that made the change. */
  readonly by: string;
}

interface MemberData {
  /** null if the member accepted an invitation from the console. */
  readonly claim_attempt_id: string | null;
  readonly email: string;
  readonly role: string;
}

interface BalanceData {
  readonly credits: number;
  readonly usd: number;
  /** The threshold that the balance fell below. */
  readonly below_usd: number;
}

/** As at OpenAI. */
interface ResponseData {
  /** The id of the response. */
  readonly id: string;
}

/** The `data` of each event type. It must not contain secrets: any key of the account can read it. */
interface EventData {
  readonly "claim.started": { readonly claim_attempt_id: string; readonly email: string };
  readonly "claim.completed": MemberData & { readonly bonus_credits: number };
  readonly "member.invited": {
    readonly invitation_id: string;
    readonly email: string;
    readonly role: string;
    /** The email address of the inviting person. */
    readonly by: string;
  };
  readonly "member.added": MemberData;
  /** A developer, who cannot create keys without one. */
  readonly "allowance.requested": { readonly email: string };
  readonly "balance.low": BalanceData;
  readonly "balance.empty": BalanceData;
  readonly "budget.reached": {
    readonly window: "day" | "month";
    /** 50, 80 or 100. */
    readonly percent: number;
    readonly used_usd: number;
    readonly limit_usd: number;
    readonly resets_at: string;
  };
  readonly "key.created": KeyData;
  readonly "key.rotated": KeyData & {
    readonly former_last4: string;
    /** Until when the former secret is accepted too. */
    readonly former_secret_until: string;
  };
  readonly "key.revoked": KeyData;
  readonly "key.limit_reached": {
    readonly key_id: string;
    /** One of the key's `alert_percents`. */
    readonly percent: number;
    readonly spent_usd: number;
    readonly limit_usd: number;
    readonly resets_at: string | null;
  };
  readonly "invoice.paid": {
    readonly invoice_id: string;
    readonly amount_usd: number;
    readonly credits: number;
  };
  readonly "top_up.failed": {
    /** The voided invoice of the failed purchase. */
    readonly invoice_id: string;
    readonly amount_usd: number;
    readonly reason: string;
    readonly failures_in_a_row: number;
    readonly next_try_at: string | null;
  };
  readonly "top_up.stopped": { readonly reason: string; readonly failures_in_a_row: number };
  readonly "top_up.ceiling_reached": {
    readonly monthly_ceiling_usd: number;
    readonly bought_this_month_usd: number;
    readonly resumes_at: string;
  };
  readonly "key.expiring": {
    readonly key_id: string;
    readonly name: string | null;
    readonly last4: string;
    readonly expires_at: string;
  };
  readonly "webhook.disabled": {
    readonly webhook_id: string;
    readonly host: string;
    readonly reason: string;
  };
  readonly "sink.disabled": {
    readonly sink: string;
    readonly host: string;
    readonly reason: string;
  };
  readonly "batch.ended": {
    readonly batch_id: string;
    /** `completed`, `expired` or `cancelled`. */
    readonly status: string;
    readonly requests: number;
    readonly succeeded: number;
    readonly errored: number;
    readonly cancelled: number;
    readonly expired: number;
    readonly cost_usd: number;
  };
  readonly "response.completed": ResponseData;
  readonly "response.incomplete": ResponseData;
  readonly "response.failed": ResponseData;
  readonly "response.cancelled": ResponseData;
  readonly "service_credit.posted": {
    readonly service_credit_id: string;
    readonly service_level_id: string;
    readonly model: string;
    readonly window_start: string;
    readonly window_end: string;
    readonly usd: number;
    readonly credits: number;
    /** What was measured. */
    readonly reason: string;
  };
}

export type NewEvent = {
  readonly [T in EventType]: {
    readonly type: T;
    readonly accountId: string;
    readonly data: EventData[T];
    readonly now: number;
  };
}[EventType];

export interface StoredEvent {
  readonly id: string;
  readonly accountId: string;
  readonly type: string;
  readonly createdAt: number;
  readonly data: Readonly<Record<string, unknown>>;
}

/** Call it in the transaction of the change that the event reports. */
export async function emitEvent(tx: Tx, event: NewEvent): Promise<void> {
  const { type, accountId, data, now } = event;
  const rows = await tx.all(
    "select id, events from webhook where account_id = ? and status = 'active' order by id",
    [accountId],
  );
  const webhookIds = rows.flatMap((row) => {
    const subscribedTypes = text(row, "events").split(" ");
    return subscribedTypes.includes(ALL_EVENTS) || subscribedTypes.includes(type)
      ? [text(row, "id")]
      : [];
  });
  await insertEvent(tx, { type, accountId, data: { ...data }, now }, webhookIds);
}

export const TEST_EVENT_TYPE = "webhook.test";

/** Emits a test event for one webhook, whatever it subscribes to. Returns the delivery's id. */
export async function emitTestEvent(
  tx: Tx,
  accountId: string,
  webhookId: string,
  now: number,
): Promise<string> {
  const data = { webhook_id: webhookId, message: "This is a test. Nothing has happened." };
  const [id] = await insertEvent(tx, { type: TEST_EVENT_TYPE, accountId, data, now }, [webhookId]);
  if (id === undefined) throw new Error("no delivery was queued for the test event");
  return id;
}

export async function listEvents(
  reader: Reader,
  accountId: string,
  page: PageRequest,
  type?: EventType,
): Promise<Page<StoredEvent>> {
  const filter = type === undefined ? "" : " and type = ?";
  const rows = await reader.all(
    `select * from event where account_id = ? and id < ?${filter} order by id desc limit ?`,
    [accountId, page.cursor ?? maxId("evt"), ...(type === undefined ? [] : [type]), page.limit + 1],
  );
  return toPage(rows.map(toStoredEvent), page.limit);
}

export async function findEvent(
  reader: Reader,
  accountId: string,
  id: string,
): Promise<StoredEvent | undefined> {
  const row = await reader.get("select * from event where account_id = ? and id = ?", [
    accountId,
    id,
  ]);
  return row && toStoredEvent(row);
}

/** The events of a type since a time. */
export async function countEvents(
  reader: Reader,
  accountId: string,
  type: EventType,
  since: number,
): Promise<number> {
  const row = await reader.get(
    "select count(*) as count from event where account_id = ? and id >= ? and type = ?",
    [accountId, minIdAt("evt", since), type],
  );
  return row === undefined ? 0 : integer(row, "count");
}

export async function hasEventsToEmail(reader: Reader): Promise<boolean> {
  const row = await reader.get("select id from event where emailed_at is null limit 1");
  return row !== undefined;
}

/**
 * Takes the oldest event of the next account by id whose emails were not queued yet, so that an account with many events does
 * not delay those of others. Two workers never take the same event.
 */
export async function takeEventToEmail(
  tx: Tx,
  { after, now }: { readonly after: string; readonly now: number },
): Promise<StoredEvent | undefined> {
  const row = await tx.get(
    `update event set emailed_at = ? where emailed_at is null
     and id = (select id from event where emailed_at is null and account_id > ? order by account_id, id limit 1)
     returning *`,
    [now, after],
  );
  return row && toStoredEvent(row);
}

/** Applies to events and to their deliveries. */
const RETENTION_MS = 30 * DAY_MS;

export async function sweepEvents(tx: Tx, now: number): Promise<void> {
  await tx.run("delete from webhook_delivery where created_at < ?", [now - RETENTION_MS]);
  await tx.run("delete from event where created_at < ?", [now - RETENTION_MS]);
}

export function toStoredEvent(row: Row): StoredEvent {
  const data: unknown = JSON.parse(text(row, "data"));
  return {
    id: text(row, "id"),
    accountId: text(row, "account_id"),
    type: text(row, "type"),
    createdAt: integer(row, "created_at"),
    data: typeof data === "object" && data !== null ? { ...data } : {},
  };
}

/** Returns the ids of the deliveries. */
async function insertEvent(
  tx: Tx,
  event: Omit<StoredEvent, "id" | "createdAt"> & { readonly now: number },
  webhookIds: readonly string[],
): Promise<readonly string[]> {
  const { type, accountId, data, now } = event;
  const eventId = newId("evt", now);
  await tx.run(
    "insert into event (id, account_id, type, created_at, data, emailed_at) values (?, ?, ?, ?, ?, ?)",
    [eventId, accountId, type, now, JSON.stringify(data), IS_EMAILED.has(type) ? null : now],
  );
  return queueDeliveries(tx, { eventId, accountId, webhookIds, now });
}
