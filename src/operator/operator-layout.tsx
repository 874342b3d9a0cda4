/** @jsxImportSource hono/jsx */
// The layout of the operator pages.

import type { Child } from "hono/jsx";
import type { NavGroup, NavLink } from "../http/pages/app-frame.tsx";
import type { PageLayout } from "../http/pages/layout.tsx";
import { type Operator } from "../http/route.ts";
import { OPERATOR_PATH } from "./sign-in/operator-sessions.ts";

const NAV_GROUPS: readonly NavGroup[] = [
  {
    links: [
      { href: OPERATOR_PATH, label: "Accounts" },
      { href: `${OPERATOR_PATH}/approvals`, label: "Approvals" },
      { href: `${OPERATOR_PATH}/report`, label: "Report" },
      { href: `${OPERATOR_PATH}/payments`, label: "Payments" },
      { href: `${OPERATOR_PATH}/providers`, label: "Providers" },
      { href: `${OPERATOR_PATH}/incidents`, label: "Incidents" },
      { href: `${OPERATOR_PATH}/service-levels`, label: "Service levels" },
      { href: `${OPERATOR_PATH}/grants`, label: "Grants and abuse" },
      { href: `${OPERATOR_PATH}/controls`, label: "Blocks and limits" },
      { href: `${OPERATOR_PATH}/system`, label: "System" },
      { href: `${OPERATOR_PATH}/audit`, label: "Audit log" },
    ],
  },
];

export function accountPath(accountId: string): string {
  return `${OPERATOR_PATH}/accounts/${accountId}`;
}

/** Secondary text of a table cell: the workspace by its name, or by its id if it has none. */
export function AccountLink({
  id,
  names,
}: {
  readonly id: string;
  readonly names: ReadonlyMap<string, string>;
}): Child {
  return (
    <a class="type" href={accountPath(id)} title={id}>
      <bdi class="name">{names.get(id) ?? id}</bdi>
    </a>
  );
}

export interface OperatorPageOptions {
  readonly title: string;
  readonly heading?: Child;
  readonly operator: Operator;
  readonly path: string;
  readonly crumbs?: readonly NavLink[];
  readonly actions?: Child;
  readonly main: Child;
}

export function operatorPage(options: OperatorPageOptions): PageLayout {
  const { title, heading, operator, path, crumbs, actions, main } = options;
  return {
    title: `${title} – Operator – Postern`,
    isPrivate: true,
    app: {
      homeHref: OPERATOR_PATH,
      navGroups: NAV_GROUPS,
      path: crumbs?.[0]?.href ?? path,
      heading: heading ?? title,
      crumbs,
      actions,
      sidebarHead: (
        <>
          <p class="note">Operator pages. All changes are recorded in the audit log.</p>
          <a class="button secondary" href={`${OPERATOR_PATH}/incidents#update`}>
            Post an incident
          </a>
        </>
      ),
      email: operator.email,
      accountLinks: [],
      signOut: { action: `${OPERATOR_PATH}/signout`, csrf: operator.csrf },
    },
    main,
  };
}
