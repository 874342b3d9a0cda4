// The routes of the documentation: pages as HTML or Markdown, search, images. A page is built on its first request.

import { readFileSync } from "node:fs";
import { z } from "zod";
import claimOwner from "../../../docs/images/claim-owner.webp" with { type: "file" };
import claimReviewPhone from "../../../docs/images/claim-review-phone.webp" with { type: "file" };
import claimReview from "../../../docs/images/claim-review.webp" with { type: "file" };
import consoleBilling from "../../../docs/images/console-billing.webp" with { type: "file" };
import consoleBudgets from "../../../docs/images/console-budgets.webp" with { type: "file" };
import consoleCall from "../../../docs/images/console-call.webp" with { type: "file" };
import consoleDeliveries from "../../../docs/images/console-deliveries.webp" with { type: "file" };
import consoleKeys from "../../../docs/images/console-keys.webp" with { type: "file" };
import consoleLogs from "../../../docs/images/console-logs.webp" with { type: "file" };
import consolePlayground from "../../../docs/images/console-playground.webp" with { type: "file" };
import consoleUsage from "../../../docs/images/console-usage.webp" with { type: "file" };
import modelPageImage from "../../../docs/images/model.webp" with { type: "file" };
import modelsPageImage from "../../../docs/images/models.webp" with { type: "file" };
import operatorReport from "../../../docs/images/operator-report.webp" with { type: "file" };
import { Fault } from "../../base/fault.ts";
import { importedFile } from "../../base/imported-file.ts";
import { lazy } from "../../base/lazy.ts";
import { lookUp } from "../../base/look-up.ts";
import { SECOND_MS } from "../../base/time.ts";
import { createRateLimiter } from "../../http/guards/rate-limiter.ts";
import { networksOf } from "../../http/request/client-ip.ts";
import { type ResponseDoc, type Route, publicRoute } from "../../http/route.ts";
import { prefersMarkdown } from "../accept.ts";
import { agentLinks } from "../agents/catalogs.ts";
import {
  type CachedDocument,
  cachedDocument,
  MARKDOWN_TYPE,
  respondWithDocument,
} from "../cached-document.ts";
import { renderSearchPage } from "./search-page.tsx";
import { siteHeaders } from "./site-frame.tsx";
import { renderSitePage } from "./site-page.tsx";
import type { SearchDocs } from "./site-search.ts";
import { pageUrl, type Site } from "./site-types.ts";

const NOT_MODIFIED: ResponseDoc = { description: "The client's copy is up to date." };
const SEARCH_QUERY_MAX = 200;
/** The limit of a network. A search takes milliseconds, and typing a word makes several. */
const SEARCHES_PER_MINUTE = 300;
const SEARCHES_BURST = 200;

const COMMON = {
  method: "GET",
  tag: "Discovery",
  dialect: "page",
  hidden: true,
} as const;

interface PageDocuments {
  readonly html: () => CachedDocument;
  readonly markdown: () => CachedDocument;
}

export function siteRoutes(getSite: () => Promise<Site>, search: SearchDocs): readonly Route[] {
  const documents = new Map<string, PageDocuments>();
  const findDocuments = async (slug: string): Promise<PageDocuments> => {
    const site = await getSite();
    const page = site.bySlug.get(slug);
    if (page === undefined) throw new Fault("not_found", `no documentation page ${slug}`);
    let found = documents.get(slug);
    if (found === undefined) {
      const markdown = [page.markdown, page.examples ?? ""].join("\n\n").trimEnd();
      found = {
        html: lazy(() => htmlDocument(renderSitePage(site, page))),
        markdown: lazy(() =>
          cachedDocument(`${markdown}\n`, MARKDOWN_TYPE, {
            vary: "accept",
            link: `<${pageUrl(slug)}>; rel="canonical"`,
          }),
        ),
      };
      documents.set(slug, found);
    }
    return found;
  };
  // The more specific paths first: the path of a page may contain slashes.
  return [imageRoute(), ...searchRoutes(getSite, search), ...pageRoutes(findDocuments)];
}

function pageRoutes(findDocuments: (slug: string) => Promise<PageDocuments>): readonly Route[] {
  const responses = {
    200: {
      description: "HTML, or Markdown with `accept: text/markdown`.",
      contentType: "text/html",
    },
    304: NOT_MODIFIED,
  };
  const respond = async (path: string, headers: Headers): Promise<Response> => {
    const isFile = path.endsWith(".md");
    const name = isFile ? path.slice(0, -".md".length) : path;
    const { html, markdown } = await findDocuments(isFile && name === "index" ? "" : name);
    const document = isFile || prefersMarkdown(headers.get("accept")) ? markdown() : html();
    return respondWithDocument(document, headers);
  };
  return [
    ...["/docs", "/docs/"].map((path, index) =>
      publicRoute({
        ...COMMON,
        path,
        id: index === 0 ? "getDocs" : "getDocsWithSlash",
        summary: "Show the documentation",
        responses,
        faults: [],
        run: ({ headers }) => respond("", headers),
      }),
    ),
    publicRoute<{ path: string }>({
      ...COMMON,
      path: "/docs/{path+}",
      id: "getDocsPage",
      summary: "Show a page of the documentation",
      params: z.object({ path: z.string() }),
      responses,
      faults: ["not_found"],
      run: ({ params, headers }) => respond(params.path.replace(/\/$/, ""), headers),
    }),
  ];
}

interface SearchRequest {
  readonly query: { readonly q: string };
  readonly clientIp: string;
  readonly now: number;
}

function searchRoutes(getSite: () => Promise<Site>, search: SearchDocs): readonly Route[] {
  const query = z.object({ q: z.string().max(SEARCH_QUERY_MAX).default("") });
  const limiter = createRateLimiter({ perMinute: SEARCHES_PER_MINUTE, burst: SEARCHES_BURST });
  const limitedSearch = ({ query: { q }, clientIp, now }: SearchRequest) => {
    const waitMs = limiter.take(networksOf(clientIp)[0], now);
    if (waitMs > 0)
      throw new Fault("rate_limited", "too many searches of the documentation", {
        message: "Your network has searched the documentation too often. Try again later.",
        retryAfterSeconds: waitMs / SECOND_MS,
      });
    return search(q);
  };
  return [
    publicRoute<undefined, { q: string }>({
      ...COMMON,
      path: "/docs/search.json",
      id: "searchDocsAsJson",
      summary: "Search the documentation, as JSON",
      query,
      responses: { 200: { description: "The pages found.", contentType: "application/json" } },
      faults: ["invalid_request", "rate_limited"],
      run: async (request) => Response.json({ data: await limitedSearch(request) }),
    }),
    publicRoute<undefined, { q: string }>({
      ...COMMON,
      path: "/docs/search",
      id: "searchDocs",
      summary: "Search the documentation",
      query,
      responses: { 200: { description: "The pages found.", contentType: "text/html" } },
      faults: ["invalid_request", "rate_limited"],
      run: async (request) => {
        const text = request.query.q;
        const html = renderSearchPage(await getSite(), text, await limitedSearch(request));
        return respondWithDocument(htmlDocument(html), request.headers);
      },
    }),
  ];
}

function imageRoute(): Route {
  return publicRoute<{ name: string }>({
    ...COMMON,
    path: "/docs/images/{name}",
    id: "getDocsImage",
    summary: "Get an image of the documentation",
    params: z.object({ name: z.string() }),
    responses: { 200: { description: "The image.", contentType: "image/*" } },
    faults: ["not_found"],
    run: ({ params }) => {
      const file = lookUp(SITE_IMAGES, params.name);
      if (file === undefined) throw new Fault("not_found", `no image ${params.name}`);
      const type = params.name.endsWith(".webp") ? "image/webp" : "image/png";
      return new Response(new Uint8Array(readFileSync(importedFile(file))), {
        headers: { "content-type": type, "cache-control": "public, max-age=300" },
      });
    },
  });
}

function htmlDocument(html: string): CachedDocument {
  const { "content-type": type = "", ...headers } = siteHeaders();
  return cachedDocument(html, type, { ...headers, link: agentLinks() });
}

// The images of the written pages, by file name. `with { type: "file" }` puts them into the executable.
const SITE_IMAGES: Readonly<Record<string, string>> = {
  "claim-owner.webp": claimOwner,
  "claim-review-phone.webp": claimReviewPhone,
  "claim-review.webp": claimReview,
  "console-billing.webp": consoleBilling,
  "console-budgets.webp": consoleBudgets,
  "console-call.webp": consoleCall,
  "console-keys.webp": consoleKeys,
  "console-logs.webp": consoleLogs,
  "console-playground.webp": consolePlayground,
  "console-usage.webp": consoleUsage,
  "console-deliveries.webp": consoleDeliveries,
  "model.webp": modelPageImage,
  "models.webp": modelsPageImage,
  "operator-report.webp": operatorReport,
};
