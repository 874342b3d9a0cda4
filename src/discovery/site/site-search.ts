// Full-text search over the sections of all pages, with word stems and tolerance for typing errors.

import MiniSearch from "minisearch";
import { stemmer } from "stemmer";
import { renderMarkdown } from "../markdown.ts";
import { type Site, type SitePage, type SiteSection, pageTitle, pageUrl } from "./site-types.ts";

export interface DocsResult {
  /** With the anchor of the section. */
  readonly url: string;
  readonly title: string;
  /** The heading of the section; empty at the beginning of the page. */
  readonly heading: string;
  /** The menu of the page. */
  readonly section: string;
  /** Texts that alternate between plain and matching, the first one plain. */
  readonly excerpt: readonly string[];
}

export type SearchDocs = (query: string) => Promise<readonly DocsResult[]>;

/** A section of a page. */
interface Entry {
  readonly id: number;
  readonly url: string;
  readonly title: string;
  readonly heading: string;
  readonly keywords: string;
  readonly text: string;
  readonly section: string;
  readonly weight: number;
}

const RESULTS_MAX = 20;
const QUERY_WORDS_MAX = 10;
/** Characters of a section that are indexed, which bounds the index; few sections are longer. */
const SECTION_TEXT_MAX = 6_000;
const EXCERPT_MAX = 180;
/** Shorter words have too many neighbors. */
const FUZZY_LENGTH_MIN = 5;
const FUZZY_DISTANCE = 0.2;
const BOOST = { title: 6, keywords: 5, heading: 3, text: 1 };
/** Guides answer more questions than generated pages, which are many. */
const WEIGHTS: readonly (readonly [slug: RegExp, weight: number])[] = [
  [/^(operators\/)?changelog$/, 0.2],
  [/^api\/objects\//, 0.3],
  [/^(api|errors)\//, 0.5],
];
const OPERATORS_WEIGHT = 0.7;
const STOP_WORDS = new Set(
  "a an and are as at be by can do does for from how i in is it my of on or that the to what when which with you your".split(
    " ",
  ),
);

export async function createDocsSearch(site: Site): Promise<(query: string) => DocsResult[]> {
  const index = new MiniSearch<Entry>({
    fields: Object.keys(BOOST),
    storeFields: ["weight"],
    processTerm: stem,
    searchOptions: {
      boost: BOOST,
      boostDocument: (_id, _term, stored) => Number(stored?.["weight"] ?? 1),
      fuzzy: (term) => (term.length < FUZZY_LENGTH_MIN ? false : FUZZY_DISTANCE),
      // The last word may be incomplete while it is typed.
      prefix: (_term, at, terms) => at === terms.length - 1,
    },
  });
  const entries: Entry[] = [];
  for (const section of site.sections)
    for (const page of section.pages) {
      const added = entriesOf(page, section, entries.length);
      entries.push(...added);
      index.addAll(added);
      // Other requests run between two pages.
      await new Promise((resolve) => setImmediate(resolve));
    }
  return (query) => {
    const words = query.split(/\s+/).slice(0, QUERY_WORDS_MAX).join(" ");
    return bestPerPage(index.search(words), entries);
  };
}

interface Hit {
  readonly id: number;
  readonly terms: readonly string[];
}

function bestPerPage(hits: readonly Hit[], entries: readonly Entry[]): DocsResult[] {
  const found = new Map<string, DocsResult>();
  for (const { id, terms } of hits) {
    const entry = entries[id];
    if (entry === undefined || found.has(entry.title)) continue;
    const { url, title, heading, section, text } = entry;
    found.set(title, { url, title, heading, section, excerpt: excerptOf(text, new Set(terms)) });
    if (found.size === RESULTS_MAX) break;
  }
  return [...found.values()];
}

function entriesOf(page: SitePage, section: SiteSection, firstId: number): readonly Entry[] {
  const title = pageTitle(page);
  const weight =
    WEIGHTS.find(([slug]) => slug.test(page.slug))?.[1] ??
    (section.audience === "operators" ? OPERATORS_WEIGHT : 1);
  return renderMarkdown(page.markdown)
    .html.split(/(?=<h[23] id=)/)
    .filter((html) => !GENERATED_SECTION.test(html))
    .map((html, at): Entry => {
      const [, id, heading = ""] = /^<h[23] id="([^"]*)">(.*?)<\/h[23]>/.exec(html) ?? [];
      const body = html.replace(/^<h[123][^>]*>.*?<\/h[123]>/, "").replaceAll(CODE_BLOCK, " ");
      return {
        id: firstId + at,
        url: pageUrl(page.slug) + (id === undefined ? "" : `#${id}`),
        title,
        heading: textOf(heading),
        keywords: at === 0 ? `${page.keywords ?? ""} ${page.label ?? ""}` : "",
        text: textOf(body).slice(0, SECTION_TEXT_MAX),
        section: section.title,
        weight,
      };
    });
}

/** The same on the pages of most endpoints. */
const GENERATED_SECTION = /^<h2 id="errors">/;
const CODE_BLOCK = /<pre[\s\S]*?<\/pre>|<fieldset[\s\S]*?<\/fieldset>/g;
const ENTITIES: Readonly<Record<string, string>> = {
  "&lt;": "<",
  "&gt;": ">",
  "&quot;": '"',
  "&amp;": "&",
};

function textOf(html: string): string {
  return html
    .replaceAll(/<\/(?:p|li|td|th|h\d)>/g, " ")
    .replaceAll(/<[^>]*>/g, "")
    .replaceAll(/&(?:lt|gt|quot|amp);/g, (entity) => ENTITIES[entity] ?? entity)
    .replaceAll(/\s+/g, " ")
    .trim();
}

function stem(word: string): string | null {
  const lower = word.toLowerCase();
  return STOP_WORDS.has(lower) ? null : stemmer(lower);
}

/** The part of a text that begins with the sentence of the first match. */
function excerptOf(text: string, stems: ReadonlySet<string>): readonly string[] {
  const words = [...text.matchAll(/[\p{L}\p{N}]+/gu)];
  const isMatch = (word: string): boolean => stems.has(stem(word) ?? "");
  const firstAt = words.find(([word]) => isMatch(word))?.index ?? 0;
  const sentenceAt = text.lastIndexOf(". ", firstAt) + 1;
  const from =
    firstAt - sentenceAt < EXCERPT_MAX / 2 ? sentenceAt : text.indexOf(" ", firstAt - 40);
  const to =
    from + EXCERPT_MAX >= text.length ? text.length : text.lastIndexOf(" ", from + EXCERPT_MAX);
  const parts: string[] = [];
  let end = from;
  for (const { 0: word, index } of words) {
    if (index < from || index + word.length > to || !isMatch(word)) continue;
    parts.push(text.slice(end, index), word);
    end = index + word.length;
  }
  const rest = text.slice(end, to) + (to < text.length ? " …" : "");
  return [...parts, rest].map((part, at) => (at === 0 ? part.trimStart() : part));
}
