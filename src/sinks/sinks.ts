// Sinks of a workspace: where the usage of its calls is sent. It owns the tables sink and sink_entry. A call is queued in the
// transaction of its charge, so none is lost, and a slow destination holds up no call.

import { setExportsUsage } from "../accounts/accounts.ts";
import { authorize } from "../accounts/members.ts";
import { type Act, recordAuditEntry } from "../activity/audit.ts";
import { emitEvent } from "../activity/events.ts";
import { deriveKey, encrypt } from "../base/crypto/encryption.ts";
import { Fault, invalid } from "../base/fault.ts";
import { newId } from "../base/id.ts";
import { checkHeaderValue, parseHeaderName } from "../base/network/endpoint-headers.ts";
import { type EndpointDeps, parseEndpoint } from "../base/network/public-endpoint.ts";
import { DAY_MS } from "../base/time.ts";
import { type Db, type Reader, text, type Tx } from "../store/db.ts";
import type { EncryptedColumn } from "../store/reencrypt-rows.ts";
import type { NewSink } from "./sink-record.ts";
import {
  deleteCalls,
  listSinks,
  nextPeriodAt,
  type Sink,
  type SinkSettings,
  toSink,
} from "./sink-rows.ts";

const SINKS_MAX = 5;
const HEADERS_MAX = 10;
const BUCKET = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;
const PREFIX = /^(?:[A-Za-z0-9!_.*'()=-]+\/){0,19}(?:[A-Za-z0-9!_.*'()=-]+\/?)?$/;
const ACCESS_KEY = /^[\w+/=-]{4,128}$/;
/** A sink is disabled if nothing was accepted for this long. */
const DISABLE_AFTER_MS = DAY_MS;

export const SINK_PURPOSE = "sink-secret/v1";

export function sinkBinding(accountId: string, name: string): string {
  return `${SINK_PURPOSE}|${accountId}|${name}`;
}

/** For the rotation of the master secret. */
export const SINK_SECRETS: EncryptedColumn = {
  table: "sink",
  column: "sealed",
  key: ["account_id", "name"],
  reads: [],
  deriveKey: (master) => deriveKey(master, SINK_PURPOSE),
  associatedData: (row) => sinkBinding(text(row, "account_id"), text(row, "name")),
};

/** Creates the sink, or replaces its settings; a disabled one is active again. Secrets that are left out are kept. */
export async function saveSink(
  tx: Tx,
  act: Act,
  { name, sink: wanted }: { readonly name: string; readonly sink: NewSink },
  { master, allowLoopback }: EndpointDeps,
): Promise<Sink> {
  const { accountId, now } = act;
  await authorize(tx, act, "sinks.change");
  // Serializes concurrent changes, so that the count is exact.
  const [account] = await tx.lockMany("account", "id", [accountId]);
  const all = await listSinks(tx, accountId);
  const before = all.find((one) => one.name === name);
  if (before === undefined && all.length >= SINKS_MAX) throw tooManySinks();
  if (wanted.type === "otlp" && wanted.include_texts && account?.["claimed_at"] !== null)
    rejectTextsByKey(act);
  const endpoint = parseEndpoint(wanted.url.trim(), allowLoopback);
  if (typeof endpoint === "string") throw invalid("url", `\`url\` ${endpoint}.`);
  const { settings, secret, kept } = settingsOf({ ...wanted, url: endpoint.url.href }, before);
  const sealed =
    secret === undefined
      ? kept
      : encrypt(deriveKey(master, SINK_PURPOSE), sinkBinding(accountId, name), secret);
  if (sealed === null && settings.type === "s3")
    throw invalid(
      "secret_access_key",
      "`secret_access_key` is required for this URL and access key.",
    );
  const dueAt = settings.type === "s3" ? nextPeriodAt(settings, now) : now;
  const queue = before?.queue ?? newId("dlv", now);
  await tx.run(
    `insert into sink (account_id, name, created_at, updated_at, kind, settings, sealed, queue, status, due_at, tries)
     values (?, ?, ?, ?, ?, ?, ?, ?, 'active', ?, 0)
     on conflict (account_id, name) do update set updated_at = excluded.updated_at, kind = excluded.kind, settings = excluded.settings,
       sealed = excluded.sealed, status = 'active', disabled_reason = null, due_at = excluded.due_at, lease = null,
       tries = 0, failing_since = null, last_error = null`,
    [
      accountId,
      name,
      before?.createdAt ?? now,
      now,
      settings.type,
      JSON.stringify(settings),
      sealed,
      queue,
      dueAt,
    ],
  );
  // A file that was begun has the name and the form of the former settings.
  await tx.run(
    "update sink_entry set object = null where account_id = ? and queue = ? and object is not null",
    [accountId, queue],
  );
  await setExportsUsage(tx, accountId, true);
  const detail = auditDetail(settings);
  await recordAuditEntry(tx, { ...act, action: "sink.saved", target: name, detail });
  return await getSink(tx, accountId, name);
}

/** Only people read logged prompts, so a key must not send them to a place of its own. */
function rejectTextsByKey({ actor }: Act): void {
  if (actor.type !== "key") return;
  throw new Fault("forbidden", "a key cannot send texts to a sink", {
    message:
      "The account is claimed: only people can set `include_texts`, on the Sinks page of the console.",
    param: "include_texts",
  });
}

interface CheckedSink {
  readonly settings: SinkSettings;
  /** Undefined if it was left out. */
  readonly secret: string | undefined;
  /** The encrypted secret that stays then: it is only ever sent to the URL, and for the access key, for which it was given. */
  readonly kept: string | null;
}

function settingsOf(wanted: NewSink, before: Sink | undefined): CheckedSink {
  return wanted.type === "otlp" ? otlpSettings(wanted, before) : s3Settings(wanted, before);
}

function otlpSettings(
  { type, url, headers, include_texts }: NewSink & { readonly type: "otlp" },
  former: Sink | undefined,
): CheckedSink {
  if (headers !== undefined) {
    const checked = checkedHeaders(headers);
    const settings = { type, url, headers: Object.keys(checked), include_texts };
    return { settings, secret: JSON.stringify(checked), kept: null };
  }
  const names = former?.settings.type === "otlp" ? former.settings.headers : [];
  if (names.length > 0 && former?.settings.url !== url)
    throw invalid(
      "headers",
      "The secret headers of this sink belong to its former URL. Enter them again for the new URL, or remove them: the API takes `headers: {}`.",
    );
  const kept = former !== undefined && names.length > 0 ? former.sealed : null;
  return { settings: { type, url, headers: names, include_texts }, secret: undefined, kept };
}

function s3Settings(
  { secret_access_key: secret, ...settings }: NewSink & { readonly type: "s3" },
  former: Sink | undefined,
): CheckedSink {
  if (!BUCKET.test(settings.bucket))
    throw invalid(
      "bucket",
      "`bucket` must be the name of a bucket: 3 to 63 letters, digits, - and .",
    );
  if (!isObjectPrefix(settings.prefix))
    throw invalid("prefix", "`prefix` must be the beginning of an object name, such as usage/.");
  if (!ACCESS_KEY.test(settings.access_key_id))
    throw invalid("access_key_id", "`access_key_id` must have 4 to 128 letters and digits.");
  if (secret !== undefined) checkHeaderValue(secret, "secret_access_key");
  const isSameKey =
    former?.settings.type === "s3" &&
    former.settings.url === settings.url &&
    former.settings.access_key_id === settings.access_key_id;
  return { settings, secret, kept: isSameKey ? former.sealed : null };
}

export function isObjectPrefix(prefix: string): boolean {
  return PREFIX.test(prefix) && !prefix.includes("..");
}

function checkedHeaders(headers: Readonly<Record<string, string>>) {
  const entries = Object.entries(headers);
  if (entries.length > HEADERS_MAX)
    throw invalid("headers", `\`headers\` must have at most ${HEADERS_MAX} headers.`);
  return Object.fromEntries(
    entries.map(([name, value]) => {
      const key = parseHeaderName(name.trim(), "headers");
      checkHeaderValue(value, `headers.${key}`);
      return [key, value];
    }),
  );
}

/** Has only the host of a URL: the path can contain a secret of the endpoint. */
function auditDetail(settings: SinkSettings) {
  const { host } = new URL(settings.url);
  return settings.type === "otlp"
    ? { type: settings.type, host, headers: settings.headers, texts: settings.include_texts }
    : { type: settings.type, host, bucket: settings.bucket, prefix: settings.prefix };
}

export async function getSink(reader: Reader, accountId: string, name: string): Promise<Sink> {
  const row = await reader.get("select * from sink where account_id = ? and name = ?", [
    accountId,
    name,
  ]);
  if (row === undefined)
    throw new Fault("not_found", "no such sink", {
      message: "No sink has this name. List them with GET /v1/sinks.",
      param: "name",
      next: [{ method: "GET", url: "/v1/sinks", why: "List the sinks." }],
    });
  return toSink(row);
}

/** What it has not sent yet is not sent any more. */
export async function deleteSink(tx: Tx, act: Act, name: string): Promise<void> {
  const { accountId } = act;
  await authorize(tx, act, "sinks.change");
  await tx.lockMany("account", "id", [accountId]);
  const { settings } = await getSink(tx, accountId, name);
  await tx.run("delete from sink where account_id = ? and name = ?", [accountId, name]);
  await setHasSinks(tx, accountId);
  const detail = auditDetail(settings);
  await recordAuditEntry(tx, { ...act, action: "sink.deleted", target: name, detail });
}

/** Whether later calls of the account are queued. */
async function setHasSinks(tx: Tx, accountId: string): Promise<void> {
  const row = await tx.get(
    "select name from sink where account_id = ? and status = 'active' limit 1",
    [accountId],
  );
  await setExportsUsage(tx, accountId, row !== undefined);
}

interface FailedRequest {
  readonly accountId: string;
  readonly name: string;
  readonly lease: string;
  readonly error: string;
  readonly dueAt: number;
  /** Failures in a row, with this one. */
  readonly tries: number;
  /** Calls that are not sent any more. */
  readonly leftOut: readonly string[];
  readonly now: number;
}

/** Returns the reason if this failure disabled the sink. */
export async function recordSinkFailure(
  tx: Tx,
  { accountId, name, lease, error, dueAt, tries, leftOut, now }: FailedRequest,
): Promise<string | undefined> {
  await tx.lockMany("account", "id", [accountId]);
  const row = await tx.get(
    `update sink set lease = null, due_at = ?, tries = ?, failing_since = coalesce(failing_since, ?), last_error = ?
     where account_id = ? and name = ? and lease = ? and status = 'active' returning *`,
    [dueAt, tries, now, error, accountId, name, lease],
  );
  const sink = row && toSink(row);
  if (sink !== undefined) await deleteCalls(tx, sink, leftOut);
  if (sink === undefined || now - (sink.failingSince ?? now) < DISABLE_AFTER_MS) return undefined;
  const reason = `nothing was accepted for a day: ${error}`;
  await tx.run(
    "update sink set status = 'disabled', disabled_reason = ?, queue = ? where account_id = ? and name = ?",
    [reason, newId("dlv", now), accountId, name],
  );
  await setHasSinks(tx, accountId);
  const actor = { type: "system", id: "sinks" } as const;
  const entry = { accountId, actor, action: "sink.disabled", target: name } as const;
  await recordAuditEntry(tx, { ...entry, detail: { reason }, network: null, now });
  const data = { sink: name, host: new URL(sink.settings.url).host, reason };
  await emitEvent(tx, { type: "sink.disabled", accountId, data, now });
  return reason;
}

export interface QueuedCall {
  readonly accountId: string;
  readonly id: string;
  readonly at: number;
}

/** For calls of accounts that export their usage, in the transaction of their charges. */
export async function queueForSinks(tx: Tx, calls: readonly QueuedCall[]): Promise<void> {
  for (const { accountId, id, at } of calls)
    await tx.run(
      `insert into sink_entry (account_id, queue, call_id, created_at)
       select account_id, queue, ?, ? from sink where account_id = ? and status = 'active'
       on conflict (account_id, queue, call_id) do nothing`,
      [id, at, accountId],
    );
}

/** Calls that were not accepted for this long, or that no sink sends any more, are dropped; the usage records stay. */
const QUEUE_DAYS = 7;

const SWEPT_ROWS_MAX = 500;

export async function sweepSinkEntries(db: Db, now: number): Promise<void> {
  const sweep = (tx: Tx): Promise<number> =>
    tx.run(
      `delete from sink_entry where (account_id, queue, call_id) in
         (select account_id, queue, call_id from sink_entry where created_at < ? limit ?)`,
      [now - QUEUE_DAYS * DAY_MS, SWEPT_ROWS_MAX],
    );
  while ((await db.write(sweep)) === SWEPT_ROWS_MAX)
    await new Promise((resolve) => setImmediate(resolve));
}

export async function countQueuedCalls(
  reader: Reader,
  accountId: string,
): Promise<ReadonlyMap<string, number>> {
  const rows = await reader.all(
    `select sink.name, count(*) as count from sink
     join sink_entry on sink_entry.account_id = sink.account_id and sink_entry.queue = sink.queue
     where sink.account_id = ? group by sink.name`,
    [accountId],
  );
  return new Map(rows.map((row) => [text(row, "name"), Number(row["count"])]));
}

function tooManySinks(): Fault {
  return new Fault("conflict", "too many sinks", {
    message: `A workspace can have ${SINKS_MAX} sinks. Delete one first.`,
    next: [{ method: "GET", url: "/v1/sinks", why: "List the sinks." }],
  });
}
