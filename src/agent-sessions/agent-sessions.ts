// Sessions of agents: read, list and stop them, and delete old ones.

import { authorize } from "../accounts/members.ts";
import { type Act, recordAuditEntry } from "../activity/audit.ts";
import { Fault } from "../base/fault.ts";
import { DAY_MS } from "../base/time.ts";
import type { SessionSpend } from "../ledger/decide.ts";
import {
  accountsWithSessionsAbove,
  deleteOldSessions,
  deleteSessionsBeyond,
  findSession,
  listSessions,
  markSessionStopped,
  type SessionPosition,
} from "../ledger/session-rows.ts";
import type { Db, Reader, Tx } from "../store/db.ts";
import {
  type AgentUsage,
  deleteSessionUsage,
  listAgents,
  readSessionTotals,
  type SessionTotals,
} from "../usage/session-usage.ts";

/** After its last call or its stop, whichever is later. */
export const SESSION_RETENTION_DAYS = 30;
/** How many sessions of an account are kept, besides stopped ones and those with a limit that have spent something. */
export const SESSIONS_MAX = 10_000;
/** Rows per transaction, so that other writes do not wait long. */
const CHUNK_ROWS = 500;

export interface SessionView {
  readonly id: string;
  readonly session: SessionSpend;
  readonly totals: SessionTotals;
}

export interface SessionDetails extends SessionView {
  readonly agents: readonly AgentUsage[];
}

export async function getSession(
  reader: Reader,
  accountId: string,
  id: string,
): Promise<SessionDetails> {
  const session = await findSession(reader, accountId, id);
  if (session === undefined) throw unknownSession();
  const totals = (await readSessionTotals(reader, accountId, [id]))(id);
  return { id, session, totals, agents: await listAgents(reader, accountId, id) };
}

/** One more than `limit` shows that there are others. */
export async function readSessionPage(
  reader: Reader,
  accountId: string,
  page: { readonly limit: number; readonly before?: SessionPosition | undefined },
): Promise<{ readonly sessions: readonly SessionView[]; readonly hasMore: boolean }> {
  const listed = await listSessions(reader, accountId, { ...page, limit: page.limit + 1 });
  const shown = listed.slice(0, page.limit);
  const totalsOf = await readSessionTotals(
    reader,
    accountId,
    shown.map(({ id }) => id),
  );
  return {
    sessions: shown.map(({ id, session }) => ({ id, session, totals: totalsOf(id) })),
    hasMore: listed.length > page.limit,
  };
}

/** Tells this process at once that a session was stopped; other processes read it from the store. */
export type OnSessionStopped = (accountId: string, id: string) => void;

/** `reaches` decides by the key of the session's first call whether the actor may stop it. */
export async function stopSession(
  tx: Tx,
  act: Act,
  id: string,
  reaches: (keyId: string) => boolean = () => true,
): Promise<void> {
  const { accountId, now } = act;
  await authorize(tx, act, "agent_sessions.stop");
  const found = await findSession(tx, accountId, id);
  if (found === undefined) throw unknownSession();
  if (!reaches(found.keyId))
    throw new Fault("forbidden", "session of another key", {
      message:
        "Another key made the first call of this session. Stop it with that key, with a key that has no limit, policy or list of scopes, or in the console.",
      param: "id",
    });
  const stopped = await markSessionStopped(tx, accountId, id, now);
  if (stopped?.isFirst !== true) return;
  await recordAuditEntry(tx, { ...act, action: "agent_session.stopped", target: id });
}

function unknownSession(): Fault {
  return new Fault("not_found", "no such session", {
    message: "No session has this id. List the sessions with GET /v1/sessions.",
    param: "id",
    next: [{ method: "GET", url: "/v1/sessions", why: "List the sessions of the account." }],
  });
}

/** Deletes sessions without a call or a stop for 30 days, and those of an account beyond its limit. */
export async function sweepAgentSessions(db: Db, now: number): Promise<number> {
  const before = now - SESSION_RETENTION_DAYS * DAY_MS;
  let deleted = await inChunks(db, (tx) => deleteOldSessions(tx, before, CHUNK_ROWS));
  deleted += await inChunks(db, (tx) => deleteSessionUsage(tx, before, CHUNK_ROWS));
  for (const accountId of await accountsWithSessionsAbove(db, SESSIONS_MAX))
    deleted += await inChunks(db, (tx) =>
      deleteSessionsBeyond(tx, accountId, { max: SESSIONS_MAX, limit: CHUNK_ROWS }),
    );
  return deleted;
}

async function inChunks(db: Db, deleteChunk: (tx: Tx) => Promise<number>): Promise<number> {
  for (let total = 0; ;) {
    const deleted = await db.write(deleteChunk);
    total += deleted;
    if (deleted < CHUNK_ROWS) return total;
    await new Promise((resolve) => setImmediate(resolve));
  }
}
