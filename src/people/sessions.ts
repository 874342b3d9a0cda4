// Who is signed in, and from where. It owns the table session. The browser holds a random token in a cookie; the store
// holds only its fingerprint, so that a session can be listed and ended, and a copy of the store opens none.

import { createCookieBuilder, readCookie } from "../base/cookie.ts";
import { Fault } from "../base/fault.ts";
import { newId } from "../base/id.ts";
import { deriveKey, fingerprint } from "../base/encryption.ts";
import { randomBase62, type Secret } from "../base/secret.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../base/time.ts";
import { type Db, type Reader, text, type Tx, integer } from "../store/db.ts";

const COOKIE = "postern_session";
const TOKEN_CHARACTERS = 43;
/** A session ends when it was not used for twelve hours, and in any case after a week. */
export const IDLE_MS = 12 * HOUR_MS;
export const LIFETIME_MS = 7 * DAY_MS;
/** How old the note of the last use may grow before it is written anew. */
const SEEN_UPDATE_MS = 5 * MINUTE_MS;
const BROWSER_MAX = 200;

export interface Session {
  readonly sessionId: string;
  readonly personId: string;
  readonly issuer: string;
  readonly subject: string;
  readonly email: string;
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
  /** The cookies that came with the sign-in: a session that they open ends now. */
  readonly cookies: string | null;
  readonly now: number;
}

export interface Sessions {
  /** Answers the cookie to set. */
  readonly begin: (tx: Tx, request: NewSession) => Promise<string>;
  readonly find: (cookies: string | null, now: number) => Promise<Session | undefined>;
  /** The cookie that takes the browser's away. */
  readonly clearCookie: () => string;
}

export interface SessionsDeps {
  readonly db: Db;
  readonly master: Secret;
  readonly baseUrl: string;
}

export function createSessions({ db, master, baseUrl }: SessionsDeps): Sessions {
  const hashKey = deriveKey(master, "session/v1");
  const csrfKey = deriveKey(master, "form-token/v1");
  const cookie = createCookieBuilder(baseUrl);
  const sessionHash = (cookies: string | null): string | undefined => {
    const token = readCookie(cookies, cookie.name(COOKIE));
    return token !== undefined && token.length === TOKEN_CHARACTERS
      ? fingerprint(hashKey, token)
      : undefined;
  };
  return {
    begin: async (tx, { personId, network, browser, cookies, now }) => {
      const previousHash = sessionHash(cookies);
      if (previousHash !== undefined)
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
      const hash = sessionHash(cookies);
      if (hash === undefined) return undefined;
      const row = await db.get(
        `select session.*, person.issuer, person.subject, person.email from session
         join person on person.id = session.person_id
         where hash = ? and ended_at is null and expires_at > ? and seen_at > ?`,
        [hash, now, now - IDLE_MS],
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
        csrf: fingerprint(csrfKey, hash),
      };
    },
    clearCookie: () => cookie.clear(COOKIE),
  };
}

/** The sessions of a person that are open, the newest first. */
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

/** Ends one session of a person; what is not theirs is not there. Answers how many it ended: none for one that is over. */
export async function endSession(
  tx: Tx,
  personId: string,
  sessionId: string,
  now: number,
): Promise<number> {
  const ended = await tx.run(
    "update session set ended_at = ? where id = ? and person_id = ? and ended_at is null",
    [now, sessionId, personId],
  );
  if (ended === 1) return ended;
  const row = await tx.get("select id from session where id = ? and person_id = ?", [
    sessionId,
    personId,
  ]);
  if (row === undefined)
    throw new Fault("not_found", "no such session", { message: "There is no such session." });
  return 0;
}

export async function endOtherSessions(
  tx: Tx,
  personId: string,
  sessionId: string,
  now: number,
): Promise<number> {
  return await tx.run(
    "update session set ended_at = ? where person_id = ? and id <> ? and ended_at is null",
    [now, personId, sessionId],
  );
}

/** Forgets sessions that nobody can use any more. */
export async function sweepSessions(tx: Tx, now: number): Promise<void> {
  await tx.run("delete from session where expires_at < ? or ended_at < ?", [
    now - LIFETIME_MS,
    now - LIFETIME_MS,
  ]);
}
