// Browser sessions. Owns the table session. The cookie holds a random token and the store only its fingerprint, so a copy
// of the store does not give access to any session.

import { recordAuditEntry } from "../activity/audit.ts";
import {
  deriveKey,
  fingerprint,
  fingerprints,
  type MasterSecret,
} from "../base/crypto/encryption.ts";
import { randomBase62 } from "../base/crypto/secret.ts";
import { Fault } from "../base/fault.ts";
import { newId } from "../base/id.ts";
import { createCookieBuilder, readCookie } from "../base/network/cookie.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../base/time.ts";
import { type Db, type Reader, text, type Tx, integer, textOrNull } from "../store/db.ts";

const COOKIE = "postern_session";
const TOKEN_CHARACTERS = 43;
/** A session ends after twelve hours without use, and at the latest after a week. */
export const IDLE_MS = 12 * HOUR_MS;
export const LIFETIME_MS = 7 * DAY_MS;
/** `seen_at` is written at most this often. */
const SEEN_UPDATE_MS = 5 * MINUTE_MS;
const BROWSER_MAX = 200;

export interface Session {
  readonly sessionId: string;
  readonly personId: string;
  readonly issuer: string;
  readonly subject: string;
  readonly email: string;
  readonly ssoAccountId?: string | undefined;
  readonly csrf: string;
}

export interface SessionRecord {
  readonly id: string;
  readonly createdAt: number;
  readonly seenAt: number;
  readonly network: string;
  readonly browser: string;
}

interface NewSession {
  readonly personId: string;
  readonly network: string;
  readonly browser: string;
  /** The cookies of the sign-in request; the session that they carry is ended. */
  readonly cookies: string | null;
  readonly now: number;
}

export interface Sessions {
  /** Returns the Set-Cookie value. */
  readonly begin: (tx: Tx, request: NewSession) => Promise<string>;
  readonly find: (cookies: string | null, now: number) => Promise<Session | undefined>;
  /** Whether the cookie of a session is sent. The session may have ended: this reads no store. */
  readonly hasCookie: (cookies: string | null) => boolean;
  /** The Set-Cookie value that deletes the cookie. */
  readonly clearCookie: () => string;
}

export interface SessionsDeps {
  readonly db: Db;
  readonly master: MasterSecret;
  readonly baseUrl: string;
}

export function createSessions({ db, master, baseUrl }: SessionsDeps): Sessions {
  const hashKey = deriveKey(master, "session/v1");
  const csrfKey = deriveKey(master, "form-token/v1");
  const cookie = createCookieBuilder(baseUrl);
  const sessionHashes = (cookies: string | null): readonly string[] => {
    const token = readCookie(cookies, cookie.name(COOKIE));
    return token?.length === TOKEN_CHARACTERS ? fingerprints(hashKey, token) : [];
  };
  return {
    begin: async (tx, { personId, network, browser, cookies, now }) => {
      for (const previousHash of sessionHashes(cookies))
        await tx.run("update session set ended_at = ? where hash = ? and ended_at is null", [
          now,
          previousHash,
        ]);
      const token = randomBase62(TOKEN_CHARACTERS);
      await tx.run(
        `insert into session (id, hash, person_id, created_at, seen_at, expires_at, network, browser)
         values (?, ?, ?, ?, ?, ?, ?, ?)`,
        [
          newId("ses", now),
          fingerprint(hashKey, token),
          personId,
          now,
          now,
          now + LIFETIME_MS,
          network,
          browser.replaceAll("\u0000", "").slice(0, BROWSER_MAX),
        ],
      );
      return cookie.set(COOKIE, token, LIFETIME_MS / 1_000);
    },
    find: async (cookies, now) => {
      const [hash, formerHash = hash] = sessionHashes(cookies);
      if (hash === undefined || formerHash === undefined) return undefined;
      const row = await db.get(
        `select session.*, person.issuer, person.subject, person.email, person.time_zone,
           person.sso_account_id from session
         join person on person.id = session.person_id
         where hash in (?, ?) and ended_at is null and expires_at > ? and seen_at > ?`,
        [hash, formerHash, now, now - IDLE_MS],
      );
      if (row === undefined) return undefined;
      const sessionId = text(row, "id");
      if (now - integer(row, "seen_at") >= SEEN_UPDATE_MS)
        await db.write((tx) =>
          tx.run("update session set seen_at = ? where id = ? and seen_at < ?", [
            now,
            sessionId,
            now,
          ]),
        );
      return {
        sessionId,
        personId: text(row, "person_id"),
        issuer: text(row, "issuer"),
        subject: text(row, "subject"),
        email: text(row, "email"),
        timeZone: textOrNull(row, "time_zone") ?? undefined,
        ssoAccountId: text(row, "sso_account_id") || undefined,
        csrf: fingerprint(csrfKey, hash),
      };
    },
    hasCookie: (cookies) => readCookie(cookies, cookie.name(COOKIE)) !== undefined,
    clearCookie: () => cookie.clear(COOKIE),
  };
}

/** The active sessions of a person, newest first. */
export async function listSessions(
  reader: Reader,
  personId: string,
  now: number,
): Promise<readonly SessionRecord[]> {
  const rows = await reader.all(
    `select * from session where person_id = ? and ended_at is null and expires_at > ? and seen_at > ?
     order by id desc limit 100`,
    [personId, now, now - IDLE_MS],
  );
  return rows.map((row) => ({
    id: text(row, "id"),
    createdAt: integer(row, "created_at"),
    seenAt: integer(row, "seen_at"),
    network: text(row, "network"),
    browser: text(row, "browser"),
  }));
}

/** The person who ends sessions, from where, and when. */
export interface SessionAct {
  readonly personId: string;
  readonly network: string;
  readonly now: number;
}

/** Ends a session of this person; another person's is not found. Does nothing if it had already ended. */
export async function endSession(tx: Tx, act: SessionAct, sessionId: string): Promise<void> {
  const { personId, now } = act;
  const ended = await tx.run(
    "update session set ended_at = ? where id = ? and person_id = ? and ended_at is null",
    [now, sessionId, personId],
  );
  if (ended === 1) return await recordEnd(tx, act, sessionId, false);
  const row = await tx.get("select id from session where id = ? and person_id = ?", [
    sessionId,
    personId,
  ]);
  if (row === undefined)
    throw new Fault("not_found", "no such session", { message: "This session does not exist." });
}

/** Ends all sessions of the person except this one. */
export async function endOtherSessions(tx: Tx, act: SessionAct, sessionId: string): Promise<void> {
  const { personId, now } = act;
  const ended = await tx.run(
    "update session set ended_at = ? where person_id = ? and id <> ? and ended_at is null",
    [now, personId, sessionId],
  );
  if (ended > 0) await recordEnd(tx, act, sessionId, true);
}

/** Ends the sessions of one person of a workspace's identity provider. */
export async function endSsoSessionsOf(
  tx: Tx,
  { accountId, personId }: { readonly accountId: string; readonly personId: string },
  now: number,
): Promise<void> {
  await tx.run(
    `update session set ended_at = ? where person_id = ? and ended_at is null
     and person_id in (select id from person where sso_account_id = ?)`,
    [now, personId, accountId],
  );
}

/** Ends the sessions that the identity provider of a workspace began. */
export async function endSsoSessions(tx: Tx, accountId: string, now: number): Promise<void> {
  await tx.run(
    `update session set ended_at = ? where ended_at is null
     and person_id in (select id from person where sso_account_id = ?)`,
    [now, accountId],
  );
}

/** `sessionId` is the session that ended or, with `others`, the one that remains. */
async function recordEnd(
  tx: Tx,
  { personId, network, now }: SessionAct,
  sessionId: string,
  others: boolean,
): Promise<void> {
  await recordAuditEntry(tx, {
    accountId: null,
    actor: { type: "person", id: personId },
    action: "session.ended",
    target: sessionId,
    detail: { others },
    network,
    now,
  });
}

/** Deletes sessions that ended or expired at least a week ago. */
export async function sweepSessions(tx: Tx, now: number): Promise<void> {
  await tx.run("delete from session where expires_at < ? or ended_at < ?", [
    now - LIFETIME_MS,
    now - LIFETIME_MS,
  ]);
}
