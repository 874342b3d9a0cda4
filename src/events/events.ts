// What happened in an account that somebody outside may want to know of. It owns the tables event, webhook and
// webhook_delivery. An event and its deliveries are written in the transaction of the change, so that neither a crash nor
// a rollback leaves the one without the other; src/webhooks/delivery-worker.ts carries them out later.

import { newId } from "../base/id.ts";
import { maxId, type Page, type PageRequest, toPage } from "../base/pagination.ts";
import { DAY_MS } from "../base/time.ts";
import type { BudgetWindow } from "../ledger/budget-rules.ts";
import {
  type Column,
  type Reader,
  type Row,
  text,
  type Tx,
  type Value,
  integer,
} from "../store/db.ts";

export const EVENT_TYPES = [
  "claim.completed",
  "member.added",
  "balance.low",
  "balance.empty",
  "budget.reached",
  "key.created",
  "key.revoked",
  "invoice.paid",
  "top_up.failed",
  "top_up.stopped",
  "top_up.ceiling_reached",
] as const;
export type EventType = (typeof EVENT_TYPES)[number];

/** Subscribes to everything, and to the types that come later. */
export const ALL_EVENTS = "*";

interface KeyData {
  readonly key_id: string;
  readonly name: string | null;
  readonly prefix: string;
  readonly last4: string;
  /** Who did it: a key, a person, or an operator. */
  readonly by: string;
}

interface MemberData {
  /** null where an owner invited them in the console. */
  readonly claim_attempt_id: string | null;
  readonly email: string;
  readonly role: string;
}

interface BalanceData {
  readonly credits: number;
  readonly usd: number;
  /** The mark that the balance fell below. */
  readonly below_usd: number;
}

/** What each type says. None of it is a secret. */
interface EventData {
  readonly "claim.completed": MemberData & { readonly bonus_credits: number };
  readonly "member.added": MemberData;
  readonly "balance.low": BalanceData;
  readonly "balance.empty": BalanceData;
  readonly "budget.reached": {
    readonly window: BudgetWindow;
    /** 50, 80 or 100. */
    readonly percent: number;
    readonly used_usd: number;
    readonly limit_usd: number;
    readonly resets_at: string;
  };
  readonly "key.created": KeyData;
  readonly "key.revoked": KeyData;
  readonly "invoice.paid": {
    readonly invoice_id: string;
    readonly amount_usd: number;
    readonly credits: number;
  };
  readonly "top_up.failed": {
    /** Withdrawn. */
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

/** Belongs in the transaction of the change that the event tells of. */
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
  await writeEvent(tx, { type, accountId, data: { ...data }, now }, webhookIds);
}

export const TEST_EVENT_TYPE = "webhook.test";

/** An event for one webhook only, whatever it subscribes to. Answers its delivery's id. */
export async function emitTestEvent(
  tx: Tx,
  accountId: string,
  webhookId: string,
  now: number,
): Promise<string> {
  const data = { webhook_id: webhookId, message: "This is a test. Nothing has happened." };
  const [id] = await writeEvent(tx, { type: TEST_EVENT_TYPE, accountId, data, now }, [webhookId]);
  if (id === undefined) throw new Error("a test has no delivery");
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

/** How long events and the log of their deliveries are kept. */
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

const DELIVERY_COLUMNS: readonly Column[] = [
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

async function writeEvent(
  tx: Tx,
  event: Omit<StoredEvent, "id" | "createdAt"> & { readonly now: number },
  webhookIds: readonly string[],
): Promise<readonly string[]> {
  const { type, accountId, data, now } = event;
  const eventId = newId("evt", now);
  await tx.run(
    "insert into event (id, account_id, type, created_at, data) values (?, ?, ?, ?, ?)",
    [eventId, accountId, type, now, JSON.stringify(data)],
  );
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
  await tx.insertMany("webhook_delivery", DELIVERY_COLUMNS, rows);
  return ids;
}
