/** @jsxImportSource hono/jsx */
// The HTML of a documentation page: sidebar, text, contents of the page, previous and next.

import { raw } from "hono/html";
import type { Child } from "hono/jsx";
import { type Heading, renderMarkdown } from "../markdown.ts";
import { renderSite } from "./site-frame.tsx";
import {
  type Audience,
  pageSummary,
  pageTitle,
  pageUrl,
  type Site,
  type SitePage,
  type SiteSection,
} from "./site-types.ts";
import { TryItForm } from "./try-it.tsx";

/** A page with fewer headings has no table of contents. */
const CONTENTS_MIN = 3;

export function renderSitePage(site: Site, page: SitePage): string {
  const { html, headings } = renderMarkdown(page.markdown);
  const examples = page.examples === undefined ? "" : renderMarkdown(page.examples).html;
  // On narrow screens the examples come before the first section.
  const intro = html.slice(0, Math.max(0, html.indexOf("<h2")));
  const section = site.sections.find(({ pages }) => pages.includes(page));
  const ofAudience = site.sections
    .filter(({ audience }) => audience === section?.audience)
    .flatMap(({ pages }) => pages);
  const at = ofAudience.indexOf(page);
  return renderSite({
    title: pageTitle(page),
    description: pageSummary(page),
    markdownUrl: `${pageUrl(page.slug || "index")}.md`,
    canonicalUrl: pageUrl(page.slug),
    changed: page.changed,
    hasSidebar: true,
    path: page.slug.startsWith("api") ? "/docs/api" : "/docs",
    content: (
      <div class="docs-columns">
        <Sidebar site={site} page={page} />
        <main id="main" tabindex={-1} class={examples === "" ? "" : "with-examples"}>
          {examples === "" ? null : (
            <>
              <div class="docs-text">
                <p class="docs-section">{section?.title}</p>
                {raw(intro)}
              </div>
              <Examples html={examples} />
            </>
          )}
          <article class="docs-text">
            {examples === "" ? <p class="docs-section">{section?.title}</p> : null}
            {raw(examples === "" ? html : html.slice(intro.length))}
            {page.tryIt === undefined ? null : <TryItForm tryIt={page.tryIt} />}
            <PageFooter page={page} previous={ofAudience[at - 1]} next={ofAudience[at + 1]} />
          </article>
          {examples === "" ? <Contents headings={headings} /> : null}
        </main>
      </div>
    ),
  });
}

/** Beside the text on wide screens. */
export function Examples({ html }: { readonly html: string }): Child {
  return (
    <aside class="docs-examples" aria-label="Examples">
      {raw(html)}
    </aside>
  );
}

/** The first page of each menu. */
const AUDIENCES: readonly (readonly [audience: Audience, slug: string, label: string])[] = [
  ["customers", "", "Customers"],
  ["operators", "operations", "Operators"],
];

interface SidebarProps {
  readonly site: Site;
  /** Absent on the page of search results. */
  readonly page?: SitePage;
}

export function Sidebar({ site, page }: SidebarProps): Child {
  const current = site.sections.find(({ pages }) => page !== undefined && pages.includes(page));
  const shown = current?.audience ?? "customers";
  return (
    <div class="docs-sidebar" id="docs-sidebar" popover="auto">
      <nav class="docs-audiences" aria-label="Readers">
        {AUDIENCES.map(([audience, slug, label]) => (
          <a href={pageUrl(slug)} aria-current={audience === shown ? "true" : undefined}>
            {label}
          </a>
        ))}
      </nav>
      <nav aria-label="Documentation">
        {site.sections
          .filter(({ audience }) => audience === shown)
          .map((section) => (
            <SidebarSection section={section} page={page} />
          ))}
      </nav>
      {site.operatorLinks.length === 0 ? null : (
        <nav class="docs-operator" aria-label="Operator">
          {site.operatorLinks.map(({ href, label }) => (
            <a href={href}>{label}</a>
          ))}
        </nav>
      )}
    </div>
  );
}

function SidebarSection({
  section,
  page,
}: {
  readonly section: SiteSection;
  readonly page: SitePage | undefined;
}): Child {
  // Links to about a hundred endpoints, objects and errors would be a fifth of a page: those of other groups are one link.
  const [first] = section.pages;
  const isOpen = page !== undefined && section.pages.includes(page);
  if (section.isCollapsed === true && !isOpen && first !== undefined)
    return (
      <p class="docs-subgroup">
        <a href={pageUrl(first.slug)}>{section.title}</a>
      </p>
    );
  const links = (
    <ul>
      {section.pages.map((each) => (
        <li>
          <a href={pageUrl(each.slug)} aria-current={each === page ? "page" : undefined}>
            {each.label ?? pageTitle(each)}
          </a>
        </li>
      ))}
    </ul>
  );
  if (section.isCollapsed !== true)
    return (
      <>
        <p class="docs-group">{section.title}</p>
        {links}
      </>
    );
  return (
    <div class="docs-subgroup">
      <p>{section.title}</p>
      {links}
    </div>
  );
}

function Contents({ headings }: { readonly headings: readonly Heading[] }): Child {
  const listed = headings.filter(({ level }) => level === 2 || level === 3);
  if (listed.length < CONTENTS_MIN) return null;
  return (
    <nav class="docs-contents" aria-label="On this page">
      <p>On this page</p>
      <ul>
        {listed.map(({ level, id, text }) => (
          <li class={level === 3 ? "deeper" : ""}>
            <a href={`#${id}`}>{raw(text)}</a>
          </li>
        ))}
      </ul>
    </nav>
  );
}

interface PageFooterProps {
  readonly page: SitePage;
  readonly previous: SitePage | undefined;
  readonly next: SitePage | undefined;
}

function PageFooter({ page, previous, next }: PageFooterProps): Child {
  return (
    <footer class="docs-footer">
      <nav aria-label="Previous and next page">
        {previous === undefined ? (
          <span />
        ) : (
          <a rel="prev" href={pageUrl(previous.slug)}>
            <span>Previous</span> {previous.label ?? pageTitle(previous)}
          </a>
        )}
        {next === undefined ? null : (
          <a rel="next" href={pageUrl(next.slug)}>
            <span>Next</span> {next.label ?? pageTitle(next)}
          </a>
        )}
      </nav>
      <p>
        {page.changed === undefined ? null : (
          <>
            Last changed <time datetime={page.changed}>{page.changed}</time> ·{" "}
          </>
        )}
        <a href={`${pageUrl(page.slug || "index")}.md`}>Markdown version</a>
      </p>
    </footer>
  );
}
