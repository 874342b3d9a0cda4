/** @jsxImportSource hono/jsx */
// The frame of every console page: where one is, who one is, and the way to the other pages.

import type { Child } from "hono/jsx";
import { type Action, mayDo } from "../accounts/members.ts";
import type { PageFrame } from "../http/layout.tsx";
import type { Visitor } from "../http/route.ts";
import type { Place } from "./workspace.ts";

const PAGES = [
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
const NEEDS: Readonly<Record<string, Action>> = {
  "/provider-keys": "provider_keys.read",
  "/webhooks": "webhooks.read",
  "/audit": "audit.read",
};

export function pathOf(accountId: string, page: (typeof PAGES)[number][0]): string {
  return `/console/${accountId}${page}`;
}

export interface ConsolePage {
  readonly title: string;
  readonly place: Place;
  readonly visitor: Visitor;
  readonly page: (typeof PAGES)[number][0];
  readonly main: Child;
}

export function consolePage({ title, place, visitor, page, main }: ConsolePage): PageFrame {
  return {
    title: `${title} – Postern`,
    isPrivate: true,
    path: pathOf(place.accountId, page),
    nav: PAGES.filter(([path]) => mayDo(place.role, NEEDS[path] ?? "workspace.read")).map(
      ([path, label]) => ({ href: pathOf(place.accountId, path), label }),
    ),
    main: (
      <>
        <h1>{title}</h1>
        <p class="note">
          Workspace <code>{place.accountId}</code>, where you are{" "}
          {place.role === "owner" ? "the owner" : "a developer"}.{" "}
          <a href="/console">Switch workspace</a>
        </p>
        {main}
      </>
    ),
    foot: <SignedIn visitor={visitor} />,
  };
}

export function SignedIn({ visitor }: { readonly visitor: Visitor }): Child {
  return (
    <form method="post" action="/signout">
      <input type="hidden" name="csrf" value={visitor.csrf} />
      <p>
        Signed in as {visitor.email}. <a href="/sessions">Where you are signed in</a>{" "}
        <button type="submit" class="quiet">
          Sign out
        </button>
      </p>
    </form>
  );
}

/** The hidden fields of a form: who sends it, and what it does. */
export function Hidden({
  visitor,
  fields,
}: {
  readonly visitor: Visitor;
  readonly fields: Readonly<Record<string, string>>;
}): Child {
  return (
    <>
      <input type="hidden" name="csrf" value={visitor.csrf} />
      {Object.entries(fields).map(([name, value]) => (
        <input type="hidden" name={name} value={value} />
      ))}
    </>
  );
}
