// Operator sessions, in the table operator_session. They share nothing with customer sessions: they have their own cookie
// (limited to /operator), table and keys, and a shorter lifetime. Each request checks that the address is still an operator's.

import { recordAuditEntry } from "../../activity/audit.ts";
import {
  deriveKey,
  fingerprint,
  fingerprints,
  type MasterSecret,
} from "../../base/crypto/encryption.ts";
import { randomBase62 } from "../../base/crypto/secret.ts";
import { newId } from "../../base/id.ts";
import { createCookieBuilder, readCookie } from "../../base/network/cookie.ts";
import { foldEmail } from "../../base/text/email.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../base/time.ts";
import { type Operator } from "../../http/route.ts";
import { type Db, text, type Tx, integer } from "../../store/db.ts";

export const OPERATOR_PATH = "/operator";
const COOKIE_NAME = "postern_operator";
const TOKEN_LENGTH = 43;
const BROWSER_MAX = 200;
const IDLE_MS = 30 * MINUTE_MS;
const LIFETIME_MS = 8 * HOUR_MS;
/** The time of the last use is written at most this often. */
const LAST_SEEN_INTERVAL_MS = MINUTE_MS;
const RETENTION_MS = 30 * DAY_MS;

export interface OperatorSessions {
  readonly isOperator: (email: string) => boolean;
  /** Returns the session's id and the `set-cookie` value. */
  readonly begin: (
    tx: Tx,
    request: {
      readonly email: string;
      readonly network: string;
      readonly browser: string;
      readonly now: number;
    },
  ) => Promise<{ readonly sessionId: string; readonly cookie: string }>;
  readonly find: (cookies: string | null, now: number) => Promise<Operator | undefined>;
  /** The `set-cookie` value that deletes the cookie. */
  readonly clearCookie: () => string;
}

export interface OperatorSessionsDeps {
  readonly db: Db;
  readonly master: MasterSecret;
  readonly baseUrl: string;
  /** The operators' email addresses, folded for comparison. */
  readonly operators: readonly string[];
}

export function createOperatorSessions({
  db,
  master,
  baseUrl,
  operators,
}: OperatorSessionsDeps): OperatorSessions {
  const hashKey = deriveKey(master, "operator-session/v1");
  const formKey = deriveKey(master, "operator-form/v1");
  const cookieBuilder = createCookieBuilder(baseUrl, OPERATOR_PATH);
  const isOperator = (email: string): boolean => operators.includes(foldEmail(email));
  return {
    isOperator,
    begin: async (tx, { email, network, browser, now }) => {
      const token = randomBase62(TOKEN_LENGTH);
      const sessionId = newId("ses", now);
      await tx.run(
        `insert into operator_session (id, hash, email, created_at, seen_at, expires_at, network, browser)
         values (?, ?, ?, ?, ?, ?, ?, ?)`,
        [
          sessionId,
          fingerprint(hashKey, token),
          foldEmail(email),
          now,
          now,
          now + LIFETIME_MS,
          network,
          browser.replaceAll("\u0000", "").slice(0, BROWSER_MAX),
        ],
      );
      await recordAuditEntry(tx, {
        accountId: null,
        actor: { type: "operator", id: foldEmail(email) },
        action: "operator.signed_in",
        target: sessionId,
        network,
        now,
      });
      return { sessionId, cookie: cookieBuilder.set(COOKIE_NAME, token, LIFETIME_MS / 1_000) };
    },
    find: async (cookies, now) => {
      const token = readCookie(cookies, cookieBuilder.name(COOKIE_NAME));
      if (token?.length !== TOKEN_LENGTH) return undefined;
      const [hash = "", formerHash = hash] = fingerprints(hashKey, token);
      const row = await db.get(
        `select * from operator_session where hash in (?, ?) and ended_at is null and expires_at > ? and seen_at > ?`,
        [hash, formerHash, now, now - IDLE_MS],
      );
      if (row === undefined || !isOperator(text(row, "email"))) return undefined;
      const sessionId = text(row, "id");
      if (now - integer(row, "seen_at") >= LAST_SEEN_INTERVAL_MS)
        await db.write((tx) => touchSession(tx, sessionId, now));
      return { email: text(row, "email"), sessionId, csrf: fingerprint(formKey, hash) };
    },
    clearCookie: () => cookieBuilder.clear(COOKIE_NAME),
  };
}

async function touchSession(tx: Tx, sessionId: string, now: number): Promise<void> {
  await tx.run("update operator_session set seen_at = ? where id = ? and seen_at < ?", [
    now,
    sessionId,
    now,
  ]);
}

export async function endOperatorSession(
  tx: Tx,
  { email, sessionId }: Pick<Operator, "email" | "sessionId">,
  { network, now }: { readonly network: string; readonly now: number },
): Promise<void> {
  await tx.run("update operator_session set ended_at = coalesce(ended_at, ?) where id = ?", [
    now,
    sessionId,
  ]);
  await recordAuditEntry(tx, {
    accountId: null,
    actor: { type: "operator", id: email },
    action: "operator.signed_out",
    target: sessionId,
    network,
    now,
  });
}

/** Deletes expired sessions after the retention period. */
export async function sweepOperatorSessions(tx: Tx, now: number): Promise<void> {
  await tx.run("delete from operator_session where expires_at < ?", [now - RETENTION_MS]);
}
