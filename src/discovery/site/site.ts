// All pages of the documentation site, in the order of the sidebar, and the search index.

import packageJson from "../../../package.json" with { type: "json" };
import type { Route } from "../../http/route.ts";
import type { DiscoverySettings } from "../discovery-settings.ts";
import { withExampleModels } from "../examples.ts";
import type { OpenApiDocument } from "../openapi/openapi-types.ts";
import { endpointSections, objectSection } from "./endpoint-pages.ts";
import { errorSection } from "./error-pages.ts";
import type { Site, SitePage, SiteSection } from "./site-types.ts";
import { LAST_CHANGED, WRITTEN_SECTIONS } from "./written-pages.ts";

/** The addresses that examples in the written pages use. */
const EXAMPLE_ORIGIN = /http:\/\/127\.0\.0\.1:8787|https:\/\/gateway\.example(?![\w.])/g;
const EXAMPLE_SOCKET_ORIGIN = "ws://127.0.0.1:8787";
const REPOSITORY_FILES = `${packageJson.homepage.replace(/#.*/, "")}/blob/main`;
const SECTION_AFTER_REFERENCE = "Resources";

export function createDocsSite(
  document: OpenApiDocument,
  routes: readonly Route[],
  settings: DiscoverySettings,
): Site {
  const written = WRITTEN_SECTIONS.map((section): SiteSection => ({
    title: section.title,
    audience: section.audience,
    pages: section.pages.map(({ slug, label, keywords, file, text }) => ({
      slug,
      ...(label === undefined ? {} : { label }),
      ...(keywords === undefined ? {} : { keywords }),
      // In the pages of operators the example address stays: it is not this gateway's.
      markdown: forReaders(text, file, section.audience === "operators" ? undefined : settings),
      changed: LAST_CHANGED[file],
    })),
  }));
  const lastAt = written.findIndex(({ title }) => title === SECTION_AFTER_REFERENCE);
  const sections: readonly SiteSection[] = [
    ...written.slice(0, lastAt),
    { title: "API reference", audience: "customers", pages: [referencePage(document)] },
    ...endpointSections(document),
    objectSection(document),
    errorSection(routes),
    ...written.slice(lastAt),
  ];
  const pages = sections.flatMap((section) => section.pages);
  const { operatorLinks = [] } = settings;
  return {
    sections,
    pages,
    bySlug: new Map(pages.map((page) => [page.slug, page])),
    operatorLinks,
  };
}

/** Links between files become links between pages; links to files outside the site lead to the repository. */
function forReaders(text: string, file: string, settings: DiscoverySettings | undefined): string {
  const folder = new URL(file, "file:///docs/site/");
  const linked = text.replaceAll(
    /(!?)\[([^\]]*)\]\((?!https?:|#|\/)([^)\s]+)\)/g,
    (_, image: string, label: string, target: string) => {
      const { pathname, hash } = new URL(target, folder);
      if (pathname === "/README.md") return `[${label}](/docs/quick-start)`;
      const url = siteUrl(pathname) ?? `${REPOSITORY_FILES}${pathname}`;
      return `${image}[${label}](${url}${hash})`;
    },
  );
  if (settings === undefined) return linked;
  const addressed = linked
    .replaceAll(EXAMPLE_ORIGIN, settings.baseUrl)
    .replaceAll(EXAMPLE_SOCKET_ORIGIN, settings.baseUrl.replace(/^http/, "ws"));
  return withExampleModels(addressed, settings);
}

function siteUrl(pathname: string): string | undefined {
  if (pathname.startsWith("/docs/images/")) return pathname;
  const slug = /^\/docs\/site\/(.+)\.md$/.exec(pathname)?.[1];
  if (slug === undefined) return undefined;
  return slug === "index" ? "/docs" : `/docs/${slug}`;
}

function referencePage({ info, servers, components }: OpenApiDocument): SitePage {
  // The other schemes are not API keys.
  const schemes = ["bearer", "apiKey", "googleKey"].flatMap((name) => {
    const { description } = components.securitySchemes[name] ?? {};
    return description === undefined ? [] : [`- ${description}`];
  });
  return {
    slug: "api",
    label: "Overview",
    markdown: [
      "# API reference",
      `The base URL is \`${servers[0]?.url ?? ""}\`. The pages of this reference are generated from the [OpenAPI description](/openapi.yaml) of this gateway, version ${info.version}.`,
      "## Authentication",
      "Send your API key in one of these headers. Endpoints that need no key say so.",
      schemes.join("\n"),
      "## Conventions",
      [
        "- Bodies are JSON in UTF-8. Times are RFC 3339 in UTC, and Unix seconds in objects of OpenAI's API.",
        "- Clients must ignore unknown fields: responses may gain new ones.",
        "- Every response has `x-request-id`. Name it when you report a problem.",
        "- `POST` endpoints accept an `Idempotency-Key`: a retry with the same key and body gets the first response again and is not charged twice.",
        "- Lists return `data`, `has_more` and `next_cursor`. Send `next_cursor` as `cursor` for the next page. Lists of OpenAI's and Anthropic's APIs return `last_id`: send it as `after` or `after_id`.",
        "- [Errors](/docs/errors) have a stable `code`.",
      ].join("\n"),
    ].join("\n\n"),
  };
}
