// Carries out deliveries. Several processes may do so on one store: each takes what is due, and what one has taken no
// other sees until its time is over. A delivery may arrive twice, after a crash, and never not at all.

import type { Log } from "../base/log.ts";
import { newId } from "../base/id.ts";
import { record } from "../audit/audit.ts";
import { type Db, text, type Tx } from "../store/db.ts";
import { bringForward, type DueTable } from "../store/due.ts";
import {
  cancel,
  isAnyDue,
  letGo,
  noteAttempt,
  type Taken,
  takeDue,
  type Verdict,
} from "./deliveries.ts";
import { readEndpoint, type Resolve } from "./endpoint.ts";
import { sweepEvents, toEvent } from "./events.ts";
import { pauseAfter, TRIES_MAX } from "./schedule.ts";
import { resolveName, send, type Sent } from "./send.ts";
import { signatureHeaders } from "./signature.ts";
import { disableWebhook, noteFailure, noteSuccess, type Webhooks } from "./webhooks.ts";

const CONCURRENCY = 64;
const TIMEOUT_MS = 10_000;
/** How long calls that are under way may take once the process is asked to stop. */
const DRAIN_MS = 4_000;
/** A webhook is disabled when a delivery is given up and nothing has arrived for so long. */
const FAILING_MS = 86_400_000;
const GONE = 410;
/** No pause between two tries is longer than a day. */
const DUE: DueTable = {
  table: "webhook_delivery",
  where: "status = 'pending'",
  mostMs: 2 * 86_400_000,
};

export interface PostmanParts {
  readonly db: Db;
  readonly log: Log;
  readonly now: () => number;
  readonly webhooks: Webhooks;
  readonly allowLoopback: boolean;
  readonly resolve?: Resolve;
  readonly timeoutMs?: number;
  readonly drainMs?: number;
  /** From 0 to 1; spreads the pauses. */
  readonly chance?: () => number;
}

export interface Postman {
  /** Begins to send what is due, and does not wait for the answers. */
  readonly tick: () => Promise<void>;
  /** Resolves when no call is under way. */
  readonly idle: () => Promise<void>;
  /** Takes nothing more; calls that are under way end, or are given back. */
  readonly stop: () => Promise<void>;
  readonly sweep: () => Promise<void>;
}

export function createPostman(parts: PostmanParts): Postman {
  const { db, log, now } = parts;
  const stopped = new AbortController();
  const busy = new Map<string, Promise<void>>();
  let taking: Promise<void> = Promise.resolve();

  const take = async (): Promise<void> => {
    const limit = CONCURRENCY - busy.size;
    if (stopping || limit <= 0 || !(await isAnyDue(db, now()))) return;
    const lease = newId("dlv", now());
    const taken = await db.write((tx) =>
      takeDue(tx, { now: now(), limit, lease, busy: [...busy.keys()] }),
    );
    for (const one of taken) {
      const work = deliver(one, parts, stopped.signal)
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
  const tick: Postman["tick"] = () => {
    taking = taking.catch(() => {}).then(take);
    return taking;
  };
  const idle = async (): Promise<void> => {
    await taking.catch(() => {});
    while (busy.size > 0) {
      await Promise.all(busy.values());
      await taking.catch(() => {});
    }
  };
  let stopping = false;
  return {
    tick,
    idle,
    stop: async () => {
      stopping = true;
      const timer = setTimeout(() => stopped.abort(), parts.drainMs ?? DRAIN_MS);
      await idle();
      clearTimeout(timer);
    },
    sweep: async () => {
      await bringForward(db, DUE, now());
      await db.write((tx) => sweepEvents(tx, now()));
    },
  };
}

async function deliver(taken: Taken, parts: PostmanParts, signal: AbortSignal): Promise<void> {
  const { db, log, now } = parts;
  // It was disabled between the event and now, where both changes missed each other.
  if (text(taken.webhook, "status") !== "active") {
    await db.write((tx) => cancel(tx, taken, now()));
    return;
  }
  const at = now();
  const began = performance.now();
  const sent = await attempt(taken, parts, signal);
  if (signal.aborted && sent.status === null) {
    await db.write((tx) => letGo(tx, taken, now()));
    return;
  }
  const verdict = verdictOn(taken, sent, {
    at,
    durationMs: Math.round(performance.now() - began),
    now: now(),
    chance: (parts.chance ?? Math.random)(),
  });
  const disabled = await db.write((tx) => note(tx, taken, verdict));
  if (disabled !== undefined)
    log.warn("a webhook was disabled", { webhook: taken.webhookId, reason: disabled });
}

async function attempt(taken: Taken, parts: PostmanParts, signal: AbortSignal): Promise<Sent> {
  const { webhook, event, tries } = taken;
  const refused = (error: string): Sent => ({ status: null, error, response: "", retryAfterMs: 0 });
  // A process that dies while it calls has tried: otherwise what kills it would be tried for ever.
  if (tries > TRIES_MAX) return refused("the gateway stopped during the last try");
  const endpoint = readEndpoint(text(webhook, "url"), parts.allowLoopback);
  if (typeof endpoint === "string") return refused(`the address ${endpoint}`);
  const body = bodyOf(toEvent(event));
  const at = parts.now();
  const signed = { id: text(event, "id"), at, body };
  return await send({
    endpoint,
    headers: signatureHeaders(signed, parts.webhooks.secretsOf(webhook, at)),
    body,
    timeoutMs: parts.timeoutMs ?? TIMEOUT_MS,
    resolve: parts.resolve ?? resolveName,
    signal,
  });
}

/** The same to the byte at every try. `timestamp` is Standard Webhooks' name for it, `created_at` is this API's. */
function bodyOf(event: ReturnType<typeof toEvent>): string {
  const { id, type, createdAt, accountId, data } = event;
  const at = new Date(createdAt).toISOString();
  return JSON.stringify({ id, type, timestamp: at, created_at: at, account_id: accountId, data });
}

interface Timing {
  readonly at: number;
  readonly durationMs: number;
  readonly now: number;
  readonly chance: number;
}

function verdictOn(taken: Taken, sent: Sent, { at, durationMs, now, chance }: Timing): Verdict {
  const { status, response, error } = sent;
  const attempt = { at, durationMs, status, error: error ?? errorOf(status), response };
  if (isSuccess(status)) return { status: "delivered", attempt, dueAt: now, endedAt: now };
  const pause = status === GONE ? undefined : pauseAfter(taken.tries, chance, sent.retryAfterMs);
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
async function note(tx: Tx, taken: Taken, verdict: Verdict): Promise<string | undefined> {
  const { webhookId: id, accountId } = taken;
  const { at } = verdict.attempt;
  if (!(await noteAttempt(tx, taken, verdict))) return undefined;
  if (verdict.status === "delivered") {
    await noteSuccess(tx, id);
    return undefined;
  }
  const since = await noteFailure(tx, id, at);
  const reason = reasonToDisable(verdict, at - since);
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

function reasonToDisable({ status, attempt }: Verdict, failingMs: number): string | undefined {
  if (attempt.status === GONE) return "the endpoint answered 410 Gone";
  return status === "failed" && failingMs >= FAILING_MS
    ? `nothing was delivered for ${Math.floor(failingMs / 3_600_000)} hours`
    : undefined;
}

function isSuccess(status: number | null): boolean {
  return status !== null && status >= 200 && status < 300;
}
