// The identity provider of a workspace: an OpenID Connect issuer with a client that its owner has registered. It owns the
// table sso_connection. The client secret is stored encrypted and never shown.

import { setSsoRequired } from "../accounts/accounts.ts";
import { authorize, type MemberRole } from "../accounts/members.ts";
import { type Act, recordAuditEntry } from "../activity/audit.ts";
import { decrypt, deriveKey, encrypt, type MasterSecret } from "../base/crypto/encryption.ts";
import { type Secret, secret } from "../base/crypto/secret.ts";
import { Fault, invalid } from "../base/fault.ts";
import { newId } from "../base/id.ts";
import { type EndpointDeps, parseEndpoint } from "../base/network/public-endpoint.ts";
import { identityProviderOf } from "../people/identity-providers.ts";
import { endSsoSessions } from "../people/sessions.ts";
import type { IdentitySettings } from "../people/sign-in.ts";
import {
  integer,
  integerOrNull,
  type Reader,
  type Row,
  text,
  textOrNull,
  type Tx,
} from "../store/db.ts";
import type { EncryptedColumn } from "../store/reencrypt-rows.ts";
import { findWorkspaceOfEmail, listDomains } from "./domains.ts";

const SECRET_PURPOSE = "sso-client-secret/v1";
const TEXT_MAX = 500;

export interface SsoConnection {
  readonly accountId: string;
  /** New for each issuer and client. */
  readonly id: string;
  readonly issuer: string;
  readonly clientId: string;
  readonly hasSecret: boolean;
  /** The role of people who sign in without being members; null to refuse them. */
  readonly defaultRole: MemberRole | null;
  readonly createdAt: number;
  readonly signedInAt: number | null;
}

export interface ConnectionSettings {
  readonly issuer: string;
  readonly clientId: string;
  /** Empty to keep the secret of the same client. */
  readonly clientSecret: string;
  readonly defaultRole: MemberRole | null;
}

function secretBinding(accountId: string, id: string): string {
  return `${SECRET_PURPOSE}|${accountId}|${id}`;
}

/** For the rotation of the master secret. */
export const SSO_SECRETS: EncryptedColumn = {
  table: "sso_connection",
  column: "sealed",
  key: ["account_id"],
  reads: ["id"],
  deriveKey: (master) => deriveKey(master, SECRET_PURPOSE),
  associatedData: (row) => secretBinding(text(row, "account_id"), text(row, "id")),
};

/** The issuer without the path of its discovery document. Throws if it is not a public URL of one organization. */
export function parseIssuer(typed: string, allowLoopback: boolean): string {
  const issuer = typed.trim().replace(/\/\.well-known\/openid-configuration$/, "");
  const endpoint = parseEndpoint(issuer, allowLoopback);
  if (typeof endpoint === "string") throw invalid("issuer", `\`issuer\` ${endpoint}.`);
  if (endpoint.url.search !== "") throw invalid("issuer", "`issuer` must not have a query.");
  if (identityProviderOf(issuer).isShared?.(endpoint.url) === true)
    throw invalid(
      "issuer",
      "This issuer serves every organization, and each could assert any email address. Use the issuer of your own tenant.",
    );
  return issuer;
}

/** A change of the issuer or client ends the sessions that began with the former one. */
export async function saveConnection(
  tx: Tx,
  act: Act,
  settings: ConnectionSettings,
  { master, allowLoopback }: EndpointDeps,
): Promise<void> {
  const { accountId, now } = act;
  await authorize(tx, act, "sso.change");
  const issuer = parseIssuer(settings.issuer, allowLoopback);
  const clientId = settings.clientId.trim();
  if (clientId === "" || clientId.length > TEXT_MAX)
    throw invalid("client_id", `\`client_id\` must have 1 to ${TEXT_MAX} characters.`);
  if (settings.clientSecret.length > TEXT_MAX)
    throw invalid("client_secret", `\`client_secret\` must have at most ${TEXT_MAX} characters.`);
  const before = await findConnection(tx, accountId);
  const isSame = before?.issuer === issuer && before.clientId === clientId;
  const id = isSame ? before.id : newId("sso", now);
  const typedSecret = settings.clientSecret.trim();
  const key = deriveKey(master, SECRET_PURPOSE);
  // The secret of a client is only ever sent to the issuer for which it was typed.
  const kept = isSame ? await sealedSecretOf(tx, accountId) : null;
  const sealed =
    typedSecret === "" ? kept : encrypt(key, secretBinding(accountId, id), typedSecret);
  await tx.run(
    `insert into sso_connection (account_id, id, issuer, client_id, sealed, default_role, created_at)
     values (?, ?, ?, ?, ?, ?, ?)
     on conflict (account_id) do update set id = excluded.id, issuer = excluded.issuer,
       client_id = excluded.client_id, sealed = excluded.sealed, default_role = excluded.default_role`,
    [accountId, id, issuer, clientId, sealed, settings.defaultRole, now],
  );
  if (before !== undefined && !isSame) await endSsoSessions(tx, accountId, now);
  const detail = {
    issuer,
    client_id: clientId,
    default_role: settings.defaultRole,
    ...(before !== undefined && {
      issuer_before: before.issuer,
      client_id_before: before.clientId,
      default_role_before: before.defaultRole,
    }),
    secret_replaced: typedSecret !== "",
  };
  await recordAuditEntry(tx, { ...act, action: "sso.changed", target: id, detail });
}

/** Ends the sessions that began with this provider, and no longer requires it. Its people stay members, and cannot sign in. */
export async function removeConnection(tx: Tx, act: Act): Promise<void> {
  const { accountId, now } = act;
  await authorize(tx, act, "sso.change");
  const before = await findConnection(tx, accountId);
  if (before === undefined) return;
  await tx.run("delete from sso_connection where account_id = ?", [accountId]);
  await endSsoSessions(tx, accountId, now);
  await setSsoRequired(tx, act, false);
  const detail = { issuer: before.issuer };
  await recordAuditEntry(tx, { ...act, action: "sso.removed", target: before.id, detail });
}

/** Refused without a verified domain and an issuer: only the owner could still open the workspace. */
export async function requireSso(tx: Tx, act: Act, required: boolean): Promise<void> {
  const { accountId } = act;
  await authorize(tx, act, "sso.change");
  if (required) {
    const domains = await listDomains(tx, accountId);
    const isReady =
      (await findConnection(tx, accountId)) !== undefined &&
      domains.some(({ verifiedAt }) => verifiedAt !== null);
    if (!isReady)
      throw new Fault("conflict", "single sign-on is not set up", {
        message: "Verify a domain and set the identity provider first.",
      });
  }
  await setSsoRequired(tx, act, required);
}

export async function findConnection(
  reader: Reader,
  accountId: string,
): Promise<SsoConnection | undefined> {
  const row = await reader.get("select * from sso_connection where account_id = ?", [accountId]);
  return row && toConnection(row);
}

/** The workspace with an identity provider whose verified domain the address is in. */
export async function findSsoWorkspace(reader: Reader, email: string): Promise<string | undefined> {
  const accountId = await findWorkspaceOfEmail(reader, email);
  if (accountId === undefined) return undefined;
  return (await findConnection(reader, accountId)) === undefined ? undefined : accountId;
}

export async function hasConnections(reader: Reader): Promise<boolean> {
  return (await reader.get("select account_id from sso_connection limit 1")) !== undefined;
}

/** The settings of the OpenID Connect client. */
export async function readIdentitySettings(
  reader: Reader,
  { accountId, id, issuer, clientId }: SsoConnection,
  master: MasterSecret,
): Promise<IdentitySettings> {
  const sealed = await sealedSecretOf(reader, accountId);
  const key = deriveKey(master, SECRET_PURPOSE);
  const clientSecret: Secret | undefined =
    sealed === null ? undefined : secret(decrypt(key, secretBinding(accountId, id), sealed));
  return {
    issuer,
    clientId,
    allowedTenants: [],
    ...(clientSecret === undefined ? {} : { clientSecret }),
  };
}

export async function markSignedIn(tx: Tx, accountId: string, now: number): Promise<void> {
  await tx.run("update sso_connection set signed_in_at = ? where account_id = ?", [now, accountId]);
}

async function sealedSecretOf(reader: Reader, accountId: string): Promise<string | null> {
  const row = await reader.get("select sealed from sso_connection where account_id = ?", [
    accountId,
  ]);
  return row === undefined ? null : textOrNull(row, "sealed");
}

function toConnection(row: Row): SsoConnection {
  return {
    accountId: text(row, "account_id"),
    id: text(row, "id"),
    issuer: text(row, "issuer"),
    clientId: text(row, "client_id"),
    hasSecret: textOrNull(row, "sealed") !== null,
    // Safe because only `saveConnection` writes the column.
    defaultRole: textOrNull(row, "default_role") as MemberRole | null,
    createdAt: integer(row, "created_at"),
    signedInAt: integerOrNull(row, "signed_in_at"),
  };
}
