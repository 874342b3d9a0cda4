// The routes of the pages of agents' sessions. All members see them; owners and admins stop one.

import { z } from "zod";
import { personAct } from "../../activity/audit.ts";
import { parseSessionCursor, sessionCursor } from "../../agent-sessions/agent-sessions-routes.ts";
import {
  getSession,
  type OnSessionStopped,
  readSessionPage,
  stopSession,
} from "../../agent-sessions/agent-sessions.ts";
import { pageResponse, redirect } from "../../http/pages/page-response.ts";
import { type Route, sessionRoute } from "../../http/route.ts";
import { SESSION_ID_LENGTH_MAX } from "../../usage/session-labels.ts";
import { workspacePath } from "../console-layout.tsx";
import { donePath, DoneQuery } from "../done-notice.tsx";
import { AccountPath, PAGE_DEFAULTS } from "../page-defaults.ts";
import { type ConsoleReadDeps, requireAccess } from "../require-access.ts";
import { agentSessionPage, agentSessionsPage } from "./agent-sessions-page.tsx";

export interface AgentSessionPageDeps extends ConsoleReadDeps {
  readonly onSessionStopped: OnSessionStopped;
}

const PATH = "/console/{account}/agent-sessions";
const PER_PAGE = 50;
const SessionPath = AccountPath.extend({ session: z.string().max(SESSION_ID_LENGTH_MAX) });

export function agentSessionPageRoutes(deps: AgentSessionPageDeps): readonly Route[] {
  return [listRoute(deps), showRoute(deps), stopRoute(deps)];
}

function listRoute(deps: AgentSessionPageDeps): Route {
  return sessionRoute({
    ...PAGE_DEFAULTS,
    method: "GET",
    path: PATH,
    id: "showWorkspaceAgentSessions",
    summary: "Show the sessions of agents",
    params: AccountPath,
    query: z.object({ cursor: z.string().max(100).optional() }),
    run: async ({ caller, params: { account }, query: { cursor } }) => {
      const workspace = await requireAccess(deps, account, caller.personId, "usage.read");
      const page = { limit: PER_PAGE, before: parseSessionCursor(cursor) };
      const { sessions, hasMore } = await readSessionPage(deps.db, account, page);
      const last = hasMore ? sessions.at(-1) : undefined;
      const next = last === undefined ? null : sessionCursor(last.session.createdAt, last.id);
      return pageResponse(agentSessionsPage({ user: caller, workspace, sessions, next }));
    },
  });
}

function showRoute(deps: AgentSessionPageDeps): Route {
  return sessionRoute({
    ...PAGE_DEFAULTS,
    method: "GET",
    path: `${PATH}/{session}`,
    id: "showWorkspaceAgentSession",
    summary: "Show a session with its agents",
    params: SessionPath,
    query: z.object({ ...DoneQuery, ask: z.string().max(20).optional() }),
    run: async ({ caller, params: { account, session }, query: { ask, done } }) => {
      const workspace = await requireAccess(deps, account, caller.personId, "usage.read");
      const details = await getSession(deps.db, account, session);
      return pageResponse(agentSessionPage({ user: caller, workspace, details, ask, done }));
    },
  });
}

function stopRoute(deps: AgentSessionPageDeps): Route {
  return sessionRoute({
    ...PAGE_DEFAULTS,
    method: "POST",
    path: `${PATH}/{session}`,
    id: "stopWorkspaceAgentSession",
    summary: "Stop a session",
    params: SessionPath,
    body: z.object({}),
    requestExample: {},
    run: async ({ caller, params: { account, session }, clientIp, now }) => {
      const { personId } = caller;
      await requireAccess(deps, account, personId, "agent_sessions.stop");
      const act = personAct(account, personId, { clientIp, now });
      await deps.db.write((tx) => stopSession(tx, act, session));
      deps.onSessionStopped(account, session);
      const page = workspacePath(account, "/agent-sessions");
      return redirect(donePath(`${page}/${encodeURIComponent(session)}`, "stopped"));
    },
  });
}
