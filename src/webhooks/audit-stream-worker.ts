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
import {
  decrypt,
  type DerivedKey,
  deriveKey,
  type MasterSecret,
} from "../base/crypto/encryption.ts";
import { newId } from "../base/id.ts";
import type { Log } from "../base/log.ts";
import { parseEndpoint, type ResolveHost } from "../base/network/public-endpoint.ts";
import { send, type SendResult } from "../base/network/send-to-endpoint.ts";
import { HOUR_MS, MINUTE_MS, SECOND_MS } from "../base/time.ts";
import type { Db } from "../store/db.ts";
import { otlpLogsJson } from "../telemetry/otlp-logs.ts";

/** Requests in flight at once. */
const STREAMS_MAX = 32;
const BATCH_MAX = 100;
/** After a failure, which can be the size of a batch. */
const BATCH_AFTER_FAILURE = 10;
const TIMEOUT_MS = 10 * SECOND_MS;
/** Longer than a request takes. */
const LEASE_MS = MINUTE_MS;
const FIRST_RETRY_MS = 5 * SECOND_MS;
const RETRY_MAX_MS = HOUR_MS;

export interface AuditStreamWorkerDeps {
  readonly db: Db;
  readonly log: Log;
  readonly now: () => number;
  readonly master: MasterSecret;
  /** Development only. */
  readonly allowLoopback: boolean;
  readonly resolve: ResolveHost;
}

export interface AuditStreamWorker {
  /** Starts sending a batch of each stream that is due, without waiting for the responses. */
  readonly tick: () => Promise<void>;
  /** Resolves when no request is in flight. */
  readonly idle: () => Promise<void>;
  /** Ends the requests in flight; their entries are sent again. */
  readonly stop: () => Promise<void>;
}

export function createAuditStreamWorker(deps: AuditStreamWorkerDeps): AuditStreamWorker {
  const { db, log, now } = deps;
  const abort = new AbortController();
  const key = deriveKey(deps.master, HEADER_PURPOSE);
  const inFlight = new Set<Promise<void>>();
  const start = (accountId: string): void => {
    const work = sendBatch(accountId, deps, key, abort.signal)
      .catch((error: unknown) =>
        log.error("failed to record an audit stream delivery", {
          account: accountId,
          cause: error,
        }),
      )
      .finally(() => void inFlight.delete(work));
    inFlight.add(work);
  };
  const idle = async (): Promise<void> => {
    while (inFlight.size > 0) await Promise.all(inFlight);
  };
  return {
    tick: async () => {
      const free = STREAMS_MAX - inFlight.size;
      if (abort.signal.aborted || free <= 0) return;
      // A stream with a request in flight is leased, so it is not due.
      for (const accountId of await listDueStreams(db, now(), free)) start(accountId);
    },
    idle,
    stop: async () => {
      abort.abort();
      await idle();
    },
  };
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
  const endpoint = parseEndpoint(stream.url, allowLoopback);
  const sent: SendResult =
    typeof endpoint === "string"
      ? { status: null, error: `the URL ${endpoint}`, response: "", retryAfterMs: 0 }
      : await send({
          endpoint,
          headers: { "user-agent": "Postern-Audit-Stream", ...headerOf(stream, key) },
          body: bodyOf(stream, entries),
          timeoutMs: TIMEOUT_MS,
          responseMaxBytes: 0,
          resolve,
          signal,
        });
  const error = errorOf(sent);
  const ended = { accountId, lease, now: now() };
  if (error === undefined) await db.write((tx) => recordDelivery(tx, ended, entries));
  else {
    const dueAt = ended.now + Math.max(retryDelayMs(stream.tries), sent.retryAfterMs);
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

function errorOf({ status, error }: SendResult): string | undefined {
  if (error !== null) return error;
  if (status !== null && status >= 200 && status < 300) return undefined;
  return status !== null && status >= 300 && status < 400
    ? "redirects are not followed"
    : `the endpoint answered ${status}`;
}

function retryDelayMs(tries: number): number {
  return Math.min(RETRY_MAX_MS, FIRST_RETRY_MS * 2 ** Math.min(tries, 20));
}
