// Sessions of clients of revisions before 2026-07-28. A session remembers the account that it created, so that its tools need no
// key as an argument. Owns the table mcp_session, which has a fingerprint of the session's id and the id of the key, but no key.

import {
  deriveKey,
  fingerprint,
  fingerprints,
  type MasterSecret,
} from "../base/crypto/encryption.ts";
import { randomBase62 } from "../base/crypto/secret.ts";
import { DAY_MS } from "../base/time.ts";
import { type Reader, text, type Tx } from "../store/db.ts";

/** 256 bits: the id is as good as the key. */
const ID_CHARACTERS = 43;
const LIFETIME_MS = DAY_MS;
const DELETE_MAX = 1_000;
const ID = /^[A-Za-z0-9]{43}$/;

export interface McpSessions {
  /** Nothing is stored before the session creates an account. */
  readonly newId: () => string;
  /** Keeps the first account: a second one does not replace it. */
  readonly keep: (tx: Tx, sessionId: string, keyId: string, now: number) => Promise<void>;
  readonly findKeyId: (
    reader: Reader,
    sessionId: string,
    now: number,
  ) => Promise<string | undefined>;
}

export function createMcpSessions(master: MasterSecret): McpSessions {
  const key = deriveKey(master, "mcp/session/v1");
  return {
    newId: () => randomBase62(ID_CHARACTERS),
    keep: async (tx, sessionId, keyId, now) => {
      if (!ID.test(sessionId)) return;
      await tx.run(
        `insert into mcp_session (id_hash, key_id, created_at, expires_at) values (?, ?, ?, ?)
         on conflict (id_hash) do nothing`,
        [fingerprint(key, sessionId), keyId, now, now + LIFETIME_MS],
      );
    },
    findKeyId: async (reader, sessionId, now) => {
      const [current = "", former = current] = fingerprints(key, sessionId);
      const row = await reader.get(
        "select key_id from mcp_session where id_hash in (?, ?) and expires_at > ?",
        [current, former, now],
      );
      return row === undefined ? undefined : text(row, "key_id");
    },
  };
}

export async function sweepMcpSessions(tx: Tx, now: number): Promise<void> {
  await tx.run(
    `delete from mcp_session where id_hash in (select id_hash from mcp_session where expires_at < ? order by id_hash limit ${DELETE_MAX})`,
    [now],
  );
}
