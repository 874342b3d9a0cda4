/** @jsxImportSource hono/jsx */
// The layout of the console pages: navigation, the workspace switcher and the signed-in person.

import type { Child } from "hono/jsx";
import { type Permission, hasPermission } from "../accounts/members.ts";
import type { NavLink, NavGroup } from "../http/pages/app-frame.tsx";
import { HiddenFields, PostForm } from "../http/pages/components/form.tsx";
import { InTimeZone } from "../http/pages/components/local-time.tsx";
import type { PageLayout } from "../http/pages/layout.tsx";
import type { SessionUser } from "../http/route.ts";
import type { WorkspaceContext } from "./require-access.ts";

interface ConsolePage {
  readonly path: string;
  readonly label: string;
  /** `workspace.read` if absent. */
  readonly permission?: Permission;
}

/** The pages in the sidebar, in groups. A new page is one more line here. */
const PAGE_GROUPS = [
  {
    label: undefined,
    pages: [
      { path: "", label: "Overview" },
      { path: "/usage", label: "Usage", permission: "usage.read" },
      { path: "/logs", label: "Logs", permission: "usage.read" },
      { path: "/agent-sessions", label: "Agent sessions", permission: "usage.read" },
      { path: "/playground", label: "Playground", permission: "keys.create" },
    ],
  },
  {
    label: "Build",
    pages: [
      { path: "/keys", label: "Keys" },
      { path: "/provider-keys", label: "Provider keys", permission: "provider_keys.read" },
      { path: "/presets", label: "Presets", permission: "presets.read" },
      { path: "/guardrails", label: "Guardrails", permission: "guardrails.read" },
      { path: "/mcp-servers", label: "MCP servers", permission: "workspace.read" },
      { path: "/batches", label: "Batches", permission: "batches.manage" },
      { path: "/responses", label: "Stored responses", permission: "responses.read" },
      { path: "/webhooks", label: "Webhooks", permission: "webhooks.read" },
      { path: "/sinks", label: "Sinks", permission: "sinks.read" },
    ],
  },
  {
    label: "Workspace",
    pages: [
      { path: "/billing", label: "Billing" },
      { path: "/budgets", label: "Budgets" },
      { path: "/members", label: "Members" },
      { path: "/connected-apps", label: "Connected apps" },
      { path: "/sso", label: "Single sign-on", permission: "sso.read" },
      { path: "/directory-sync", label: "Directory sync", permission: "sso.read" },
      { path: "/audit", label: "Audit log", permission: "audit.read" },
      { path: "/settings", label: "Settings" },
    ],
  },
] as const satisfies readonly {
  readonly label: string | undefined;
  readonly pages: readonly ConsolePage[];
}[];

export type ConsolePath = (typeof PAGE_GROUPS)[number]["pages"][number]["path"];

export function workspacePath(accountId: string, page: ConsolePath): string {
  return `/console/${accountId}${page}`;
}

export interface ConsolePageOptions {
  readonly title: string;
  /** The heading if it is not the title. */
  readonly heading?: Child;
  readonly workspace: WorkspaceContext;
  readonly user: SessionUser;
  /** The page in the sidebar. A detail page names the page above it and gives `crumbs`. */
  readonly page: ConsolePath;
  readonly crumbs?: readonly NavLink[];
  /** Links and buttons beside the heading; one of them is primary. */
  readonly actions?: Child;
  readonly main: Child;
}

export function consolePage(options: ConsolePageOptions): PageLayout {
  const { title, heading, workspace, user, page, crumbs, actions, main } = options;
  const { accountId } = workspace;
  return {
    title: `${title} – Postern`,
    isPrivate: true,
    app: {
      homeHref: workspacePath(accountId, ""),
      navGroups: navGroups(workspace),
      path: workspacePath(accountId, page),
      heading: heading ?? title,
      crumbs,
      actions,
      sidebarHead: (
        <>
          <WorkspaceSwitcher workspace={workspace} />
          <SearchLink accountId={accountId} />
        </>
      ),
      email: user.email,
      accountLinks: [
        { href: "/docs", label: "Docs" },
        ...(workspace.sendsEmails ? [{ href: "/emails", label: "Emails" }] : []),
        { href: "/sessions", label: "Sessions" },
        ...workspace.operatorLinks,
      ],
      signOut: { action: "/signout", csrf: user.csrf },
    },
    main: (
      <InTimeZone timeZone={user.timeZone}>
        {user.timeZone === undefined ? <TimeZoneProposal {...options} /> : null}
        {main}
      </InTimeZone>
    ),
  };
}

/** The app script shows it where the browser is in another time zone than UTC. */
function TimeZoneProposal({ user, workspace }: ConsolePageOptions): Child {
  return (
    <form
      class="notice row"
      method="post"
      action={`/console/${workspace.accountId}/time-zone`}
      data-propose-time-zone
      hidden
    >
      <HiddenFields fields={{ csrf: user.csrf }} />
      <span>Times are in UTC. You can change this in Settings.</span>
      <span>
        <button type="submit" name="time_zone" class="small">
          Use this time zone
        </button>{" "}
        <button type="submit" name="time_zone" value="UTC" class="small secondary">
          Keep UTC
        </button>
      </span>
    </form>
  );
}

/** The page of the sidebar that a path belongs to; the overview if it belongs to none. */
export function sidebarPageOf(path: string): {
  readonly path: ConsolePath;
  readonly label: string;
} {
  const rest = path.replace(/^\/console\/[^/]+/, "");
  const pages = PAGE_GROUPS.flatMap((group) => [...group.pages]);
  const [overview] = PAGE_GROUPS[0].pages;
  return (
    pages.find(
      (page) => page.path !== "" && (rest === page.path || rest.startsWith(`${page.path}/`)),
    ) ?? overview
  );
}

export function searchPath(accountId: string): string {
  return `/console/${accountId}/search`;
}

/** The app script opens a dialog instead of the page. */
function SearchLink({ accountId }: { readonly accountId: string }): Child {
  const path = searchPath(accountId);
  return (
    <a
      class="search-link"
      href={path}
      data-search={path}
      data-placeholder="Search pages, models, keys and docs"
    >
      Search <kbd>Ctrl K</kbd>
    </a>
  );
}

export function navGroups({ accountId, role }: WorkspaceContext): readonly NavGroup[] {
  return PAGE_GROUPS.map(({ label, pages }) => ({
    label,
    links: [
      ...pages
        .filter((page: ConsolePage) => hasPermission(role, page.permission ?? "workspace.read"))
        .map((page) => ({ href: workspacePath(accountId, page.path), label: page.label })),
      // The models are the same for all workspaces.
      ...(label === undefined ? [{ href: "/models", label: "Models" }] : []),
    ],
  }));
}

function WorkspaceSwitcher({ workspace }: { readonly workspace: WorkspaceContext }): Child {
  const { accountId, name, role, memberships } = workspace;
  return (
    <details class="switcher">
      <summary>
        <span>
          <span class="visually-hidden">Workspace</span>
          <b title={accountId}>
            <bdi>{name ?? accountId}</bdi>
          </b>
          <span>Your role: {role}</span>
        </span>
      </summary>
      <ul>
        {memberships
          .filter((other) => other.accountId !== accountId)
          .map((other) => (
            <li>
              <a href={workspacePath(other.accountId, "")} title={other.accountId}>
                <bdi>{other.name ?? other.accountId}</bdi>
              </a>
            </li>
          ))}
        <li>
          <a href="/console?all=true">All workspaces</a>
        </li>
        <li>
          <a href="/console?all=true#create">Create workspace</a>
        </li>
      </ul>
    </details>
  );
}

export function SignedInFooter({ user }: { readonly user: SessionUser }): Child {
  return (
    <PostForm user={user} action="/signout">
      <p>
        Signed in as {user.email}. <a href="/sessions">Your sessions</a> ·{" "}
        <button type="submit" class="plain">
          Sign out
        </button>
      </p>
    </PostForm>
  );
}
