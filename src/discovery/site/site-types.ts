// The pages of the documentation site. Every page is Markdown; HTML and the search index are derived from it.

import type { NavLink } from "../../http/pages/app-frame.tsx";
import type { TryIt } from "./try-it.tsx";

/** Each has a menu of its own. */
export type Audience = "customers" | "operators";

export interface SitePage {
  /** The path below `/docs`, such as `keys` or `api/create-key`; empty for the first page. */
  readonly slug: string;
  /** In the sidebar; the title of the page by default. */
  readonly label?: string;
  /** Words that people search for and that the text does not have. */
  readonly keywords?: string;
  readonly markdown: string;
  /** Requests and responses, beside the text on wide screens. */
  readonly examples?: string;
  readonly tryIt?: TryIt;
  /** The day of the last change, such as `2026-11-23`. */
  readonly changed?: string | undefined;
}

export interface SiteSection {
  readonly title: string;
  readonly pages: readonly SitePage[];
  readonly audience: Audience;
  /** Only the group of the current page is open. */
  readonly isCollapsed?: boolean;
}

export interface Site {
  readonly sections: readonly SiteSection[];
  readonly pages: readonly SitePage[];
  readonly bySlug: ReadonlyMap<string, SitePage>;
  /** The links of the operator, such as the terms. */
  readonly operatorLinks: readonly NavLink[];
}

export function pageUrl(slug: string): string {
  return slug === "" ? "/docs" : `/docs/${slug}`;
}

/** The text of the first heading, without code marks. */
export function pageTitle(page: SitePage): string {
  return (/^# (.+)$/m.exec(page.markdown)?.[1] ?? page.slug).replaceAll("`", "");
}

/** The first paragraph after the heading as plain text. */
export function pageSummary({ markdown }: SitePage): string {
  const paragraph = markdown
    .replace(/^# .+\n+/, "")
    .split(/\n{2,}/)
    .find((text) => /^[A-Z`]/.test(text));
  return plainText(paragraph ?? "").slice(0, 300);
}

function plainText(markdown: string): string {
  return markdown
    .replaceAll(/<!--[\s\S]*?-->/g, " ")
    .replaceAll(/!?\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replaceAll(/[`*|#>]+|^-{3,}$/gm, " ")
    .replaceAll(/\s+/g, " ")
    .trim();
}
