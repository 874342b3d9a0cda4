// Carries out deliveries. Several processes may do so on one store: each takes what is due, and what one has taken no
// other sees until its time is over. A delivery may arrive twice, after a crash, and never not at all.

import type { Log } from "../base/log.ts";
import { newId } from "../base/id.ts";
import { record } from "../audit/audit.ts";
import { DAY_MS, HOUR_MS } from "../base/time.ts";
import { type Db, text, type Tx } from "../store/db.ts";
import { clampDueTimes, type DueTable } from "../store/clamp-due.ts";
import {
  cancelDelivery,
  hasDue,
  releaseLease,
  recordAttempt,
  type LeasedDelivery,
  leaseDue,
  type AttemptOutcome,
} from "./deliveries.ts";
import { parseEndpoint, type ResolveHost } from "./endpoint.ts";
import { sweepEvents, toStoredEvent } from "../events/events.ts";
import { retryDelayMs, ATTEMPTS_MAX } from "./backoff.ts";
import { resolveHost, send, type SendResult } from "./send.ts";
import { signatureHeaders } from "./signature.ts";
import { disableWebhook, recordFailure, recordSuccess, type Webhooks } from "./webhooks.ts";

const CONCURRENCY = 64;
const TIMEOUT_MS = 10_000;
/** How long calls that are under way may take once the process is asked to stop. */
const DRAIN_MS = 4_000;
/** A webhook is disabled when a delivery is given up and nothing has arrived for so long. */
const DISABLE_AFTER_MS = DAY_MS;
const HTTP_GONE = 410;
/** No pause between two tries is longer than a day. */
const DUE_TABLE: DueTable = {
  table: "webhook_delivery",
  where: "status = 'pending'",
  maxAheadMs: 2 * DAY_MS,
};

export interface DeliveryWorkerDeps {
  readonly db: Db;
  readonly log: Log;
  readonly now: () => number;
  readonly webhooks: Webhooks;
  readonly allowLoopback: boolean;
  readonly resolve?: ResolveHost;
  readonly timeoutMs?: number;
  readonly drainMs?: number;
  /** From 0 to 1; spreads the pauses. */
  readonly random?: () => number;
}

export interface DeliveryWorker {
  /** Begins to send what is due, and does not wait for the answers. */
  readonly tick: () => Promise<void>;
  /** Resolves when no call is under way. */
  readonly idle: () => Promise<void>;
  /** Takes nothing more; calls that are under way end, or are given back. */
  readonly stop: () => Promise<void>;
  readonly sweep: () => Promise<void>;
}

export function createDeliveryWorker(deps: DeliveryWorkerDeps): DeliveryWorker {
  const { db, log, now } = deps;
  const abort = new AbortController();
  const busy = new Map<string, Promise<void>>();
  let leasing: Promise<void> = Promise.resolve();

  const leaseBatch = async (): Promise<void> => {
    const limit = CONCURRENCY - busy.size;
    if (stopping || limit <= 0 || !(await hasDue(db, now()))) return;
    const lease = newId("dlv", now());
    const leased = await db.write((tx) =>
      leaseDue(tx, { now: now(), limit, lease, busyWebhookIds: [...busy.keys()] }),
    );
    for (const one of leased) {
      const work = deliver(one, deps, abort.signal)
        .catch((error: unknown) =>
          log.error("a delivery was not noted", { delivery: one.id, cause: error }),
        )
        .then(() => {
          busy.delete(one.webhookId);
          // What waited behind this one may go at once.
          void tick().catch(() => {});
        });
      busy.set(one.webhookId, work);
    }
  };
  const tick: DeliveryWorker["tick"] = () => {
    leasing = leasing.catch(() => {}).then(leaseBatch);
    return leasing;
  };
  const idle = async (): Promise<void> => {
    await leasing.catch(() => {});
    while (busy.size > 0) {
      await Promise.all(busy.values());
      await leasing.catch(() => {});
    }
  };
  let stopping = false;
  return {
    tick,
    idle,
    stop: async () => {
      stopping = true;
      const timer = setTimeout(() => abort.abort(), deps.drainMs ?? DRAIN_MS);
      await idle();
      clearTimeout(timer);
    },
    sweep: async () => {
      await clampDueTimes(db, DUE_TABLE, now());
      await db.write((tx) => sweepEvents(tx, now()));
    },
  };
}

async function deliver(
  delivery: LeasedDelivery,
  deps: DeliveryWorkerDeps,
  signal: AbortSignal,
): Promise<void> {
  const { db, log, now } = deps;
  // It was disabled between the event and now, where both changes missed each other.
  if (text(delivery.webhook, "status") !== "active") {
    await db.write((tx) => cancelDelivery(tx, delivery, now()));
    return;
  }
  const at = now();
  const began = performance.now();
  const sent = await attemptDelivery(delivery, deps, signal);
  if (signal.aborted && sent.status === null) {
    await db.write((tx) => releaseLease(tx, delivery, now()));
    return;
  }
  const outcome = outcomeOf(delivery, sent, {
    at,
    durationMs: Math.round(performance.now() - began),
    now: now(),
    random: (deps.random ?? Math.random)(),
  });
  const disabled = await db.write((tx) => recordOutcome(tx, delivery, outcome));
  if (disabled !== undefined)
    log.warn("a webhook was disabled", { webhook: delivery.webhookId, reason: disabled });
}

async function attemptDelivery(
  delivery: LeasedDelivery,
  deps: DeliveryWorkerDeps,
  signal: AbortSignal,
): Promise<SendResult> {
  const { webhook, event, tries } = delivery;
  const refused = (error: string): SendResult => ({
    status: null,
    error,
    response: "",
    retryAfterMs: 0,
  });
  // A process that dies while it calls has tried: otherwise what kills it would be tried for ever.
  if (tries > ATTEMPTS_MAX) return refused("the gateway stopped during the last try");
  const endpoint = parseEndpoint(text(webhook, "url"), deps.allowLoopback);
  if (typeof endpoint === "string") return refused(`the address ${endpoint}`);
  const body = bodyOf(toStoredEvent(event));
  const at = deps.now();
  const signed = { id: text(event, "id"), at, body };
  return await send({
    endpoint,
    headers: signatureHeaders(signed, deps.webhooks.secretsOf(webhook, at)),
    body,
    timeoutMs: deps.timeoutMs ?? TIMEOUT_MS,
    resolve: deps.resolve ?? resolveHost,
    signal,
  });
}

/** The same to the byte at every try. `timestamp` is Standard Webhooks' name for it, `created_at` is this API's. */
function bodyOf(event: ReturnType<typeof toStoredEvent>): string {
  const { id, type, createdAt, accountId, data } = event;
  const at = new Date(createdAt).toISOString();
  return JSON.stringify({ id, type, timestamp: at, created_at: at, account_id: accountId, data });
}

interface AttemptTiming {
  readonly at: number;
  readonly durationMs: number;
  readonly now: number;
  readonly random: number;
}

function outcomeOf(
  delivery: LeasedDelivery,
  sent: SendResult,
  { at, durationMs, now, random }: AttemptTiming,
): AttemptOutcome {
  const { status, response, error } = sent;
  const attempt = { at, durationMs, status, error: error ?? errorOf(status), response };
  if (isSuccess(status)) return { status: "delivered", attempt, dueAt: now, endedAt: now };
  const pause =
    status === HTTP_GONE ? undefined : retryDelayMs(delivery.tries, random, sent.retryAfterMs);
  return pause === undefined
    ? { status: "failed", attempt, dueAt: now, endedAt: now }
    : { status: "pending", attempt, dueAt: now + pause, endedAt: null };
}

function errorOf(status: number | null): string | null {
  if (isSuccess(status)) return null;
  return status !== null && status >= 300 && status < 400
    ? "redirects are not followed"
    : `the endpoint answered ${status}`;
}

/** Answers why the webhook was disabled, where it was. */
async function recordOutcome(
  tx: Tx,
  delivery: LeasedDelivery,
  outcome: AttemptOutcome,
): Promise<string | undefined> {
  const { webhookId: id, accountId } = delivery;
  const { at } = outcome.attempt;
  if (!(await recordAttempt(tx, delivery, outcome))) return undefined;
  if (outcome.status === "delivered") {
    await recordSuccess(tx, id);
    return undefined;
  }
  const since = await recordFailure(tx, id, at);
  const reason = disableReason(outcome, at - since);
  if (reason === undefined || !(await disableWebhook(tx, id, reason, at))) return undefined;
  await record(tx, {
    accountId,
    actor: { type: "system", id: "webhooks" },
    action: "webhook.disabled",
    target: id,
    detail: { reason },
    network: null,
    now: at,
  });
  return reason;
}

function disableReason({ status, attempt }: AttemptOutcome, failingMs: number): string | undefined {
  if (attempt.status === HTTP_GONE) return "the endpoint answered 410 Gone";
  return status === "failed" && failingMs >= DISABLE_AFTER_MS
    ? `nothing was delivered for ${Math.floor(failingMs / HOUR_MS)} hours`
    : undefined;
}

function isSuccess(status: number | null): boolean {
  return status !== null && status >= 200 && status < 300;
}
