/** @jsxImportSource hono/jsx */
// The layout of the console pages: navigation, the current workspace and the signed-in person.

import type { Child } from "hono/jsx";
import { type Permission, hasPermission } from "../accounts/members.ts";
import type { PageLayout } from "../http/pages/layout.tsx";
import type { SessionUser } from "../http/route.ts";
import type { WorkspaceContext } from "./authorize.ts";

const CONSOLE_PAGES = [
  ["", "Overview"],
  ["/keys", "Keys"],
  ["/provider-keys", "Provider keys"],
  ["/usage", "Usage"],
  ["/budgets", "Budgets"],
  ["/billing", "Billing"],
  ["/members", "Members"],
  ["/webhooks", "Webhooks"],
  ["/audit", "Audit log"],
] as const;

/** Permissions of pages that not every role may see. */
const REQUIRED_PERMISSIONS: Readonly<Record<string, Permission>> = {
  "/provider-keys": "provider_keys.read",
  "/webhooks": "webhooks.read",
  "/audit": "audit.read",
};

export function workspacePath(accountId: string, page: (typeof CONSOLE_PAGES)[number][0]): string {
  return `/console/${accountId}${page}`;
}

export interface ConsolePageOptions {
  readonly title: string;
  readonly workspace: WorkspaceContext;
  readonly user: SessionUser;
  readonly page: (typeof CONSOLE_PAGES)[number][0];
  readonly main: Child;
}

export function consolePage({
  title,
  workspace,
  user,
  page,
  main,
}: ConsolePageOptions): PageLayout {
  return {
    title: `${title} – Postern`,
    isPrivate: true,
    path: workspacePath(workspace.accountId, page),
    nav: CONSOLE_PAGES.filter(([path]) =>
      hasPermission(workspace.role, REQUIRED_PERMISSIONS[path] ?? "workspace.read"),
    ).map(([path, label]) => ({ href: workspacePath(workspace.accountId, path), label })),
    main: (
      <>
        <h1>{title}</h1>
        <p class="note">
          Workspace <code>{workspace.accountId}</code> · Your role: {workspace.role} ·{" "}
          <a href="/console">Switch workspace</a>
        </p>
        {main}
      </>
    ),
    footer: <SignedInFooter user={user} />,
  };
}

export function SignedInFooter({ user }: { readonly user: SessionUser }): Child {
  return (
    <form method="post" action="/signout">
      <input type="hidden" name="csrf" value={user.csrf} />
      <p>
        Signed in as {user.email}. <a href="/sessions">Your sessions</a>{" "}
        <button type="submit" class="secondary">
          Sign out
        </button>
      </p>
    </form>
  );
}

/** The hidden fields of a form, with the CSRF token. */
export function HiddenFields({
  user,
  fields,
}: {
  readonly user: SessionUser;
  readonly fields: Readonly<Record<string, string>>;
}): Child {
  return (
    <>
      <input type="hidden" name="csrf" value={user.csrf} />
      {Object.entries(fields).map(([name, value]) => (
        <input type="hidden" name={name} value={value} />
      ))}
    </>
  );
}
