// Webhook endpoints: set up, changed, tested and taken away. Their signing secrets leave this room when they are made, and
// are otherwise sealed.

import { Fault, invalid } from "../base/fault.ts";
import { newId } from "../base/id.ts";
import { maxId, type Page, type PageRequest, toPage } from "../base/pagination.ts";
import { deriveKey, encrypt, decrypt } from "../base/encryption.ts";
import { type Secret, secret } from "../base/secret.ts";
import { DAY_MS } from "../base/time.ts";
import {
  enumValue,
  type Reader,
  type Row,
  text,
  textOrNull,
  type Tx,
  integer,
  integerOrNull,
} from "../store/db.ts";
import { parseEndpoint } from "./endpoint.ts";
import { ALL_EVENTS, emitTestEvent, TEST_EVENT_TYPE } from "../events/events.ts";
import { newSigningSecret } from "./signature.ts";

const WEBHOOKS_PER_ACCOUNT_MAX = 10;
/** How long the secret before still signs after a new one was made. */
const ROTATION_MS = DAY_MS;

export const WEBHOOK_STATUSES = ["active", "disabled", "deleted"] as const;
type WebhookStatus = (typeof WEBHOOK_STATUSES)[number];

export interface Webhook {
  readonly id: string;
  readonly accountId: string;
  readonly url: string;
  readonly events: readonly string[];
  readonly description: string | null;
  readonly status: WebhookStatus;
  readonly disabledReason: string | null;
  readonly failingSince: number | null;
  /** Until when the secret before signs, too; zero where there is none. */
  readonly formerUntil: number;
  readonly createdAt: number;
}

interface WebhookSettings {
  readonly url?: string | undefined;
  readonly events?: readonly string[] | undefined;
  readonly description?: string | null | undefined;
  readonly status?: "active" | "disabled" | undefined;
}

interface WebhookWithSecret {
  readonly webhook: Webhook;
  readonly secret: Secret;
}

export interface Webhooks {
  readonly add: (
    tx: Tx,
    accountId: string,
    settings: WebhookSettings & { readonly url: string },
    now: number,
  ) => Promise<WebhookWithSecret>;
  /** Changes only what is named. */
  readonly change: (
    tx: Tx,
    accountId: string,
    id: string,
    change: WebhookSettings & { readonly now: number },
  ) => Promise<Webhook>;
  /** Makes a new secret; the one before signs for another day. */
  readonly rotate: (
    tx: Tx,
    accountId: string,
    id: string,
    now: number,
  ) => Promise<WebhookWithSecret>;
  /** What signs now, the newest first. */
  readonly secretsOf: (row: Row, now: number) => readonly Secret[];
}

export interface WebhooksDeps {
  readonly master: Secret;
  /** Development: a webhook may point to this machine, without TLS. */
  readonly allowLoopback: boolean;
}

export function createWebhooks({ master, allowLoopback }: WebhooksDeps): Webhooks {
  const key = deriveKey(master, "webhook-secret/v1");
  const associatedData = (accountId: string, id: string): string =>
    `webhook-secret/v1|${accountId}|${id}`;
  const validUrl = (address: string): string => {
    const endpoint = parseEndpoint(address, allowLoopback);
    if (typeof endpoint === "string") throw invalid("url", `url ${endpoint}.`);
    return endpoint.url.href;
  };
  return {
    add: async (tx, accountId, settings, now) => {
      const url = validUrl(settings.url);
      await enforceWebhookLimit(tx, accountId);
      const id = newId("whk", now);
      const newSecret = newSigningSecret();
      await tx.run(
        `insert into webhook (id, account_id, url, events, description, status, sealed, former_until, created_at)
         values (?, ?, ?, ?, ?, ?, ?, 0, ?)`,
        [
          id,
          accountId,
          url,
          serializeEventTypes(settings.events),
          settings.description ?? null,
          "active",
          encrypt(key, associatedData(accountId, id), newSecret.reveal()),
          now,
        ],
      );
      return { webhook: await getWebhook(tx, accountId, id), secret: newSecret };
    },
    change: async (tx, accountId, id, change) => {
      const before = await lockWebhook(tx, accountId, id);
      const status = change.status ?? before.status;
      const isReenabled = status === "active" && before.status !== "active";
      if (status === "disabled" && before.status === "active")
        await cancelPending(tx, id, change.now);
      await tx.run(
        `update webhook set url = ?, events = ?, description = ?, status = ?, disabled_reason = ?, failing_since = ?
         where id = ?`,
        [
          change.url === undefined ? before.url : validUrl(change.url),
          serializeEventTypes(change.events ?? before.events),
          change.description === undefined ? before.description : change.description,
          status,
          status === "active" ? null : (before.disabledReason ?? "by request"),
          isReenabled ? null : before.failingSince,
          id,
        ],
      );
      return getWebhook(tx, accountId, id);
    },
    rotate: async (tx, accountId, id, now) => {
      await lockWebhook(tx, accountId, id);
      const newSecret = newSigningSecret();
      await tx.run(
        "update webhook set former_sealed = sealed, former_until = ?, sealed = ? where id = ?",
        [now + ROTATION_MS, encrypt(key, associatedData(accountId, id), newSecret.reveal()), id],
      );
      return { webhook: await getWebhook(tx, accountId, id), secret: newSecret };
    },
    secretsOf: (row, now) => {
      const bound = associatedData(text(row, "account_id"), text(row, "id"));
      const former = integer(row, "former_until") > now ? textOrNull(row, "former_sealed") : null;
      return [textOrNull(row, "sealed"), former].flatMap((sealed) =>
        sealed === null ? [] : [secret(decrypt(key, bound, sealed))],
      );
    },
  };
}

export async function getWebhook(reader: Reader, accountId: string, id: string): Promise<Webhook> {
  const row = await reader.get("select * from webhook where account_id = ? and id = ?", [
    accountId,
    id,
  ]);
  if (row === undefined) throw noSuchWebhook();
  return toWebhook(row);
}

export async function listWebhooks(
  reader: Reader,
  accountId: string,
  page: PageRequest,
): Promise<Page<Webhook>> {
  const rows = await reader.all(
    "select * from webhook where account_id = ? and id < ? order by id desc limit ?",
    [accountId, page.cursor ?? maxId("whk"), page.limit + 1],
  );
  return toPage(rows.map(toWebhook), page.limit);
}

/** All that are not deleted; an account has ten at the most. */
export async function listLiveWebhooks(
  reader: Reader,
  accountId: string,
): Promise<readonly Webhook[]> {
  const rows = await reader.all(
    "select * from webhook where account_id = ? and status <> 'deleted' order by id desc",
    [accountId],
  );
  return rows.map(toWebhook);
}

/** Final, and the same when repeated: the secrets are destroyed, the record stays. Answers whether it was there before. */
export async function removeWebhook(
  tx: Tx,
  accountId: string,
  id: string,
  now: number,
): Promise<{ readonly webhook: Webhook; readonly removed: boolean }> {
  await tx.lockMany("webhook", "id", [id]);
  const removed = (await getWebhook(tx, accountId, id)).status !== "deleted";
  if (removed) {
    await cancelPending(tx, id, now);
    await tx.run(
      `update webhook set status = 'deleted', sealed = null, former_sealed = null, former_until = 0,
         disabled_reason = null where id = ?`,
      [id],
    );
  }
  return { webhook: await getWebhook(tx, accountId, id), removed };
}

/** Sends an event that says it is a test. Answers the delivery's id. */
export async function testWebhook(
  tx: Tx,
  accountId: string,
  id: string,
  now: number,
): Promise<string> {
  const { status } = await lockWebhook(tx, accountId, id);
  if (status !== "active") throw webhookNotActive(id);
  const open = await tx.get(
    `select webhook_delivery.id from webhook_delivery join event on event.id = webhook_delivery.event_id
     where webhook_id = ? and webhook_delivery.status = 'pending' and event.type = ?`,
    [id, TEST_EVENT_TYPE],
  );
  if (open !== undefined)
    throw new Fault("conflict", "a test is under way", {
      message: "An earlier test is still being delivered. Its delivery says how it goes.",
      next: [
        { method: "GET", url: `/v1/webhooks/${id}/deliveries`, why: "See how the test goes." },
      ],
    });
  return emitTestEvent(tx, accountId, id, now);
}

/** The webhook, locked; one that was deleted cannot be changed any more. */
export async function lockWebhook(tx: Tx, accountId: string, id: string): Promise<Webhook> {
  await tx.lockMany("webhook", "id", [id]);
  const webhook = await getWebhook(tx, accountId, id);
  if (webhook.status === "deleted")
    throw new Fault("conflict", "webhook is deleted", {
      message: "A deleted webhook cannot be changed. Set up a new one with POST /v1/webhooks.",
    });
  return webhook;
}

/** Remembers that it answered. */
export async function recordSuccess(tx: Tx, id: string): Promise<void> {
  await tx.run(
    "update webhook set failing_since = null where id = ? and failing_since is not null",
    [id],
  );
}

/** Remembers that it failed; answers since when it has done nothing else. */
export async function recordFailure(tx: Tx, id: string, now: number): Promise<number> {
  const row = await tx.get(
    "update webhook set failing_since = coalesce(failing_since, ?) where id = ? returning failing_since",
    [now, id],
  );
  return row === undefined ? now : integer(row, "failing_since");
}

/** Stops all deliveries; false where the webhook was not active any more. */
export async function disableWebhook(
  tx: Tx,
  id: string,
  reason: string,
  now: number,
): Promise<boolean> {
  const disabled = await tx.run(
    "update webhook set status = 'disabled', disabled_reason = ? where id = ? and status = 'active'",
    [reason, id],
  );
  if (disabled === 0) return false;
  await cancelPending(tx, id, now);
  return true;
}

export function webhookNotActive(id: string): Fault {
  return new Fault("conflict", "webhook is not active", {
    message: "This webhook is disabled. Enable it first.",
    next: [
      {
        method: "PATCH",
        url: `/v1/webhooks/${id}`,
        body: { status: "active" },
        why: "Enable the webhook.",
      },
    ],
  });
}

async function cancelPending(tx: Tx, id: string, now: number): Promise<void> {
  await tx.run(
    "update webhook_delivery set status = 'cancelled', lease = null, ended_at = ? where webhook_id = ? and status = 'pending'",
    [now, id],
  );
}

// The account's webhooks are locked first and counted after, so that two at once cannot both be the last.
async function enforceWebhookLimit(tx: Tx, accountId: string): Promise<void> {
  await tx.lockMany("webhook", "account_id", [accountId]);
  const row = await tx.get(
    "select count(*) as count from webhook where account_id = ? and status <> 'deleted'",
    [accountId],
  );
  if (row !== undefined && integer(row, "count") >= WEBHOOKS_PER_ACCOUNT_MAX)
    throw new Fault("conflict", "too many webhooks", {
      message: `An account may have ${WEBHOOKS_PER_ACCOUNT_MAX} webhooks. Delete one first.`,
    });
}

function serializeEventTypes(events: readonly string[] | undefined): string {
  return events === undefined || events.includes(ALL_EVENTS)
    ? ALL_EVENTS
    : [...new Set(events)].join(" ");
}

function toWebhook(row: Row): Webhook {
  return {
    id: text(row, "id"),
    accountId: text(row, "account_id"),
    url: text(row, "url"),
    events: text(row, "events").split(" "),
    description: textOrNull(row, "description"),
    status: enumValue(row, "status", WEBHOOK_STATUSES),
    disabledReason: textOrNull(row, "disabled_reason"),
    failingSince: integerOrNull(row, "failing_since"),
    formerUntil: integer(row, "former_until"),
    createdAt: integer(row, "created_at"),
  };
}

function noSuchWebhook(): Fault {
  return new Fault("not_found", "no such webhook", {
    message: "There is no webhook with that id. List them with GET /v1/webhooks.",
    param: "id",
    next: [{ method: "GET", url: "/v1/webhooks", why: "List the webhooks that there are." }],
  });
}
