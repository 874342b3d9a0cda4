// Sends audit logs to their destinations: in order, at least once, and again with growing pauses until they are accepted.

import { toOwnAuditRecord } from "../activity/audit-record.ts";
import {
  type AuditStream,
  HEADER_PURPOSE,
  headerBinding,
  leaseStream,
  listDueStreams,
  readQueue,
  recordDelivery,
  recordStreamFailure,
} from "../activity/audit-stream-rows.ts";
import type { AuditEntry } from "../activity/audit.ts";
import { createLeasedWork, type LeasedWork } from "../base/async/leased-work.ts";
import {
  decrypt,
  type DerivedKey,
  deriveKey,
  type MasterSecret,
} from "../base/crypto/encryption.ts";
import { newId } from "../base/id.ts";
import type { Log } from "../base/log.ts";
import { parseEndpoint, type ResolveHost } from "../base/network/public-endpoint.ts";
import { backoffMs, failureOf, send } from "../base/network/send-to-endpoint.ts";
import { MINUTE_MS, SECOND_MS } from "../base/time.ts";
import type { Db } from "../store/db.ts";
import { otlpLogsJson } from "../telemetry/otlp.ts";

/** Requests in flight at once. */
const STREAMS_MAX = 32;
const BATCH_MAX = 100;
/** After a failure, which can be the size of a batch. */
const BATCH_AFTER_FAILURE = 10;
const TIMEOUT_MS = 10 * SECOND_MS;
/** Longer than a request takes. */
const LEASE_MS = MINUTE_MS;

export interface AuditStreamWorkerDeps {
  readonly db: Db;
  readonly log: Log;
  readonly now: () => number;
  readonly master: MasterSecret;
  /** Development only. */
  readonly allowLoopback: boolean;
  readonly resolve: ResolveHost;
}

/** Sends a batch of each stream that is due. A stream with a request in flight is leased, so it is not due. */
export function createAuditStreamWorker(deps: AuditStreamWorkerDeps): LeasedWork {
  const { db, log, now } = deps;
  const key = deriveKey(deps.master, HEADER_PURPOSE);
  return createLeasedWork<string>({
    max: STREAMS_MAX,
    listDue: (limit) => listDueStreams(db, now(), limit),
    run: (accountId, signal) => sendBatch(accountId, deps, key, signal),
    onError: (account, cause) =>
      log.error("failed to record an audit stream delivery", { account, cause }),
  });
}

async function sendBatch(
  accountId: string,
  { db, now, allowLoopback, resolve }: AuditStreamWorkerDeps,
  key: DerivedKey,
  signal: AbortSignal,
): Promise<void> {
  const at = now();
  const lease = newId("dlv", at);
  const until = at + LEASE_MS;
  const stream = await db.write((tx) => leaseStream(tx, { accountId, lease, until, now: at }));
  if (stream === undefined) return;
  const limit = stream.tries === 0 ? BATCH_MAX : BATCH_AFTER_FAILURE;
  const entries = await readQueue(db, accountId, limit);
  const sent = await send({
    endpoint: parseEndpoint(stream.url, allowLoopback),
    headers: { "user-agent": "Postern-Audit-Stream", ...headerOf(stream, key) },
    body: bodyOf(stream, entries),
    timeoutMs: TIMEOUT_MS,
    responseMaxBytes: 0,
    resolve,
    signal,
  });
  const error = failureOf(sent);
  const ended = { accountId, lease, now: now() };
  if (error === undefined) await db.write((tx) => recordDelivery(tx, ended, entries));
  else {
    const dueAt = ended.now + backoffMs(stream.tries, sent.retryAfterMs);
    await db.write((tx) => recordStreamFailure(tx, ended, { error, dueAt }));
  }
}

function headerOf(
  { accountId, headerName, sealed }: AuditStream,
  key: DerivedKey,
): Readonly<Record<string, string>> {
  if (headerName === null || sealed === null) return {};
  return { [headerName]: decrypt(key, headerBinding(accountId), sealed) };
}

function bodyOf({ kind }: AuditStream, entries: readonly AuditEntry[]): string {
  if (kind === "webhook")
    return JSON.stringify({ object: "list", data: entries.map(toOwnAuditRecord) });
  const records = entries.map((entry) => {
    const {
      id,
      actor,
      action,
      target,
      detail,
      account_id: accountId,
      ip,
    } = toOwnAuditRecord(entry);
    return {
      at: entry.at,
      eventName: action,
      body: action,
      attributes: {
        "audit.id": id,
        "audit.actor.type": actor.type,
        "audit.actor.id": actor.id,
        "audit.target": target ?? undefined,
        "audit.detail": JSON.stringify(detail),
        "audit.account.id": accountId ?? undefined,
        "client.address": ip ?? undefined,
      },
    };
  });
  return otlpLogsJson({ serviceName: "postern", name: "postern.audit" }, records);
}
