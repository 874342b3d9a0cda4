/** @jsxImportSource hono/jsx */
// The sessions of agents, and one session as a tree of its agents with what each cost. All members see them;
// owners and admins stop one.

import type { Child } from "hono/jsx";
import { z } from "zod";
import { hasPermission } from "../../accounts/members.ts";
import { parseSessionCursor, sessionCursor } from "../../agent-sessions/agent-sessions-routes.ts";
import {
  getSession,
  type OnSessionStopped,
  readSessionPage,
  type SessionDetails,
  type SessionView,
  stopSession,
} from "../../agent-sessions/agent-sessions.ts";
import { maxNano, type Nano } from "../../base/money/money.ts";
import {
  formatCosts,
  formatInteger,
  formatSum,
  formatUsd,
  pluralize,
} from "../../base/text/format.ts";
import {
  Card,
  EmptyState,
  type Figure,
  Figures,
  Tag,
} from "../../http/pages/components/content.tsx";
import { RelativeTime } from "../../http/pages/components/local-time.tsx";
import { OlderLink, Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { Route } from "../../http/route.ts";
import { SESSION_ID_LENGTH_MAX } from "../../usage/session-labels.ts";
import type { AgentUsage } from "../../usage/session-usage.ts";
import { Confirm, ConfirmLink, withQuery } from "../confirm.tsx";
import { consolePage, workspacePath } from "../console-layout.tsx";
import { DoneNotice, donePath, DoneQuery } from "../done-notice.tsx";
import type { ConsoleReadDeps, WorkspaceView } from "../require-access.ts";
import { AccountPath, workspaceForm, workspacePage } from "../workspace-routes.ts";

const PAGE = "/agent-sessions";
/** Deeper agents are shown at this depth. */
const DEPTH_MAX = 5;

interface SessionsPageProps extends WorkspaceView {
  readonly sessions: readonly SessionView[];
  readonly next: string | null;
}

function agentSessionsPage(props: SessionsPageProps): PageLayout {
  const { user, workspace, sessions, next } = props;
  const path = workspacePath(workspace.accountId, PAGE);
  return consolePage({
    title: "Agent sessions",
    workspace,
    user,
    page: PAGE,
    actions: <a href="/docs/usage">How sessions work</a>,
    main: (
      <div class="card">
        {sessions.length === 0 ? (
          <EmptyState title="No sessions yet">
            <p class="muted">
              Calls of Claude Code and Codex, and calls with the header{" "}
              <code>x-postern-session</code>, appear here by session.
            </p>
          </EmptyState>
        ) : (
          <SessionTable sessions={sessions} path={path} />
        )}
        <OlderLink path={path} query={{}} cursor={next} />
      </div>
    ),
  });
}

function SessionTable({
  sessions,
  path,
}: Pick<SessionsPageProps, "sessions"> & { readonly path: string }): Child {
  const costs = formatCosts(sessions.map(({ session }) => session.spent));
  return (
    <Table
      label="Sessions"
      columns={[
        { name: "Session" },
        { name: "Status" },
        { name: "Last call", isDate: true, isExtra: true },
        { name: "Agents", isNumber: true, isExtra: true },
        { name: "Calls", isNumber: true },
        { name: "Limit", isNumber: true, isExtra: true },
        { name: "Cost", isNumber: true },
      ]}
      rows={sessions.map(({ id, session, totals }, index) => [
        <a class="name" href={`${path}/${encodeURIComponent(id)}`}>
          <bdi>{id}</bdi>
        </a>,
        <StatusTag isStopped={session.stoppedAt !== null} />,
        <RelativeTime at={session.lastCallAt} />,
        formatInteger(totals.agents),
        formatInteger(totals.calls),
        session.limit === undefined ? "–" : formatUsd(session.limit),
        costs[index],
      ])}
    />
  );
}

function StatusTag({ isStopped }: { readonly isStopped: boolean }): Child {
  return isStopped ? <Tag tone="danger">Stopped</Tag> : <Tag tone="good">Active</Tag>;
}

interface SessionPageProps extends WorkspaceView {
  readonly details: SessionDetails;
  readonly ask: string | undefined;
  readonly done: string | undefined;
}

function agentSessionPage(props: SessionPageProps): PageLayout {
  const { user, workspace, details, ask, done } = props;
  const { id, session } = details;
  const list = workspacePath(workspace.accountId, PAGE);
  const path = `${list}/${encodeURIComponent(id)}`;
  const logs = withQuery(workspacePath(workspace.accountId, "/logs"), { session: id });
  const canStop =
    session.stoppedAt === null && hasPermission(workspace.role, "agent_sessions.stop");
  return consolePage({
    title: `Session ${id}`,
    heading: (
      <>
        Session <bdi>{id}</bdi>
      </>
    ),
    workspace,
    user,
    page: PAGE,
    crumbs: [{ href: list, label: "Agent sessions" }],
    actions: (
      <>
        <a class="button secondary" href={logs}>
          Calls
        </a>
        {canStop && ask !== "stop" ? (
          <ConfirmLink href={withQuery(path, { ask: "stop" })} label="Stop" subject={id} />
        ) : null}
      </>
    ),
    main: (
      <>
        <DoneNotice done={done} texts={{ stopped: "The session was stopped." }} />
        {canStop && ask === "stop" ? (
          <Confirm
            user={user}
            action={path}
            fields={{}}
            confirmLabel="Stop session"
            cancelHref={path}
          >
            Later calls of this session will be refused, and its open streams end within seconds.
            This cannot be undone.
          </Confirm>
        ) : null}
        <Figures figures={sessionFigures(details)} />
        <AgentCard details={details} logs={logs} />
      </>
    ),
  });
}

function sessionFigures({ session, totals }: SessionDetails): readonly Figure[] {
  const { limit, spent, held, stoppedAt } = session;
  const left = limit === undefined ? undefined : maxNano(limit - spent - held, 0n);
  const shown = formatSum([spent, held, left ?? 0n], limit);
  const [shownSpent, shownHeld, shownLeft] = shown.parts;
  return [
    {
      label: "Cost",
      value: shownSpent,
      remark: held === 0n ? "no open calls" : `${shownHeld} held by open calls`,
    },
    {
      label: "Limit",
      value: limit === undefined ? "–" : shown.total,
      remark: left === undefined ? "none was set" : `${shownLeft} left`,
    },
    {
      label: "Calls",
      value: formatInteger(totals.calls),
      remark: `${formatInteger(totals.errors)} failed`,
    },
    {
      label: "Tokens",
      value: formatInteger(totals.inputTokens + totals.outputTokens),
      remark: `${formatInteger(totals.outputTokens)} of output`,
    },
    {
      label: "Last call",
      value: <RelativeTime at={session.lastCallAt} />,
      remark: <StatusTag isStopped={stoppedAt !== null} />,
    },
  ];
}

function AgentCard({
  details,
  logs,
}: {
  readonly details: SessionDetails;
  readonly logs: string;
}): Child {
  const tree = agentTree(details.agents);
  const costs = formatCosts(tree.map(({ usage }) => usage.cost));
  const totals = formatCosts(tree.map(({ total }) => total));
  const { agents } = details.totals;
  return (
    <Card
      id="agents"
      title="Agents"
      aside={
        tree.length < agents ? (
          <span class="note">
            The {formatInteger(tree.length)} of {pluralize(agents, "agent")} that cost most
          </span>
        ) : null
      }
    >
      <Table
        label="Agents of the session"
        columns={[
          { name: "Agent" },
          { name: "Calls", isNumber: true },
          { name: "Failed", isNumber: true, isExtra: true },
          { name: "Input", isNumber: true, isExtra: true },
          { name: "Output", isNumber: true, isExtra: true },
          { name: "Cost", isNumber: true },
          { name: "With subagents", isNumber: true, isExtra: true },
        ]}
        rows={tree.map((agent, index) => [
          <AgentName agent={agent} logs={logs} />,
          formatInteger(agent.usage.calls),
          formatInteger(agent.usage.errors),
          formatInteger(agent.usage.inputTokens),
          formatInteger(agent.usage.outputTokens),
          costs[index],
          totals[index],
        ])}
      />
    </Card>
  );
}

function AgentName({ agent, logs }: { readonly agent: TreeAgent; readonly logs: string }): Child {
  const { usage, depth } = agent;
  const name = usage.agent === "" ? "Main agent" : usage.agent;
  const href =
    usage.agent === "" ? logs : `${logs}&${new URLSearchParams({ agent: usage.agent }).toString()}`;
  return (
    <a class={`name tree-${Math.min(depth, DEPTH_MAX)}`} href={href}>
      <bdi>{name}</bdi>
    </a>
  );
}

// The agents of a session as a tree, in the order in which the page lists them.
interface TreeAgent {
  readonly usage: AgentUsage;
  /** 0 for the main agent, and for agents whose parent is not known. */
  readonly depth: number;
  /** The cost of the agent and of those below it. */
  readonly total: Nano;
}

/** Depth first; of the children of an agent, the one that cost most with its own comes first. */
export function agentTree(agents: readonly AgentUsage[]): readonly TreeAgent[] {
  const known = new Set(agents.map(({ agent }) => agent));
  const childrenOf = Map.groupBy(agents, (usage) => parentOf(usage, known));
  const seen = new Set<string>();
  const visit = (usage: AgentUsage, depth: number): readonly TreeAgent[] => {
    // Agents that name each other as their parent.
    if (seen.has(usage.agent)) return [];
    seen.add(usage.agent);
    const children = childrenOf.get(usage.agent) ?? [];
    const below = inOrder(children.map((child) => visit(child, depth + 1)));
    const direct = below.filter((one) => one.depth === depth + 1);
    const total = direct.reduce((sum, child) => sum + child.total, usage.cost);
    return [{ usage, depth, total }, ...below];
  };
  const roots = (childrenOf.get(undefined) ?? []).map((usage) => visit(usage, 0));
  // What is left is only reached through a circle.
  const others = agents.map((usage) => visit(usage, 0));
  return inOrder([...roots, ...others]);
}

function parentOf(
  { agent, parentAgent }: AgentUsage,
  known: ReadonlySet<string>,
): string | undefined {
  if (agent === "" || parentAgent === agent) return undefined;
  if (known.has(parentAgent)) return parentAgent;
  return known.has("") ? "" : undefined;
}

/** Each list begins with the agent whose children the rest is. */
function inOrder(lists: readonly (readonly TreeAgent[])[]): readonly TreeAgent[] {
  return lists
    .filter((list) => list.length > 0)
    .toSorted(([one], [other]) => ((one?.total ?? 0n) < (other?.total ?? 0n) ? 1 : -1))
    .flat();
}

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
