// Rows of the tables sink and sink_entry, as the worker leases and reads them.

import { DAY_MS, HOUR_MS } from "../base/time.ts";
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

export interface OtlpSettings {
  readonly type: "otlp";
  readonly url: string;
  /** The names of the headers; the values are secrets. */
  readonly headers: readonly string[];
  /** Requests and replies of keys with prompt logging. */
  readonly include_texts: boolean;
}

export interface S3Settings {
  readonly type: "s3";
  readonly url: string;
  readonly bucket: string;
  readonly prefix: string;
  readonly region: string;
  readonly access_key_id: string;
  readonly format: "jsonl" | "csv";
  readonly every: "hour" | "day";
}

export type SinkSettings = OtlpSettings | S3Settings;

export const SINK_STATUSES = ["active", "disabled"] as const;

export interface Sink {
  readonly accountId: string;
  readonly name: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly settings: SinkSettings;
  /** The encrypted headers, as JSON, or the secret access key. */
  readonly sealed: string | null;
  /** The id of its queue: without a sink that has it, a queue is not sent, and is swept later. */
  readonly queue: string;
  readonly status: (typeof SINK_STATUSES)[number];
  readonly disabledReason: string | null;
  readonly tries: number;
  readonly failingSince: number | null;
  readonly lastError: string | null;
  readonly deliveredAt: number | null;
}

export function toSink(row: Row): Sink {
  return {
    accountId: text(row, "account_id"),
    name: text(row, "name"),
    createdAt: integer(row, "created_at"),
    updatedAt: integer(row, "updated_at"),
    // Safe because only `saveSink` writes this column.
    settings: JSON.parse(text(row, "settings")) as SinkSettings,
    sealed: textOrNull(row, "sealed"),
    queue: text(row, "queue"),
    status: enumValue(row, "status", SINK_STATUSES),
    disabledReason: textOrNull(row, "disabled_reason"),
    tries: integer(row, "tries"),
    failingSince: integerOrNull(row, "failing_since"),
    lastError: textOrNull(row, "last_error"),
    deliveredAt: integerOrNull(row, "delivered_at"),
  };
}

export async function listSinks(reader: Reader, accountId: string): Promise<readonly Sink[]> {
  const rows = await reader.all("select * from sink where account_id = ? order by name", [
    accountId,
  ]);
  return rows.map(toSink);
}

function periodMs({ every }: S3Settings): number {
  return every === "hour" ? HOUR_MS : DAY_MS;
}

/** When the current period ends, in UTC. */
export function nextPeriodAt(settings: S3Settings, now: number): number {
  const length = periodMs(settings);
  return (Math.floor(now / length) + 1) * length;
}

/** The start of the last period that has ended. */
export function endedPeriodAt(settings: S3Settings, now: number): number {
  return nextPeriodAt(settings, now) - 2 * periodMs(settings);
}

export interface SinkId {
  readonly accountId: string;
  readonly name: string;
}

/**
 * The active sinks that are due, those that fail last, and first those of accounts with the fewest requests in flight: slow
 * destinations of one account do not delay the sinks of others. Of a bucket also without calls: its next object is due a period later.
 */
export async function listDueSinks(
  reader: Reader,
  now: number,
  limit: number,
): Promise<readonly SinkId[]> {
  const rows = await reader.all(
    `select account_id, name from (
       select account_id, name, due_at, case when tries = 0 then 0 else 1 end as is_failing,
         row_number() over (partition by account_id order by case when tries = 0 then 0 else 1 end, due_at, name)
           + (select count(*) from sink as busy
              where busy.account_id = sink.account_id and busy.lease is not null and busy.due_at > ?) as queue_position
       from sink where status = 'active' and due_at <= ? and (kind = 's3' or exists
         (select 1 from sink_entry where sink_entry.account_id = sink.account_id and sink_entry.queue = sink.queue))
     ) as due order by is_failing, queue_position, due_at, account_id, name limit ?`,
    [now, now, limit],
  );
  return rows.map((row) => ({ accountId: text(row, "account_id"), name: text(row, "name") }));
}

type SinkQueue = Pick<Sink, "accountId" | "queue">;

export interface SinkLease extends SinkId {
  readonly lease: string;
  readonly now: number;
}

/** Undefined if another process was first. `until`: when another process may take over. */
export async function leaseSink(
  tx: Tx,
  { accountId, name, lease, now }: SinkLease,
  until: number,
): Promise<Sink | undefined> {
  const row = await tx.get(
    `update sink set lease = ?, due_at = ? where account_id = ? and name = ? and due_at <= ? and status = 'active'
     returning *`,
    [lease, until, accountId, name, now],
  );
  return row && toSink(row);
}

/** The ids of the oldest calls of the queue. */
export async function readQueuedCalls(
  reader: Reader,
  { accountId, queue }: SinkQueue,
  limit: number,
): Promise<readonly string[]> {
  const rows = await reader.all(
    "select call_id from sink_entry where account_id = ? and queue = ? order by call_id limit ?",
    [accountId, queue, limit],
  );
  return rows.map((row) => text(row, "call_id"));
}

/** An object of a bucket, and the ids of its calls. */
export interface SinkObject {
  readonly name: string;
  readonly calls: readonly string[];
}

/**
 * The object to write. Its calls are fixed in the store before it is sent, so each retry writes the same object under the same
 * name, also in another process. Undefined if no call waits.
 */
export async function fixObject(
  tx: Tx,
  { accountId, queue }: SinkQueue,
  { limit, nameOf }: { readonly limit: number; readonly nameOf: (firstCall: string) => string },
): Promise<SinkObject | undefined> {
  const [first] = await readObject(tx, { accountId, queue });
  if (first === undefined) {
    const calls = await readQueuedCalls(tx, { accountId, queue }, limit);
    const [firstCall, lastCall] = [calls[0], calls.at(-1)];
    if (firstCall === undefined || lastCall === undefined) return undefined;
    await tx.run(
      "update sink_entry set object = ? where account_id = ? and queue = ? and call_id <= ?",
      [nameOf(firstCall), accountId, queue, lastCall],
    );
  }
  const fixed = await readObject(tx, { accountId, queue });
  const object = fixed[0]?.object;
  return object === undefined
    ? undefined
    : { name: object, calls: fixed.map(({ callId }) => callId) };
}

async function readObject(reader: Reader, { accountId, queue }: SinkQueue) {
  const rows = await reader.all(
    `select call_id, object from sink_entry where account_id = ? and queue = ? and object is not null
     order by call_id`,
    [accountId, queue],
  );
  return rows.map((row) => ({ callId: text(row, "call_id"), object: text(row, "object") }));
}

const DELETED_MAX = 500;

/** From the queue of a sink. */
export async function deleteCalls(
  tx: Tx,
  { accountId, queue }: SinkQueue,
  calls: readonly string[],
): Promise<void> {
  for (let at = 0; at < calls.length; at += DELETED_MAX) {
    const some = calls.slice(at, at + DELETED_MAX);
    await tx.run(
      `delete from sink_entry where account_id = ? and queue = ? and call_id in (${some.map(() => "?").join(", ")})`,
      [accountId, queue, ...some],
    );
  }
}

export async function recordSent(
  tx: Tx,
  { accountId, name, lease, now }: SinkLease,
  {
    queue,
    calls,
    dueAt,
  }: { readonly queue: string; readonly calls: readonly string[]; readonly dueAt: number },
): Promise<void> {
  await deleteCalls(tx, { accountId, queue }, calls);
  await tx.run(
    `update sink set lease = null, due_at = ?, tries = 0, failing_since = null, last_error = null, delivered_at = ?
     where account_id = ? and name = ? and lease = ?`,
    [dueAt, now, accountId, name, lease],
  );
}

/** No call waits. */
export async function releaseSink(
  tx: Tx,
  { accountId, name, lease }: Omit<SinkLease, "now">,
  dueAt: number,
): Promise<void> {
  await tx.run(
    "update sink set lease = null, due_at = ? where account_id = ? and name = ? and lease = ?",
    [dueAt, accountId, name, lease],
  );
}
