// Webhooks: create, change, rotate, delete. A signing secret is returned once, when it is created, and stored encrypted.

import { authorize, lockWorkspace } from "../accounts/members.ts";
import { type Act, recordAuditEntry } from "../activity/audit.ts";
import { cancelPendingDeliveries } from "../activity/deliveries.ts";
import { ALL_EVENTS } from "../activity/events.ts";
import {
  countWebhooks,
  getWebhook,
  insertWebhook,
  lockAnyWebhook,
  lockWebhook,
  markWebhookDeleted,
  replaceWebhookSecret,
  SECRET_PURPOSE,
  secretBinding,
  updateWebhook,
  type Webhook,
} from "../activity/webhook-rows.ts";
import { newSigningSecret } from "../activity/webhook-signature.ts";
import { decrypt, deriveKey, encrypt } from "../base/crypto/encryption.ts";
import { type Secret, secret } from "../base/crypto/secret.ts";
import { Fault, invalid } from "../base/fault.ts";
import { newId } from "../base/id.ts";
import { type EndpointDeps, parseEndpoint } from "../base/network/public-endpoint.ts";
import { integer, type Row, text, textOrNull, type Tx } from "../store/db.ts";

const WEBHOOKS_PER_ACCOUNT_MAX = 10;

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
  /** Replaces the signing secret; the former one signs too during the overlap. */
  readonly rotate: (
    tx: Tx,
    act: Act,
    rotation: { readonly id: string; readonly overlapMs: number },
  ) => Promise<WebhookWithSecret>;
  /** The secrets that sign now, newest first. */
  readonly secretsOf: (row: Row, now: number) => readonly Secret[];
}

export function createWebhooks({ master, allowLoopback }: EndpointDeps): Webhooks {
  const key = deriveKey(master, SECRET_PURPOSE);
  const validUrl = (input: string): string => parseUrl(input, allowLoopback);
  return {
    add: async (tx, act, settings) => {
      const { accountId, now } = act;
      await authorize(tx, act, "webhooks.change");
      const url = validUrl(settings.url);
      await enforceWebhookLimit(tx, accountId);
      const id = newId("whk", now);
      const newSecret = newSigningSecret();
      await insertWebhook(tx, {
        id,
        accountId,
        url,
        events: normalizeEventTypes(settings.events),
        description: settings.description ?? null,
        sealed: encrypt(key, secretBinding(accountId, id), newSecret.reveal()),
        now,
      });
      return { webhook: await recordChange(tx, act, "webhook.created", id), secret: newSecret };
    },
    change: async (tx, act, id, change) => {
      await authorize(tx, act, "webhooks.change");
      const before = await lockWebhook(tx, act.accountId, id);
      const status = change.status ?? before.status;
      const isReenabled = status === "active" && before.status !== "active";
      if (status === "disabled" && before.status === "active")
        await cancelPendingDeliveries(tx, id, act.now);
      await updateWebhook(tx, {
        id,
        url: change.url === undefined ? before.url : validUrl(change.url),
        events: normalizeEventTypes(change.events ?? before.events),
        description: change.description === undefined ? before.description : change.description,
        status,
        disabledReason: status === "active" ? null : (before.disabledReason ?? "by request"),
        failingSince: isReenabled ? null : before.failingSince,
      });
      return await recordChange(tx, act, "webhook.changed", id);
    },
    rotate: async (tx, act, { id, overlapMs }) => {
      const { accountId, now } = act;
      await authorize(tx, act, "webhooks.change");
      await lockWebhook(tx, accountId, id);
      const newSecret = newSigningSecret();
      const sealed = encrypt(key, secretBinding(accountId, id), newSecret.reveal());
      await replaceWebhookSecret(tx, id, { sealed, formerUntil: now + overlapMs });
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

/** Idempotent and final: the secrets are erased, the record stays. */
export async function removeWebhook(tx: Tx, act: Act, id: string): Promise<Webhook> {
  await authorize(tx, act, "webhooks.change");
  const before = await lockAnyWebhook(tx, act.accountId, id);
  if (before.status === "deleted") return before;
  await cancelPendingDeliveries(tx, id, act.now);
  await markWebhookDeleted(tx, id);
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

async function enforceWebhookLimit(tx: Tx, accountId: string): Promise<void> {
  // Serializes concurrent creations, so that the count is exact.
  await lockWorkspace(tx, accountId);
  if ((await countWebhooks(tx, accountId)) >= WEBHOOKS_PER_ACCOUNT_MAX)
    throw new Fault("conflict", "too many webhooks", {
      message: `An account can have at most ${WEBHOOKS_PER_ACCOUNT_MAX} webhooks. Delete one first.`,
    });
}

function normalizeEventTypes(events: readonly string[] | undefined): readonly string[] {
  return events === undefined || events.includes(ALL_EVENTS) ? [ALL_EVENTS] : [...new Set(events)];
}
