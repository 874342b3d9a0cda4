// What a claim page shows of an account's keys and setup, as digests in its form. An agent may change them after the page
// was shown, so a confirmation compares them with the current state under the lock of the account.

import { createHash } from "node:crypto";
import { listWebhookUrls } from "../activity/webhook-rows.ts";
import type { Key } from "../keys/key.ts";
import { listLiveProviderKeys } from "../provider-keys/provider-keys.ts";
import { listSinks } from "../sinks/sink-rows.ts";
import type { Reader } from "../store/db.ts";
import { listLiveKeys } from "./key-choices.ts";

/** Further keys get one common choice on the page. */
const KEYS_LISTED_MAX = 12;

/** What stays active after the claim. */
export interface KeysAndSetup {
  readonly listed: readonly Key[];
  readonly unlisted: readonly Key[];
  /** The hosts of its webhooks. */
  readonly webhookHosts: readonly string[];
  /** The hosts of its sinks, and whether prompts are sent there. */
  readonly sinkHosts: readonly string[];
  /** The providers for which it has provider keys of its own. */
  readonly ownProviders: readonly string[];
}

export async function readKeysAndSetup(
  reader: Reader,
  accountId: string,
  now: number,
): Promise<KeysAndSetup> {
  const keys = await listLiveKeys(reader, accountId, now);
  const webhookUrls = await listWebhookUrls(reader, accountId);
  const sinks = await listSinks(reader, accountId);
  const providerKeys = await listLiveProviderKeys(reader, accountId);
  return {
    listed: keys.slice(0, KEYS_LISTED_MAX),
    unlisted: keys.slice(KEYS_LISTED_MAX),
    webhookHosts: [...new Set(webhookUrls.map((url) => new URL(url).host))],
    sinkHosts: sinks.map(({ settings }) =>
      settings.type === "otlp" && settings.include_texts
        ? `${new URL(settings.url).host} with prompts`
        : new URL(settings.url).host,
    ),
    ownProviders: [...new Set(providerKeys.map(({ provider }) => provider))].toSorted(),
  };
}

/** The form field with the digest of everything, without which a confirmation changes nothing. */
export const SHOWN_FIELD = "shown";
const SETUP_FIELD = "shown.setup";
const UNLISTED_FIELD = "shown.unlisted";

/** The form fields that say what the page shows, and their values. */
export function shownFields(
  state: KeysAndSetup,
): readonly (readonly [name: string, value: string])[] {
  return [
    [SHOWN_FIELD, digestOfAll(state)],
    [SETUP_FIELD, setupDigest(state)],
    [UNLISTED_FIELD, keysDigest(state.unlisted)],
    ...state.listed.map((key) => [keyField(key.id), keysDigest([key])] as const),
  ];
}

/** Which key is listed depends on its last use, so the order does not count. */
export function digestOfAll(state: KeysAndSetup): string {
  return digestOf([keysDigest([...state.listed, ...state.unlisted]), setupDigest(state)]);
}

export interface ShownChanges {
  readonly keys: ReadonlyMap<string, "New" | "Changed">;
  /** Whether a key that was listed does not work any more. */
  readonly isKeyGone: boolean;
  readonly isUnlistedChanged: boolean;
  readonly isSetupChanged: boolean;
}

/** What is different from the page with these fields. */
export function changesSince(
  fields: Readonly<Record<string, string | undefined>>,
  state: KeysAndSetup,
): ShownChanges {
  const keys = new Map<string, "New" | "Changed">();
  for (const key of state.listed) {
    const shown = fields[keyField(key.id)];
    if (shown === undefined) keys.set(key.id, "New");
    else if (shown !== keysDigest([key])) keys.set(key.id, "Changed");
  }
  const live = new Set([...state.listed, ...state.unlisted].map(({ id }) => keyField(id)));
  return {
    keys,
    isKeyGone: Object.keys(fields).some(
      (name) => name.startsWith(keyField("key_")) && !live.has(name),
    ),
    isUnlistedChanged: fields[UNLISTED_FIELD] !== keysDigest(state.unlisted),
    isSetupChanged: fields[SETUP_FIELD] !== setupDigest(state),
  };
}

function keyField(keyId: string): string {
  return `${SHOWN_FIELD}.${keyId}`;
}

/** A digest of what the keys can do and spend, without their names and last use. */
function keysDigest(keys: readonly Key[]): string {
  const byId = keys.toSorted((left, right) => (left.id < right.id ? -1 : 1));
  const settings = byId.map(({ id, limit, limitWindow, scopes, policy, expiresAt }) => [
    id,
    limit === null ? null : String(limit),
    limitWindow,
    scopes,
    policy,
    expiresAt,
  ]);
  return digestOf(settings);
}

function setupDigest({ webhookHosts, sinkHosts, ownProviders }: KeysAndSetup): string {
  return digestOf([webhookHosts, sinkHosts, ownProviders]);
}

function digestOf(value: unknown): string {
  return createHash("sha256").update(JSON.stringify(value)).digest("base64url");
}
