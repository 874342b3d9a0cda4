// The routes of the pages of agents' sessions. All members see them; owners and admins stop one.

import { z } from "zod";
import { parseSessionCursor, sessionCursor } from "../../agent-sessions/agent-sessions-routes.ts";
import {
  getSession,
  type OnSessionStopped,
  readSessionPage,
  stopSession,
} from "../../agent-sessions/agent-sessions.ts";
import type { Route } from "../../http/route.ts";
import { SESSION_ID_LENGTH_MAX } from "../../usage/session-labels.ts";
import { workspacePath } from "../console-layout.tsx";
import { donePath, DoneQuery } from "../done-notice.tsx";
import type { ConsoleReadDeps } from "../require-access.ts";
import { AccountPath, workspacePage, workspaceForm } from "../workspace-routes.ts";
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
  return workspacePage(deps, {
    path: PATH,
    id: "showWorkspaceAgentSessions",
    summary: "Show the sessions of agents",
    query: z.object({ cursor: z.string().max(100).optional() }),
    permission: "usage.read",
    run: async ({ view, account, query: { cursor } }) => {
      const page = { limit: PER_PAGE, before: parseSessionCursor(cursor) };
      const { sessions, hasMore } = await readSessionPage(deps.db, account, page);
      const last = hasMore ? sessions.at(-1) : undefined;
      const next = last === undefined ? null : sessionCursor(last.session.createdAt, last.id);
      return agentSessionsPage({ ...view, sessions, next });
    },
  });
}

function showRoute(deps: AgentSessionPageDeps): Route {
  return workspacePage(deps, {
    path: `${PATH}/{session}`,
    id: "showWorkspaceAgentSession",
    summary: "Show a session with its agents",
    params: SessionPath,
    query: z.object({ ...DoneQuery, ask: z.string().max(20).optional() }),
    permission: "usage.read",
    run: async ({ view, account, params: { session }, query: { ask, done } }) => {
      const details = await getSession(deps.db, account, session);
      return agentSessionPage({ ...view, details, ask, done });
    },
  });
}

function stopRoute(deps: AgentSessionPageDeps): Route {
  return workspaceForm(deps, {
    path: `${PATH}/{session}`,
    id: "stopWorkspaceAgentSession",
    summary: "Stop a session",
    params: SessionPath,
    body: z.object({}),
    requestExample: {},
    permission: "agent_sessions.stop",
    write: (tx, { act, params: { session } }) => stopSession(tx, act, session),
    done: ({ account, params: { session } }) => {
      deps.onSessionStopped(account, session);
      const page = workspacePath(account, "/agent-sessions");
      return donePath(`${page}/${encodeURIComponent(session)}`, "stopped");
    },
  });
}
