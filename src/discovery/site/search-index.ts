// The search index: the address, title and first words of every page.

import type { SearchEntry } from "./site-search.ts";
import { pageTitle, pageUrl, plainText, type Site } from "./site-types.ts";

/** Enough to find a page by its words, and short enough for an index of less than 100 KB. */
const SEARCH_TEXT_MAX = 600;

export function searchIndex({ sections }: Site): readonly SearchEntry[] {
  return sections.flatMap((section) =>
    section.pages.map((page) => ({
      url: pageUrl(page.slug),
      title: pageTitle(page),
      section: section.title,
      text: `${headingsOf(page.markdown)} ${plainText(page.markdown)}`.slice(0, SEARCH_TEXT_MAX),
    })),
  );
}

function headingsOf(markdown: string): string {
  return [...markdown.matchAll(/^#{2,3} (.+)$/gm)].map(([, heading]) => heading).join(" · ");
}
