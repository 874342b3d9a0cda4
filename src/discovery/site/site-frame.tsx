/** @jsxImportSource hono/jsx */
// The frame of the documentation and of the model pages: head, header with search, and the script.

import { raw } from "hono/html";
import type { Child } from "hono/jsx";
import { BRAND_PATH } from "../../http/pages/app-frame.tsx";
import { scriptAsset, STYLESHEET, styleAsset } from "../../http/pages/assets.ts";
import { ICON, pageHeaders } from "../../http/pages/layout.tsx";
import { DOCS_SCRIPT_SOURCE } from "./docs-script.ts";
import docsCss from "./docs.css" with { type: "text" };

export const DOCS_STYLESHEET = styleAsset(docsCss);
export const DOCS_SCRIPT = scriptAsset(DOCS_SCRIPT_SOURCE);

export interface SiteFrame {
  readonly title: string;
  readonly description: string;
  /** The address of the same page as Markdown. */
  readonly markdownUrl?: string;
  readonly feedUrl?: string;
  /** Whether the page has the sidebar of the documentation. */
  readonly hasSidebar?: boolean;
  readonly path: string;
  /** The address that stands for the page and its copies; absent for search results. */
  readonly canonicalUrl?: string;
  /** The day of the last change, such as `2026-11-23`. */
  readonly changed?: string | undefined;
  /** What was searched for. */
  readonly query?: string;
  readonly content: Child;
}

export function siteHeaders(): Readonly<Record<string, string>> {
  return { ...pageHeaders({ scripts: [DOCS_SCRIPT] }), vary: "accept" };
}

export function renderSite(frame: SiteFrame): string {
  const element: { readonly toString: () => string } = (
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <title>{`${frame.title} · Postern`}</title>
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <meta name="description" content={frame.description} />
        <meta property="og:title" content={frame.title} />
        <meta property="og:description" content={frame.description} />
        {frame.canonicalUrl === undefined ? null : (
          <>
            <link rel="canonical" href={frame.canonicalUrl} />
            {structuredData(frame)}
          </>
        )}
        <link rel="icon" href={ICON} />
        <link rel="stylesheet" href={STYLESHEET.path} />
        <link rel="stylesheet" href={DOCS_STYLESHEET.path} />
        {frame.markdownUrl === undefined ? null : (
          <link rel="alternate" type="text/markdown" href={frame.markdownUrl} />
        )}
        {frame.feedUrl === undefined ? null : (
          <link rel="alternate" type="application/atom+xml" href={frame.feedUrl} />
        )}
      </head>
      <body class="docs">
        <a class="skip" href="#main">
          Skip to content
        </a>
        <SiteHeader frame={frame} />
        {frame.content}
        <script src={DOCS_SCRIPT.path} integrity={DOCS_SCRIPT.integrity} defer></script>
      </body>
    </html>
  );
  return `<!doctype html>${element.toString()}\n`;
}

/** Data, which no browser runs: the policy of scripts does not concern it. */
function structuredData({ title, description, changed }: SiteFrame): Child {
  const article = {
    "@context": "https://schema.org",
    "@type": "TechArticle",
    headline: title,
    description,
    ...(changed === undefined ? {} : { dateModified: changed }),
  };
  const json = JSON.stringify(article).replaceAll("<", String.raw`\u003c`);
  return <script type="application/ld+json">{raw(json)}</script>;
}

const LINKS = [
  ["/docs", "Docs"],
  ["/models", "Models"],
  ["/docs/api", "API"],
  ["/status", "Status"],
  ["/console", "Console"],
] as const;

function SiteHeader({ frame }: { readonly frame: SiteFrame }): Child {
  return (
    <header class="docs-header">
      <a class="docs-brand" href="/">
        <svg width="18" height="18" viewBox="0 0 18 18" fill="none" aria-hidden="true">
          <path d={BRAND_PATH} stroke="currentColor" stroke-width="2" />
        </svg>
        Postern
      </a>
      <form class="docs-search" role="search" action="/docs/search" method="get">
        <input
          type="search"
          name="q"
          aria-label="Search the documentation"
          placeholder="Search the docs"
          maxlength={200}
          value={frame.query}
          autocomplete="off"
        />
        <kbd aria-hidden="true">/</kbd>
        <div class="docs-results" hidden />
      </form>
      <nav aria-label="Site">
        {frame.hasSidebar === true ? (
          <button type="button" class="docs-menu" popovertarget="docs-sidebar">
            Menu
          </button>
        ) : null}
        {LINKS.map(([href, label]) => (
          <a href={href} aria-current={href === frame.path ? "page" : undefined}>
            {label}
          </a>
        ))}
      </nav>
    </header>
  );
}
