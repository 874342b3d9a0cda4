// Routes of /v1/sessions.

import { z } from "zod";
import { keyAct } from "../activity/audit.ts";
import { invalid } from "../base/fault.ts";
import { keyRoute, keyWriteRoute, oneResponse, type Route } from "../http/route.ts";
import { listResponse, PageQuery } from "../http/schemas.ts";
import { findLiveKey } from "../keys/live-keys.ts";
import type { SessionPosition } from "../ledger/session-rows.ts";
import type { Db } from "../store/db.ts";
import { SESSION_ID_LENGTH_MAX } from "../usage/session-labels.ts";
import {
  SESSION_DETAIL_EXAMPLE,
  SESSION_EXAMPLE,
  SessionDetailRecord,
  SessionRecord,
  toSessionDetailRecord,
  toSessionRecord,
} from "./agent-session-record.ts";
import {
  getSession,
  type OnSessionStopped,
  readSessionPage,
  stopSession,
} from "./agent-sessions.ts";

const DOC = { tag: "Usage", dialect: "openai" } as const;
const CURSOR = /^(\d{1,15}):([A-Za-z0-9_.:@+-]{1,64})$/;

const SessionPath = z.object({
  id: z
    .string()
    .max(SESSION_ID_LENGTH_MAX)
    .meta({ description: "The id of the session.", example: SESSION_EXAMPLE.id }),
});

const DETAILS = oneResponse(
  "The session with its agents.",
  SessionDetailRecord,
  SESSION_DETAIL_EXAMPLE,
);

export interface AgentSessionDeps {
  readonly db: Db;
  readonly onSessionStopped: OnSessionStopped;
}

export function agentSessionRoutes(deps: AgentSessionDeps): readonly Route[] {
  return [listRoute(deps), getRoute(deps), stopRoute(deps)];
}

function listRoute({ db }: AgentSessionDeps): Route {
  return keyRoute({
    ...DOC,
    method: "GET",
    path: "/v1/sessions",
    id: "listAgentSessions",
    scope: "usage:read",
    summary: "List sessions of agents",
    description:
      "Newest first. A session begins with the first call that names it, and is deleted 30 days after its last call or its stop.",
    query: z.strictObject({
      limit: PageQuery.limit,
      cursor: z
        .string()
        .max(100)
        .optional()
        .meta({ description: "`next_cursor` of the previous page." }),
    }),
    responses: listResponse(
      "A page of sessions.",
      SessionRecord,
      "AgentSessionList",
      SESSION_EXAMPLE,
    ),
    faults: [],
    run: async ({ caller, query: { limit, cursor } }) => {
      const { sessions, hasMore } = await readSessionPage(db, caller.accountId, {
        limit,
        before: parseSessionCursor(cursor),
      });
      const last = hasMore ? sessions.at(-1) : undefined;
      const next = last === undefined ? null : sessionCursor(last.session.createdAt, last.id);
      const data = sessions.map(toSessionRecord);
      return { status: 200, body: { object: "list", data, has_more: hasMore, next_cursor: next } };
    },
  });
}

export function sessionCursor(createdAt: number, id: string): string {
  return `${createdAt}:${id}`;
}

export function parseSessionCursor(cursor: string | undefined): SessionPosition | undefined {
  if (cursor === undefined) return undefined;
  const [, createdAt = "", id = ""] = CURSOR.exec(cursor) ?? [];
  if (id !== "") return { createdAt: Number(createdAt), id };
  throw invalid(
    "cursor",
    "`cursor` is not a cursor of this list. Use `next_cursor` of the previous page.",
  );
}

function getRoute({ db }: AgentSessionDeps): Route {
  return keyRoute({
    ...DOC,
    method: "GET",
    path: "/v1/sessions/{id}",
    id: "getAgentSession",
    scope: "usage:read",
    summary: "Get a session with the cost of each agent",
    params: SessionPath,
    responses: DETAILS,
    faults: ["not_found"],
    run: async ({ caller, params }) => ({
      status: 200,
      body: toSessionDetailRecord(await getSession(db, caller.accountId, params.id)),
    }),
  });
}

function stopRoute({ onSessionStopped }: AgentSessionDeps): Route {
  return keyWriteRoute({
    ...DOC,
    method: "DELETE",
    path: "/v1/sessions/{id}",
    id: "stopAgentSession",
    scope: "models:write",
    summary: "Stop a session",
    description:
      "Later calls of the session are refused with `403 session_stopped`, and its open streams end with that error within seconds. Replies that are not streamed are still delivered. What the calls used is charged. A key with a limit, a policy or a list of scopes stops only sessions whose first call it made. Repeating the request changes nothing.",
    params: SessionPath,
    responses: DETAILS,
    faults: ["forbidden", "not_found"],
    run: async (tx, { caller, params: { id }, clientIp, now }) => {
      const { accountId, keyId } = caller;
      const key = await findLiveKey(tx, keyId, now);
      const reachesOthers = key?.granted.has("keys:manage") === true;
      await stopSession(
        tx,
        keyAct(caller, { clientIp, now }),
        id,
        (ownerId) => reachesOthers || ownerId === keyId,
      );
      onSessionStopped(accountId, id);
      return { status: 200, body: toSessionDetailRecord(await getSession(tx, accountId, id)) };
    },
  });
}
