/** @jsxImportSource hono/jsx */
// The frame of every console page: where one is, who one is, and the way to the other pages.

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

/** The pages that only some roles may see; the others are everybody's. */
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
          Workspace <code>{workspace.accountId}</code>, where you are{" "}
          {workspace.role === "owner" ? "the owner" : "a developer"}.{" "}
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
        Signed in as {user.email}. <a href="/sessions">Where you are signed in</a>{" "}
        <button type="submit" class="secondary">
          Sign out
        </button>
      </p>
    </form>
  );
}

/** The hidden fields of a form: who sends it, and what it does. */
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
