/** @jsxImportSource hono/jsx */
// The frame of the console and operator pages: a sidebar, which is a drawer on narrow screens, and the head of a page.

import type { Child } from "hono/jsx";
import { PostForm } from "./components/form.tsx";

export interface NavGroup {
  /** Absent for the first group. */
  readonly label?: string | undefined;
  readonly links: readonly NavLink[];
}

export interface NavLink {
  readonly href: string;
  readonly label: string;
}

export interface AppFrame {
  readonly homeHref: string;
  readonly navGroups: readonly NavGroup[];
  /** The path of the navigation link that is current, also on pages below it. */
  readonly path: string;
  readonly heading: Child;
  /** The pages above this one. */
  readonly crumbs?: readonly NavLink[] | undefined;
  /** Links and buttons beside the heading; one of them is primary. */
  readonly actions?: Child;
  /** Above the navigation, such as the workspace switcher and the search link. */
  readonly sidebarHead?: Child;
  readonly email: string;
  readonly accountLinks: readonly NavLink[];
  readonly signOut: { readonly action: string; readonly csrf: string };
}

export function AppPage({ app, main }: { readonly app: AppFrame; readonly main: Child }): Child {
  return (
    <>
      <header class="app-bar">
        <Brand href={app.homeHref} />
        <button type="button" class="secondary" popovertarget="sidebar">
          Menu
        </button>
      </header>
      <Sidebar app={app} />
      <main id="main" tabindex={-1}>
        <div class="page-head">
          <div>
            {app.crumbs === undefined ? null : <Breadcrumbs crumbs={app.crumbs} />}
            <h1>{app.heading}</h1>
          </div>
          {app.actions === undefined ? null : <div class="tools">{app.actions}</div>}
        </div>
        {main}
      </main>
      <PostForm id="sign-out" user={app.signOut} action={app.signOut.action} />
    </>
  );
}

function Sidebar({ app }: { readonly app: AppFrame }): Child {
  return (
    <aside class="sidebar" id="sidebar" popover="auto" aria-label="Sidebar">
      <Brand href={app.homeHref} />
      {app.sidebarHead}
      <nav aria-label="Site">
        {app.navGroups.map(({ label, links }) => (
          <>
            {label === undefined ? null : <p class="nav-label">{label}</p>}
            <ul>
              {links.map((link) => (
                <li>
                  <a href={link.href} aria-current={link.href === app.path ? "page" : undefined}>
                    {link.label}
                  </a>
                </li>
              ))}
            </ul>
          </>
        ))}
      </nav>
      <div class="user">
        <span title={app.email}>{app.email}</span>
        {app.accountLinks.map(({ href, label }) => (
          <a href={href}>{label}</a>
        ))}
        <button type="submit" form="sign-out" class="plain">
          Sign out
        </button>
      </div>
    </aside>
  );
}

/** In a square of 18 by 18. */
export const BRAND_PATH = "M3 16V7a6 6 0 0 1 12 0v9M7 16v-5h4v5";

export function Brand({ href }: { readonly href: string }): Child {
  return (
    <a class="brand" href={href}>
      <svg
        viewBox="0 0 18 18"
        fill="none"
        stroke="currentColor"
        stroke-width="2"
        aria-hidden="true"
      >
        <path d={BRAND_PATH} />
      </svg>
      Postern
    </a>
  );
}

function Breadcrumbs({ crumbs }: { readonly crumbs: readonly NavLink[] }): Child {
  return (
    <nav aria-label="Breadcrumb">
      <ol class="crumbs">
        {crumbs.map(({ href, label }) => (
          <li>
            <a href={href}>{label}</a>
          </li>
        ))}
      </ol>
    </nav>
  );
}
