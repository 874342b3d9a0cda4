/** @jsxImportSource hono/jsx */
// The page of search results, which needs no script.

import type { Child } from "hono/jsx";
import { renderSite } from "./site-frame.tsx";
import { Sidebar } from "./site-page.tsx";
import type { DocsResult } from "./site-search.ts";
import type { Site } from "./site-types.ts";

export function renderSearchPage(
  site: Site,
  query: string,
  results: readonly DocsResult[],
): string {
  return renderSite({
    title: query === "" ? "Search" : `${query} · Search`,
    description: "Search the documentation.",
    hasSidebar: true,
    query,
    path: "/docs",
    content: (
      <div class="docs-columns">
        <Sidebar site={site} />
        <main id="main" tabindex={-1}>
          <article class="docs-text">
            <h1>Search</h1>
            <p>{summaryOf(query, results.length)}</p>
            {results.map((result) => (
              <Result result={result} />
            ))}
          </article>
        </main>
      </div>
    ),
  });
}

function summaryOf(query: string, count: number): Child {
  if (query === "") return "Enter words in the field above.";
  if (count > 0) return `${count} ${count === 1 ? "page" : "pages"} for “${query}”.`;
  return (
    <>
      No page has “{query}”. Look at the <a href="/docs/api">API reference</a> or the{" "}
      <a href="/docs/errors">errors</a>.
    </>
  );
}

function Result({ result }: { readonly result: DocsResult }): Child {
  const { url, title, heading, section, excerpt } = result;
  return (
    <section class="docs-result">
      <a href={url}>{heading === "" ? title : `${title} › ${heading}`}</a> <span>{section}</span>
      <p>{excerpt.map((part, at) => (at % 2 === 1 ? <mark>{part}</mark> : part))}</p>
    </section>
  );
}
