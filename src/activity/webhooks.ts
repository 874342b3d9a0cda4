// Webhooks: create, change, rotate, disable, delete. A signing secret is returned once, when it is created, and stored
// encrypted.

import { deriveKey, encrypt, decrypt, type MasterSecret } from "../base/crypto/encryption.ts";
import { type Secret, secret } from "../base/crypto/secret.ts";
import { Fault, invalid } from "../base/fault.ts";
import { newId } from "../base/id.ts";
import { parseEndpoint } from "../base/network/public-endpoint.ts";
import { maxId, type Page, type PageRequest, toPage } from "../base/pagination.ts";
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
import { type Act, recordAuditEntry } from "./audit.ts";
import { cancelPendingDeliveries } from "./deliveries.ts";
import { ALL_EVENTS } from "./events.ts";
import { newSigningSecret } from "./webhook-signature.ts";

const WEBHOOKS_PER_ACCOUNT_MAX = 10;
/** How long the former secret still signs after a rotation. */
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
  /** Until when the former secret signs too; 0 without a former secret. */
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
    act: Act,
    settings: WebhookSettings & { readonly url: string },
  ) => Promise<WebhookWithSecret>;
  /** Changes only the fields that are given. */
  readonly change: (tx: Tx, act: Act, id: string, change: WebhookSettings) => Promise<Webhook>;
  /** Replaces the signing secret; the former one still signs for a day. */
  readonly rotate: (tx: Tx, act: Act, id: string) => Promise<WebhookWithSecret>;
  /** The secrets that sign now, newest first. */
  readonly secretsOf: (row: Row, now: number) => readonly Secret[];
}

export interface WebhooksDeps {
  readonly master: MasterSecret;
  /** In development, a webhook may point to the gateway's own machine, without TLS. */
  readonly allowLoopback: boolean;
}

export const SECRET_PURPOSE = "webhook-secret/v1";

/** What an encrypted signing secret is bound to. */
export function secretBinding(accountId: string, id: string): string {
  return `${SECRET_PURPOSE}|${accountId}|${id}`;
}

export function createWebhooks({ master, allowLoopback }: WebhooksDeps): Webhooks {
  const key = deriveKey(master, SECRET_PURPOSE);
  const validUrl = (input: string): string => parseUrl(input, allowLoopback);
  return {
    add: async (tx, act, settings) => {
      const { accountId, now } = act;
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
          encrypt(key, secretBinding(accountId, id), newSecret.reveal()),
          now,
        ],
      );
      return { webhook: await recordChange(tx, act, "webhook.created", id), secret: newSecret };
    },
    change: async (tx, act, id, change) => {
      const before = await lockWebhook(tx, act.accountId, id);
      const status = change.status ?? before.status;
      const isReenabled = status === "active" && before.status !== "active";
      if (status === "disabled" && before.status === "active")
        await cancelPendingDeliveries(tx, id, act.now);
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
      return await recordChange(tx, act, "webhook.changed", id);
    },
    rotate: async (tx, act, id) => {
      const { accountId, now } = act;
      await lockWebhook(tx, accountId, id);
      const newSecret = newSigningSecret();
      await tx.run(
        "update webhook set former_sealed = sealed, former_until = ?, sealed = ? where id = ?",
        [now + ROTATION_MS, encrypt(key, secretBinding(accountId, id), newSecret.reveal()), id],
      );
      const webhook = await recordChange(tx, act, "webhook.secret_rotated", id);
      return { webhook, secret: newSecret };
    },
    secretsOf: (row, now) => {
      const bound = secretBinding(text(row, "account_id"), text(row, "id"));
      const former = integer(row, "former_until") > now ? textOrNull(row, "former_sealed") : null;
      return [textOrNull(row, "sealed"), former].flatMap((sealed) =>
        sealed === null ? [] : [secret(decrypt(key, bound, sealed))],
      );
    },
  };
}

function parseUrl(input: string, allowLoopback: boolean): string {
  const endpoint = parseEndpoint(input, allowLoopback);
  if (typeof endpoint === "string") throw invalid("url", `\`url\` ${endpoint}.`);
  return endpoint.url.href;
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

/** All that are not deleted: at most `WEBHOOKS_PER_ACCOUNT_MAX`. */
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

/** Of the webhooks that are not deleted, newest first. */
export async function listWebhookUrls(
  reader: Reader,
  accountId: string,
): Promise<readonly string[]> {
  return (await listLiveWebhooks(reader, accountId)).map(({ url }) => url);
}

/** Idempotent and final: the secrets are erased, the record stays. */
export async function removeWebhook(tx: Tx, act: Act, id: string): Promise<Webhook> {
  await tx.lockMany("webhook", "id", [id]);
  const before = await getWebhook(tx, act.accountId, id);
  if (before.status === "deleted") return before;
  await cancelPendingDeliveries(tx, id, act.now);
  await tx.run(
    `update webhook set status = 'deleted', sealed = null, former_sealed = null, former_until = 0,
       disabled_reason = null where id = ?`,
    [id],
  );
  return await recordChange(tx, act, "webhook.deleted", id);
}

/** Returns the webhook. Records only the host of the URL: its path or query can contain a secret of the endpoint. */
async function recordChange(
  tx: Tx,
  act: Act,
  action: "webhook.created" | "webhook.changed" | "webhook.deleted" | "webhook.secret_rotated",
  id: string,
): Promise<Webhook> {
  const webhook = await getWebhook(tx, act.accountId, id);
  const { url, events, status } = webhook;
  const detail = { host: new URL(url).host, events, status };
  await recordAuditEntry(tx, { ...act, action, target: id, detail });
  return webhook;
}

/** Throws if the webhook was deleted. */
export async function lockWebhook(tx: Tx, accountId: string, id: string): Promise<Webhook> {
  await tx.lockMany("webhook", "id", [id]);
  const webhook = await getWebhook(tx, accountId, id);
  if (webhook.status === "deleted")
    throw new Fault("conflict", "webhook is deleted", {
      message: "A deleted webhook cannot be changed. Create a new one with POST /v1/webhooks.",
    });
  return webhook;
}

export async function recordSuccess(tx: Tx, id: string): Promise<void> {
  await tx.run(
    "update webhook set failing_since = null where id = ? and failing_since is not null",
    [id],
  );
}

/** Returns since when all attempts of this webhook have failed. */
export async function recordFailure(tx: Tx, id: string, now: number): Promise<number> {
  const row = await tx.get(
    "update webhook set failing_since = coalesce(failing_since, ?) where id = ? returning failing_since",
    [now, id],
  );
  return row === undefined ? now : integer(row, "failing_since");
}

/** Cancels all pending deliveries. Returns false if the webhook was no longer active. */
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
  await cancelPendingDeliveries(tx, id, now);
  return true;
}

// Locks the account's webhooks before counting them, so that two concurrent requests cannot both pass the limit.
async function enforceWebhookLimit(tx: Tx, accountId: string): Promise<void> {
  await tx.lockMany("webhook", "account_id", [accountId]);
  const row = await tx.get(
    "select count(*) as count from webhook where account_id = ? and status <> 'deleted'",
    [accountId],
  );
  if (row !== undefined && integer(row, "count") >= WEBHOOKS_PER_ACCOUNT_MAX)
    throw new Fault("conflict", "too many webhooks", {
      message: `An account can have at most ${WEBHOOKS_PER_ACCOUNT_MAX} webhooks. Delete one first.`,
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
    message: "No webhook has this id. List your webhooks with GET /v1/webhooks.",
    param: "id",
    next: [{ method: "GET", url: "/v1/webhooks", why: "List the webhooks." }],
  });
}
