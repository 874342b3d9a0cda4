// The codes of sign-ins of apps and at /mcp. Owns the table authorization_code. The store has only fingerprints of the codes, and the key is
// created when the client redeems its code, so it is never stored.

import { personAct, recordAuditEntry, type Act } from "../activity/audit.ts";
import {
  deriveKey,
  fingerprint,
  fingerprints,
  type MasterSecret,
} from "../base/crypto/encryption.ts";
import { verifyCodeChallenge } from "../base/crypto/pkce.ts";
import { randomBase62 } from "../base/crypto/secret.ts";
import { newId } from "../base/id.ts";
import { type Nano, toNano } from "../base/money/money.ts";
import { type LimitWindow, toLimitWindow } from "../base/money/spend-window.ts";
import { HOUR_MS, MINUTE_MS } from "../base/time.ts";
import { isListableScope, type ListableScope } from "../http/scopes.ts";
import type { KeySettings } from "../keys/key-settings.ts";
import { type Keys, revokeKey } from "../keys/keys.ts";
import { createKeyForMember } from "../keys/member-keys.ts";
import { integer, integerOrNull, type Row, text, textOrNull, type Tx } from "../store/db.ts";

/** 256 bits. */
const CODE_CHARACTERS = 43;
const CODE_LIFETIME_MS = 2 * MINUTE_MS;
/** After it, a code that is sent again can no longer revoke its key. */
const RETENTION_MS = HOUR_MS;
const DELETE_MAX = 1_000;

/** What a client asked for, and what a person granted. */
export interface Grant {
  readonly clientId: string;
  readonly clientName: string;
  readonly redirectUri: string;
  /** The URL of what the client wants to call (RFC 8707). */
  readonly resource: string;
  readonly codeChallenge: string;
  readonly scopes: readonly ListableScope[];
  readonly limit: Nano;
  readonly limitWindow: LimitWindow | null;
  readonly keyName: string;
  /** null for a key that does not expire. */
  readonly keyLifetimeMs: number | null;
  /** Globs of the models that the key may call; null for all. */
  readonly models: readonly string[] | null;
}

/** What decides the settings of the key. */
export type KeyGrant = Pick<
  Grant,
  "clientName" | "scopes" | "limit" | "limitWindow" | "keyName" | "keyLifetimeMs" | "models"
>;

export interface Redemption {
  readonly code: string;
  /** Undefined, like the next two, for a client that does not send it: PKCE alone binds the code. */
  readonly clientId: string | undefined;
  readonly redirectUri: string | undefined;
  readonly resource: string | undefined;
  readonly codeVerifier: string;
  readonly clientIp: string;
  readonly now: number;
}

export type Redeemed =
  | {
      readonly status: "issued";
      readonly key: string;
      readonly accountId: string;
      readonly scopes: readonly ListableScope[];
    }
  | { readonly status: "refused"; readonly problem: string };

export interface AuthorizationCodes {
  readonly issue: (tx: Tx, act: Act, grant: Grant) => Promise<string>;
  /** Throws, and changes nothing, if the person may no longer create the key. */
  readonly redeem: (tx: Tx, redemption: Redemption) => Promise<Redeemed>;
}

/** Codes of one kind of sign-in are unknown to the other. */
export type SignInKind = "app" | "mcp_client";

const CODE_LABELS = {
  app: "app-sign-in/code/v1",
  mcp_client: "mcp-sign-in/code/v1",
} as const satisfies Record<SignInKind, string>;
const APPROVED = { app: "app.approved", mcp_client: "mcp_client.approved" } as const;

export function createAuthorizationCodes(
  master: MasterSecret,
  keys: Keys,
  kind: SignInKind,
): AuthorizationCodes {
  const key = deriveKey(master, CODE_LABELS[kind]);
  return {
    issue: async (tx, act, grant) => {
      const code = randomBase62(CODE_CHARACTERS);
      const id = await insertCode(tx, act, grant, fingerprint(key, code));
      const { accountId, actor, network, now } = act;
      const detail = { client: grant.clientName };
      const action = APPROVED[kind];
      await recordAuditEntry(tx, { accountId, actor, action, target: id, detail, network, now });
      return code;
    },
    redeem: async (tx, redemption) => {
      const [current = "", former = current] = fingerprints(key, redemption.code);
      const found = await tx.get("select id from authorization_code where code_hash in (?, ?)", [
        current,
        former,
      ]);
      // Two requests at once must not both get a key.
      const [row] =
        found === undefined
          ? []
          : await tx.lockMany("authorization_code", "id", [text(found, "id")]);
      if (row === undefined) return refused("The code is unknown or has expired.");
      return await redeemRow(tx, row, keys, redemption);
    },
  };
}

/** The settings of the key that a grant leads to. */
export function keySettingsOf(grant: KeyGrant, now: number): KeySettings {
  const { keyLifetimeMs, models } = grant;
  return {
    name: grant.keyName,
    scopes: grant.scopes,
    limit: grant.limit,
    limitWindow: grant.limitWindow,
    expiresAt: keyLifetimeMs === null ? null : now + keyLifetimeMs,
    app: grant.clientName,
    ...(models !== null && { policy: { models } }),
  };
}

async function insertCode(
  tx: Tx,
  { accountId, actor, now }: Act,
  grant: Grant,
  codeHash: string,
): Promise<string> {
  const id = newId("grant", now);
  await tx.run(
    `insert into authorization_code (id, code_hash, client_id, client_name, redirect_uri, resource, key_name, key_lifetime_ms, models,
     code_challenge, scopes, limit_nano, limit_window, account_id, person_id, created_at, expires_at)
     values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    [
      id,
      codeHash,
      grant.clientId,
      grant.clientName,
      grant.redirectUri,
      grant.resource,
      grant.keyName,
      grant.keyLifetimeMs,
      grant.models === null ? null : JSON.stringify(grant.models),
      grant.codeChallenge,
      grant.scopes.join(" "),
      grant.limit,
      grant.limitWindow,
      accountId,
      actor.id,
      now,
      now + CODE_LIFETIME_MS,
    ],
  );
  return id;
}

async function redeemRow(
  tx: Tx,
  row: Row,
  keys: Keys,
  { clientId, redirectUri, resource, codeVerifier, clientIp, now }: Redemption,
): Promise<Redeemed> {
  const act = personAct(text(row, "account_id"), text(row, "person_id"), { clientIp, now });
  const keyId = textOrNull(row, "key_id");
  if (keyId !== null) {
    // A code that is used twice may have been stolen (RFC 6749, section 10.5), so the key of the first use ends.
    await revokeKey(tx, act, keyId);
    return refused("The code was used before. Its key has been revoked.");
  }
  if (integer(row, "expires_at") <= now) return refused("The code is unknown or has expired.");
  if (clientId !== undefined && text(row, "client_id") !== clientId)
    return refused("The code belongs to another client.");
  if (redirectUri !== undefined && text(row, "redirect_uri") !== redirectUri)
    return refused("`redirect_uri` differs from that of the authorization request.");
  if (resource !== undefined && resource !== text(row, "resource"))
    return refused("`resource` differs from that of the authorization request.");
  if (!verifyCodeChallenge(codeVerifier, text(row, "code_challenge")))
    return refused("`code_verifier` does not match the `code_challenge`.");
  const grant = toGrant(row);
  const { key, raw } = await createKeyForMember(tx, act, keys, keySettingsOf(grant, now));
  await tx.run("update authorization_code set key_id = ? where id = ?", [key.id, text(row, "id")]);
  return { status: "issued", key: raw, accountId: act.accountId, scopes: grant.scopes };
}

function refused(problem: string): Redeemed {
  return { status: "refused", problem };
}

function toGrant(row: Row): KeyGrant {
  const models = textOrNull(row, "models");
  return {
    clientName: text(row, "client_name"),
    scopes: text(row, "scopes").split(" ").filter(isListableScope),
    limit: toNano(row["limit_nano"]),
    limitWindow: toLimitWindow(textOrNull(row, "limit_window")),
    keyName: text(row, "key_name"),
    keyLifetimeMs: integerOrNull(row, "key_lifetime_ms"),
    // Safe because `insertCode` wrote it.
    models: models === null ? null : (JSON.parse(models) as string[]),
  };
}

export async function sweepAuthorizationCodes(tx: Tx, now: number): Promise<void> {
  await tx.run(
    `delete from authorization_code where id in (select id from authorization_code where expires_at < ? order by id limit ${DELETE_MAX})`,
    [now - RETENTION_MS],
  );
}
