// The connection of a workspace to a directory. It owns the table scim_directory. The bearer token is random, so its plain
// hash is stored; it manages the members of one workspace and opens nothing else.

import { createHash } from "node:crypto";
import { authorize, type MemberRole, MEMBER_ROLES } from "../accounts/members.ts";
import { type Act, recordAuditEntry } from "../activity/audit.ts";
import { randomBase62 } from "../base/crypto/secret.ts";
import { Fault } from "../base/fault.ts";
import { DAY_MS, MINUTE_MS } from "../base/time.ts";
import {
  type Db,
  enumValue,
  integer,
  integerOrNull,
  type Reader,
  type Row,
  text,
  type Tx,
} from "../store/db.ts";

const TOKEN_PREFIX = "scim_";
const TOKEN_CHARACTERS = 43;
const LAST_CHARACTERS = 4;
export const FORMER_TOKEN_DAYS = 1;
/** `used_at` is written at most this often. */
const USED_UPDATE_MS = 5 * MINUTE_MS;

export interface Directory {
  readonly accountId: string;
  readonly last4: string;
  /** The role of people in no group with a role. */
  readonly fallbackRole: MemberRole;
  /** Whether the owner gets the keys of people who leave; otherwise they are revoked. */
  readonly handsOverKeys: boolean;
  readonly createdAt: number;
  readonly usedAt: number | null;
}

export interface DirectorySettings {
  readonly fallbackRole: MemberRole;
  readonly handsOverKeys: boolean;
}

/** Returns the token, which is shown once. The former token is accepted for another day. */
export async function createDirectoryToken(tx: Tx, act: Act): Promise<string> {
  const { accountId, now } = act;
  await authorize(tx, act, "sso.change");
  const before = await findDirectory(tx, accountId);
  const token = TOKEN_PREFIX + randomBase62(TOKEN_CHARACTERS);
  const last4 = token.slice(-LAST_CHARACTERS);
  if (before === undefined)
    await tx.run(
      `insert into scim_directory (account_id, token_hash, last4, former_until, fallback_role, hands_over_keys, created_at)
       values (?, ?, ?, 0, 'viewer', 0, ?)`,
      [accountId, hashOf(token), last4, now],
    );
  else
    await tx.run(
      `update scim_directory set former_hash = token_hash, former_until = ?, token_hash = ?, last4 = ?
       where account_id = ?`,
      [now + FORMER_TOKEN_DAYS * DAY_MS, hashOf(token), last4, accountId],
    );
  await recordAuditEntry(tx, {
    ...act,
    action: before === undefined ? "directory.enabled" : "directory.token_rotated",
    target: accountId,
    detail: { last4 },
  });
  return token;
}

export async function changeDirectory(
  tx: Tx,
  act: Act,
  { fallbackRole, handsOverKeys }: DirectorySettings,
): Promise<void> {
  const { accountId } = act;
  await authorize(tx, act, "sso.change");
  const before = await getDirectory(tx, accountId);
  await tx.run(
    "update scim_directory set fallback_role = ?, hands_over_keys = ? where account_id = ?",
    [fallbackRole, handsOverKeys ? 1 : 0, accountId],
  );
  const detail = {
    fallback_role: fallbackRole,
    fallback_role_before: before.fallbackRole,
    hands_over_keys: handsOverKeys,
    hands_over_keys_before: before.handsOverKeys,
  };
  await recordAuditEntry(tx, { ...act, action: "directory.changed", target: accountId, detail });
}

/** Forgets the token, the users and the groups. Members stay. */
export async function removeDirectory(tx: Tx, act: Act): Promise<void> {
  const { accountId } = act;
  await authorize(tx, act, "sso.change");
  const removed = await tx.run("delete from scim_directory where account_id = ?", [accountId]);
  if (removed === 0) return;
  await tx.run("delete from scim_group_member where account_id = ?", [accountId]);
  await tx.run("delete from scim_group where account_id = ?", [accountId]);
  await tx.run("delete from scim_user where account_id = ?", [accountId]);
  await recordAuditEntry(tx, { ...act, action: "directory.disabled", target: accountId });
}

export async function findDirectory(
  reader: Reader,
  accountId: string,
): Promise<Directory | undefined> {
  const row = await reader.get("select * from scim_directory where account_id = ?", [accountId]);
  return row && toDirectory(row);
}

export async function getDirectory(reader: Reader, accountId: string): Promise<Directory> {
  const directory = await findDirectory(reader, accountId);
  if (directory !== undefined) return directory;
  throw new Fault("not_found", "no directory", {
    message: "This workspace has no directory sync. Create a token first.",
  });
}

/** The workspace that the bearer token of a request manages; throws 401 for any other token. */
export async function requireDirectory(db: Db, headers: Headers, now: number): Promise<Directory> {
  const [, token = ""] = /^Bearer +(\S+)$/i.exec(headers.get("authorization") ?? "") ?? [];
  const hash = hashOf(token);
  const row = token.startsWith(TOKEN_PREFIX)
    ? await db.get(
        "select * from scim_directory where token_hash = ? or (former_hash = ? and former_until > ?)",
        [hash, hash, now],
      )
    : undefined;
  if (row === undefined)
    throw new Fault("invalid_api_key", "no such SCIM token", {
      message:
        "The bearer token is missing, wrong or was replaced. The owner creates one on the page Directory sync.",
      headers: { "www-authenticate": 'Bearer realm="scim"' },
    });
  const directory = toDirectory(row);
  const { accountId, usedAt } = directory;
  if (usedAt === null || now - usedAt >= USED_UPDATE_MS)
    await db.write((tx) =>
      tx.run("update scim_directory set used_at = ? where account_id = ?", [now, accountId]),
    );
  return directory;
}

function hashOf(token: string): string {
  return createHash("sha256").update(token).digest("base64url");
}

function toDirectory(row: Row): Directory {
  return {
    accountId: text(row, "account_id"),
    last4: text(row, "last4"),
    fallbackRole: enumValue(row, "fallback_role", MEMBER_ROLES),
    handsOverKeys: integer(row, "hands_over_keys") === 1,
    createdAt: integer(row, "created_at"),
    usedAt: integerOrNull(row, "used_at"),
  };
}
