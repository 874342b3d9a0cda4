/** @jsxImportSource hono/jsx */
// Layout of every HTML page: skeleton, site header and footer or app frame, and security headers. The CSP allows only the
// scripts of the page's layout, by their hashes; every page works without them.

import type { Child } from "hono/jsx";
import { type AppFrame, AppPage, Brand, BRAND_PATH, type NavLink } from "./app-frame.tsx";
import { APP_SCRIPT, type ScriptAsset, STYLESHEET } from "./assets.ts";

export interface PageLayout {
  readonly title: string;
  readonly description?: string;
  readonly nav?: readonly NavLink[];
  /** The current path, to mark its link in the navigation. */
  readonly path?: string;
  readonly main: Child;
  readonly footer?: Child;
  /** Keeps the page out of search engines. */
  readonly isPrivate?: boolean;
  /** Uses the width of the documentation instead of one narrow column. */
  readonly isWide?: boolean;
  /** The frame of the console and operator pages; absent for narrow pages. */
  readonly app?: AppFrame;
  /** Scripts besides that of the app frame. */
  readonly scripts?: readonly ScriptAsset[];
  /** A path to which the browser goes at once. */
  readonly refreshTo?: string;
  /** Further hosts that forms may redirect to, such as the payment processor. */
  readonly formTargets?: readonly string[];
}

type PagePolicy = Pick<PageLayout, "formTargets" | "scripts">;

/** The brand mark, in the accent colors of `design.css`. */
export const ICON = `data:image/svg+xml,${encodeURIComponent(
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 18 18" fill="none" stroke="#17694f" stroke-width="2"><style>@media(prefers-color-scheme:dark){path{stroke:#4fc29a}}</style><path d="${BRAND_PATH}"/></svg>`,
)}`;

export function pageHeaders(policy: PagePolicy = {}): Readonly<Record<string, string>> {
  const { scripts = [] } = policy;
  const scriptRules =
    scripts.length === 0
      ? ""
      : ` script-src ${scripts.map(({ integrity }) => `'${integrity}'`).join(" ")}; connect-src 'self';`;
  const formAction = ["'self'", ...(policy.formTargets ?? [])].join(" ");
  return {
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": `default-src 'none'; style-src 'self';${scriptRules} img-src 'self' data:; media-src blob:; form-action ${formAction}; base-uri 'none'; frame-ancestors 'none'`,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
  };
}

/** The scripts of a page, for the page and for its policy. */
export function pageScripts({ app, scripts = [] }: PageLayout): readonly ScriptAsset[] {
  return app === undefined ? scripts : [APP_SCRIPT, ...scripts];
}

export function renderPage(layout: PageLayout): string {
  const page: { readonly toString: () => string } = <Page layout={layout} />;
  return `<!doctype html>${page.toString()}\n`;
}

function Page({ layout }: { readonly layout: PageLayout }): Child {
  const { title, description, app, main, isPrivate, refreshTo } = layout;
  return (
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <title>{title}</title>
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        {description === undefined ? null : (
          <>
            <meta name="description" content={description} />
            <meta property="og:title" content={title} />
            <meta property="og:description" content={description} />
          </>
        )}
        {refreshTo === undefined ? null : (
          <meta http-equiv="refresh" content={`0;url=${refreshTo}`} />
        )}
        {isPrivate === true ? <meta name="robots" content="noindex" /> : null}
        <link rel="icon" href={ICON} />
        <link rel="stylesheet" href={STYLESHEET.path} />
        {pageScripts(layout).map(({ path, integrity }) => (
          <script src={path} integrity={integrity} defer></script>
        ))}
      </head>
      <body class={bodyClass(layout)}>
        <a class="skip" href="#main">
          Skip to content
        </a>
        {app === undefined ? <SitePage layout={layout} /> : <AppPage app={app} main={main} />}
      </body>
    </html>
  );
}

function bodyClass({ app, isWide = false }: PageLayout): string {
  if (app !== undefined) return "app";
  return isWide ? "plain wide" : "plain";
}

function SitePage({ layout }: { readonly layout: PageLayout }): Child {
  const { nav = [], path, main, footer } = layout;
  return (
    <>
      <header class="site-header">
        <Brand href="/" />
        {nav.length === 0 ? null : <Navigation links={nav} path={path} />}
      </header>
      <main id="main" tabindex={-1}>
        {main}
      </main>
      {footer === undefined ? null : <footer class="site-footer">{footer}</footer>}
    </>
  );
}

interface NavigationProps {
  readonly links: readonly NavLink[];
  readonly path: string | undefined;
}

function Navigation({ links, path }: NavigationProps): Child {
  return (
    <nav aria-label="Site">
      <ul>
        {links.map((link) => (
          <li>
            <a href={link.href} aria-current={link.href === path ? "page" : undefined}>
              {link.label}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}
