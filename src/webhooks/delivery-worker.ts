// Sends due deliveries. Workers of several processes can share one store, because each delivery is leased by one of
// them at a time. Delivery is at least once: after a crash an event can arrive twice.

import { recordAuditEntry } from "../activity/audit.ts";
import {
  type AttemptOutcome,
  DELIVERY_DUE_TABLE,
  type LeasedDelivery,
  cancelDelivery,
  hasDue,
  leaseDue,
  recordAttempt,
  releaseLease,
} from "../activity/deliveries.ts";
import { deliveryBody } from "../activity/event-record.ts";
import { emitEvent, sweepEvents, toStoredEvent } from "../activity/events.ts";
import { disableWebhook, recordFailure, recordSuccess } from "../activity/webhook-rows.ts";
import { signatureHeaders } from "../activity/webhook-signature.ts";
import { newId } from "../base/id.ts";
import type { Log } from "../base/log.ts";
import { type ResolveHost, parseEndpoint, resolveHost } from "../base/network/public-endpoint.ts";
import { failureOf, type SendResult, send } from "../base/network/send-to-endpoint.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from "../base/time.ts";
import { clampDueTimes } from "../store/clamp-due.ts";
import { type Db, type Tx, text } from "../store/db.ts";
import { type Webhooks } from "./webhooks.ts";

const CONCURRENCY = 64;
const TIMEOUT_MS = 10_000;
const RESPONSE_STORED_BYTES = 1_024;
/** How long requests in flight may take after shutdown began. */
const DRAIN_MS = 4_000;
/** A webhook is disabled when a delivery has failed and no attempt succeeded for this long. */
const DISABLE_AFTER_MS = DAY_MS;
const HTTP_GONE = 410;

export interface DeliveryWorkerDeps {
  readonly db: Db;
  readonly log: Log;
  readonly now: () => number;
  readonly webhooks: Webhooks;
  readonly allowLoopback: boolean;
  readonly resolve?: ResolveHost;
  readonly timeoutMs?: number;
  readonly drainMs?: number;
  /** From 0 to 1; adds jitter to the retry delays. */
  readonly random?: () => number;
}

export interface DeliveryWorker {
  /** Starts sending the due deliveries without waiting for the responses. */
  readonly tick: () => Promise<void>;
  /** Resolves when no request is in flight. */
  readonly idle: () => Promise<void>;
  /** Leases nothing more; requests in flight end, or their deliveries are released after the drain time. */
  readonly stop: () => Promise<void>;
  readonly sweep: () => Promise<void>;
}

export function createDeliveryWorker(deps: DeliveryWorkerDeps): DeliveryWorker {
  const { db, log, now } = deps;
  const abort = new AbortController();
  /** The account of each webhook that is called. */
  const busy = new Map<string, string>();
  const inFlight = new Set<Promise<void>>();
  let leasing: Promise<void> = Promise.resolve();
  let isStopping = false;

  const leaseBatch = async (): Promise<void> => {
    const limit = CONCURRENCY - busy.size;
    if (isStopping || limit <= 0 || !(await hasDue(db, now()))) return;
    const lease = newId("dlv", now());
    const leased = await db.write((tx) => leaseDue(tx, { now: now(), limit, lease, busy }));
    for (const delivery of leased) {
      const work = deliver(delivery, deps, abort.signal)
        .catch((error: unknown) =>
          log.error("failed to record a webhook delivery attempt", {
            delivery: delivery.id,
            cause: error,
          }),
        )
        .then(() => {
          inFlight.delete(work);
          busy.delete(delivery.webhookId);
          // The next delivery of this webhook may be due already.
          void tick().catch(() => {});
        });
      busy.set(delivery.webhookId, delivery.accountId);
      inFlight.add(work);
    }
  };
  const tick: DeliveryWorker["tick"] = () => {
    leasing = leasing.catch(() => {}).then(leaseBatch);
    return leasing;
  };
  const idle = async (): Promise<void> => {
    for (let awaited: Promise<void> | undefined; awaited !== leasing;) {
      awaited = leasing;
      await awaited.catch(() => {});
      // Each of them leases again when it has ended.
      await Promise.all(inFlight);
    }
  };
  return {
    tick,
    idle,
    stop: async () => {
      isStopping = true;
      const timer = setTimeout(() => abort.abort(), deps.drainMs ?? DRAIN_MS);
      await idle();
      clearTimeout(timer);
    },
    sweep: async () => {
      await clampDueTimes(db, DELIVERY_DUE_TABLE, now());
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
  // The webhook was disabled while the event was emitted; neither transaction saw the other.
  if (text(delivery.webhook, "status") !== "active") {
    await db.write((tx) => cancelDelivery(tx, delivery, now()));
    return;
  }
  const at = now();
  const startedAt = performance.now();
  const sent = await attemptDelivery(delivery, deps, signal);
  if (signal.aborted && sent.status === null) {
    await db.write((tx) => releaseLease(tx, delivery, now()));
    return;
  }
  const outcome = outcomeOf(delivery, sent, {
    at,
    durationMs: Math.round(performance.now() - startedAt),
    now: now(),
    random: (deps.random ?? Math.random)(),
  });
  const disabled = await db.write((tx) => recordOutcome(tx, delivery, outcome));
  if (disabled !== undefined)
    log.warn("webhook disabled", { webhook: delivery.webhookId, reason: disabled });
}

async function attemptDelivery(
  delivery: LeasedDelivery,
  deps: DeliveryWorkerDeps,
  signal: AbortSignal,
): Promise<SendResult> {
  const { webhook, event, tries } = delivery;
  // The lease counts as an attempt, so a delivery that crashes the process is not retried forever.
  if (tries > ATTEMPTS_MAX) {
    const error = "the gateway stopped during the last attempt";
    return { status: null, error, response: "", retryAfterMs: 0 };
  }
  const body = deliveryBody(toStoredEvent(event));
  const at = deps.now();
  const signed = { id: text(event, "id"), at, body };
  return await send({
    endpoint: parseEndpoint(text(webhook, "url"), deps.allowLoopback),
    headers: {
      "user-agent": "Postern-Webhooks",
      ...signatureHeaders(signed, deps.webhooks.secretsOf(webhook, at)),
    },
    body,
    timeoutMs: deps.timeoutMs ?? TIMEOUT_MS,
    responseMaxBytes: RESPONSE_STORED_BYTES,
    resolve: deps.resolve ?? resolveHost,
    signal,
  });
}

function printable(text: string): string {
  return text.replaceAll(/[^\P{C}\n\t]/gu, "\u{fffd}");
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
  const { status, response } = sent;
  const error = failureOf(sent) ?? null;
  const attempt = { at, durationMs, status, error, response: printable(response) };
  if (error === null) return { status: "delivered", attempt, dueAt: now, endedAt: now };
  const delayMs =
    status === HTTP_GONE ? undefined : retryDelayMs(delivery.tries, random, sent.retryAfterMs);
  return delayMs === undefined
    ? { status: "failed", attempt, dueAt: now, endedAt: now }
    : { status: "pending", attempt, dueAt: now + delayMs, endedAt: null };
}

/** Returns the reason if this attempt disabled the webhook. */
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
  await recordAuditEntry(tx, {
    accountId,
    actor: { type: "system", id: "webhooks" },
    action: "webhook.disabled",
    target: id,
    detail: { reason },
    network: null,
    now: at,
  });
  const { host } = new URL(text(delivery.webhook, "url"));
  const data = { webhook_id: id, host, reason };
  await emitEvent(tx, { type: "webhook.disabled", accountId, data, now: at });
  return reason;
}

function disableReason({ status, attempt }: AttemptOutcome, failingMs: number): string | undefined {
  if (attempt.status === HTTP_GONE) return "the endpoint answered 410 Gone";
  return status === "failed" && failingMs >= DISABLE_AFTER_MS
    ? `nothing was delivered for ${Math.floor(failingMs / HOUR_MS)} hours`
    : undefined;
}

/** The delays after the first, second … failed attempt; after the last one the delivery has failed. */
const RETRY_DELAYS_MS = [
  5 * SECOND_MS,
  MINUTE_MS,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  2 * HOUR_MS,
  8 * HOUR_MS,
  24 * HOUR_MS,
] as const;

export const ATTEMPTS_MAX = RETRY_DELAYS_MS.length + 1;
const JITTER = 0.2;
const RETRY_AFTER_MAX_MS = 24 * HOUR_MS;

/**
 * The delay after the given number of failed attempts; undefined if there are no further attempts. `random`, from 0 to 1,
 * adds jitter, so that deliveries that failed together are not retried together. `retry-after` can only lengthen it.
 */
export function retryDelayMs(tries: number, random: number, retryAfterMs = 0): number | undefined {
  const delay = RETRY_DELAYS_MS[tries - 1];
  if (delay === undefined) return undefined;
  const jittered = Math.round(delay * (1 - JITTER + 2 * JITTER * random));
  return Math.max(jittered, Math.min(retryAfterMs, RETRY_AFTER_MAX_MS));
}
