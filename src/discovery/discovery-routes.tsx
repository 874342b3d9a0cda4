/** @jsxImportSource hono/jsx */
// The routes of the documents: home page, API reference, OpenAPI, llms.txt, auth.md and OAuth metadata. Each document is
// built on its first request, because building all of them at startup would make startup half as long again. The
// documents describe these routes as well.

import { z } from "zod";
import { lazy } from "../base/lazy.ts";
import { DAY_MS, utcDay } from "../base/time.ts";
import { ASSETS, ASSET_CACHE_CONTROL } from "../http/pages/assets.ts";
import { type PageLayout, pageHeaders, pageScripts, renderPage } from "../http/pages/layout.tsx";
import { type ResponseDoc, type Route, publicRoute } from "../http/route.ts";
import { negotiateFormat } from "./accept.ts";
import { agentLinks } from "./agents/catalogs.ts";
import { AGENT_DOCUMENTS } from "./agents/documents.ts";
import { MCP_PATH } from "./agents/mcp-card.ts";
import { authMd } from "./auth-md/auth-md.ts";
import {
  type CachedDocument,
  cachedDocument,
  ETAG_DOC,
  MARKDOWN_TYPE,
  NOT_MODIFIED,
  respondWithDocument,
} from "./cached-document.ts";
import { type DiscoverySettings, PRODUCT_NAME } from "./discovery-settings.ts";
import { type DocContext, createDocContext } from "./doc-context.ts";
import { type HomeModelDeps, newestModels } from "./home-models.tsx";
import { PRODUCT_SUMMARY, homePage } from "./home-page.tsx";
import { LLMS_CONTENT_TYPE, llmsTxt } from "./llms-txt.ts";
import {
  authorizationServerMetadata,
  deviceServerMetadata,
  protectedResourceMetadata,
} from "./oauth-metadata.ts";
import { OPENAPI_CONTENT_TYPE, openApiDocument, openApiYaml } from "./openapi/openapi.ts";
import { REGISTER_ROUTE } from "./route-keys.ts";
import { DOCS_SCRIPT, DOCS_STYLESHEET } from "./site/site-frame.tsx";
import { siteRoutes } from "./site/site-routes.ts";
import type { SearchDocs } from "./site/site-search.ts";
import type { Site } from "./site/site-types.ts";

export interface DiscoveryDeps {
  /** The routes of all other modules. */
  readonly routes: readonly Route[];
  readonly settings: DiscoverySettings;
  readonly models: HomeModelDeps;
  /** Whether a request has the cookie of a session, which may have ended. */
  readonly hasSessionCookie: (cookies: string | null) => boolean;
}

/** Shared caches must not serve the page of a signed-in person to others, even if they ignore `vary`. */
const PRIVATE_REVALIDATED = "private, no-cache";
const JSON_TYPE = "application/json";
const BY_CLIENT = { vary: "user-agent" };

const HOME_FORMATS = ["html", "json", "markdown", "text"] as const;
type HomeFormat = (typeof HOME_FORMATS)[number];

interface Documents {
  readonly yaml: () => CachedDocument;
  readonly json: () => CachedDocument;
  readonly llms: () => CachedDocument;
  readonly authMd: () => CachedDocument;
  readonly protectedResource: () => CachedDocument;
  readonly authorizationServer: () => CachedDocument;
  readonly deviceServer: () => CachedDocument;
  readonly site: () => Promise<Site>;
  readonly search: SearchDocs;
  readonly home: Readonly<Record<HomeFormat | "signedInHtml", (now: number) => CachedDocument>>;
  /** By path. */
  readonly agents: ReadonlyMap<string, () => Promise<CachedDocument>>;
}

export function discoveryRoutes({
  routes,
  settings,
  models,
  hasSessionCookie,
}: DiscoveryDeps): readonly Route[] {
  const own: readonly Route[] = [
    ...documentRoutes(() => documents),
    ...agentDocumentRoutes(() => documents, settings),
    ...homeRoutes(() => documents, hasSessionCookie),
    ...siteRoutes(
      () => documents.site(),
      (query) => documents.search(query),
    ),
    ...assetRoutes(),
    ...securityRoutes(settings),
  ];
  const documents = createDocuments({ routes: [...routes, ...own], settings, models });
  return own;
}

function createDocuments({
  routes,
  settings,
  models,
}: Omit<DiscoveryDeps, "hasSessionCookie">): Documents {
  const document = lazy(() => openApiDocument(routes, settings));
  const context = lazy(() => createDocContext(routes, document(), settings));
  const llms = lazy(() => llmsTxt(context()));
  const homeHeaders = { vary: "accept", link: agentLinks() };
  const htmlHeaders = { ...homeHeaders, vary: "accept, cookie" };
  const homeDocument = (isSignedIn: boolean, headers: Readonly<Record<string, string>>) =>
    cachedByDay(models, (now) =>
      pageDocument(homePage(context(), newestModels(models, now), isSignedIn), headers),
    );
  const site = lazy(async () =>
    (await import("./site/site.ts")).createDocsSite(document(), routes, settings),
  );
  const search = lazy(async () =>
    (await import("./site/site-search.ts")).createDocsSearch(await site()),
  );
  return {
    yaml: lazy(() => cachedDocument(openApiYaml(document()), OPENAPI_CONTENT_TYPE)),
    json: lazy(() => cachedDocument(JSON.stringify(document()), JSON_TYPE)),
    llms: lazy(() => cachedDocument(llms(), LLMS_CONTENT_TYPE)),
    authMd: lazy(() => cachedDocument(authMd(context()), MARKDOWN_TYPE)),
    protectedResource: lazy(() =>
      cachedDocument(JSON.stringify(protectedResourceMetadata(context())), JSON_TYPE),
    ),
    authorizationServer: lazy(() =>
      cachedDocument(JSON.stringify(authorizationServerMetadata(context())), JSON_TYPE, BY_CLIENT),
    ),
    deviceServer: lazy(() =>
      cachedDocument(JSON.stringify(deviceServerMetadata(context())), JSON_TYPE, BY_CLIENT),
    ),
    site,
    search: async (query) => (await search())(query),
    home: {
      html: homeDocument(false, htmlHeaders),
      signedInHtml: homeDocument(true, { ...htmlHeaders, "cache-control": PRIVATE_REVALIDATED }),
      json: lazy(() => cachedDocument(JSON.stringify(apiIndex(context())), JSON_TYPE, homeHeaders)),
      markdown: lazy(() => cachedDocument(llms(), MARKDOWN_TYPE, homeHeaders)),
      text: lazy(() => cachedDocument(llms(), LLMS_CONTENT_TYPE, homeHeaders)),
    },
    agents: new Map(
      AGENT_DOCUMENTS.map(({ path, contentType, build }) => [
        path,
        lazy(async () => cachedDocument(await build(context(), site), contentType)),
      ]),
    ),
  };
}

function pageDocument(
  page: PageLayout,
  extraHeaders: Readonly<Record<string, string>>,
): CachedDocument {
  const policy = { scripts: pageScripts(page) };
  const { "content-type": type = "", ...headers } = pageHeaders(policy);
  return cachedDocument(renderPage(page), type, { ...headers, ...extraHeaders });
}

/** Prices change with the catalog, or at the beginning of a day. */
function cachedByDay(
  { catalog }: HomeModelDeps,
  build: (now: number) => CachedDocument,
): (now: number) => CachedDocument {
  let cached: { catalog: unknown; day: string; document: CachedDocument } | undefined;
  return (now) => {
    const [current, day] = [catalog.current(), utcDay(now)];
    if (cached?.catalog !== current || cached.day !== day)
      cached = { catalog: current, day, document: build(now) };
    return cached.document;
  };
}

/** What a key can read, by GET. */
const API_LINKS = {
  models: "/v1/models",
  account: "/v1/account",
  key: "/v1/keys/self",
  keys: "/v1/keys",
  usage: "/v1/usage",
  invoices: "/v1/billing/invoices",
} as const;

/** The home page as JSON: links to all documents, and to what a key can read. */
function apiIndex(context: DocContext): unknown {
  const { baseUrl, docsUrl, version, cheapModels } = context.settings;
  return {
    name: PRODUCT_NAME,
    description: PRODUCT_SUMMARY,
    version,
    base_url: baseUrl,
    auth_md: `${baseUrl}/auth.md`,
    llms_txt: `${baseUrl}/llms.txt`,
    ...(context.isMounted(`POST ${MCP_PATH}`) ? { mcp: `${baseUrl}${MCP_PATH}` } : {}),
    openapi: `${baseUrl}/openapi.yaml`,
    protected_resource: `${baseUrl}/.well-known/oauth-protected-resource`,
    docs: docsUrl,
    ...(cheapModels === undefined ? {} : { cheapest_models: cheapModels }),
    links: Object.fromEntries(
      Object.entries(API_LINKS)
        .filter(([, path]) => context.isMounted(`GET ${path}`))
        .map(([name, path]) => [name, `${baseUrl}${path}`]),
    ),
    ...(context.isMounted(REGISTER_ROUTE)
      ? {
          next: [
            {
              method: "POST",
              url: `${baseUrl}/v1/accounts`,
              body: {},
              why: "Create an account and get its first API key. Write the response to a file that only you can read.",
            },
          ],
        }
      : {}),
  };
}

interface DocumentRoute {
  readonly path: string;
  readonly id: string;
  readonly summary: string;
  readonly pick: keyof Omit<Documents, "home" | "site" | "search" | "agents">;
  readonly pickForClaudeCode?: "deviceServer";
  readonly response: ResponseDoc;
}

const OpenApiSchema = z
  .looseObject({
    openapi: z.string(),
    info: z.looseObject({ title: z.string(), version: z.string() }),
    paths: z.record(z.string(), z.looseObject({})),
  })
  .meta({ id: "OpenApiDocument", description: "An OpenAPI description." });

const ProtectedResourceSchema = z
  .looseObject({
    resource: z.string(),
    authorization_servers: z.array(z.string()),
    bearer_methods_supported: z.array(z.string()),
  })
  .meta({ id: "ProtectedResource", description: "OAuth protected resource metadata (RFC 9728)." });

const AuthorizationServerSchema = z
  .looseObject({
    issuer: z.string(),
    token_endpoint: z.string().optional(),
    grant_types_supported: z.array(z.string()).optional(),
    agent_auth: z.looseObject({ skill: z.string() }),
  })
  .meta({
    id: "AuthorizationServer",
    description: "OAuth authorization server metadata (RFC 8414).",
  });

const DOCUMENT_ROUTES: readonly DocumentRoute[] = [
  {
    path: "/openapi.yaml",
    id: "getOpenApiYaml",
    summary: "Get the OpenAPI description as YAML",
    pick: "yaml",
    response: {
      description: "The OpenAPI 3.1 description as YAML.",
      contentType: "application/yaml",
    },
  },
  {
    path: "/openapi.json",
    id: "getOpenApiJson",
    summary: "Get the OpenAPI description as JSON",
    pick: "json",
    response: { description: "The OpenAPI 3.1 description as JSON.", schema: OpenApiSchema },
  },
  {
    path: "/llms.txt",
    id: "getLlmsText",
    summary: "Get the index for language models",
    pick: "llms",
    response: {
      description: "An index for language models, in the format of llmstxt.org.",
      contentType: "text/plain",
    },
  },
  {
    path: "/auth.md",
    id: "getAuthManifest",
    summary: "Get the sign-up guide for agents",
    pick: "authMd",
    response: {
      description: "Everything that an agent needs, on one page.",
      contentType: "text/markdown",
    },
  },
  {
    path: "/.well-known/auth.md",
    id: "getWellKnownAuthManifest",
    summary: "Get the sign-up guide for agents at its well-known URL",
    pick: "authMd",
    response: { description: "The same page as `/auth.md`.", contentType: "text/markdown" },
  },
  {
    path: "/.well-known/oauth-protected-resource",
    id: "getProtectedResource",
    summary: "Get the protected resource metadata",
    pick: "protectedResource",
    response: {
      description: "OAuth protected resource metadata (RFC 9728), to which every 401 points.",
      schema: ProtectedResourceSchema,
    },
  },
  {
    path: "/.well-known/oauth-authorization-server",
    id: "getAuthorizationServer",
    summary: "Get the authorization server metadata",
    pick: "authorizationServer",
    pickForClaudeCode: "deviceServer",
    response: {
      description:
        "OAuth authorization server metadata (RFC 8414) with the `agent_auth` block. Claude Code gets the endpoints of the sign-in with a browser.",
      schema: AuthorizationServerSchema,
    },
  },
];

/** Claude Code, which signs a person in, names itself so on all requests of the sign-in. */
function isClaudeCode(headers: Headers): boolean {
  return /^claude-(?:code|cli)\//.test(headers.get("user-agent") ?? "");
}

function documentRoutes(documents: () => Documents): readonly Route[] {
  return DOCUMENT_ROUTES.map((route) =>
    documentRoute(route, (headers) => {
      const { pick, pickForClaudeCode = pick } = route;
      return documents()[isClaudeCode(headers) ? pickForClaudeCode : pick]();
    }),
  );
}

function agentDocumentRoutes(
  documents: () => Documents,
  { isSignInDisabled = false }: DiscoverySettings,
): readonly Route[] {
  const served = AGENT_DOCUMENTS.filter(
    ({ needsSignIn = false }) => !needsSignIn || !isSignInDisabled,
  );
  return served.map((route) =>
    documentRoute(route, async () => {
      const document = documents().agents.get(route.path);
      if (document === undefined) throw new Error(`no document at ${route.path}`);
      return await document();
    }),
  );
}

function documentRoute(
  { path, id, summary, response }: Omit<DocumentRoute, "pick">,
  read: (headers: Headers) => CachedDocument | Promise<CachedDocument>,
): Route {
  return publicRoute({
    method: "GET",
    path,
    id,
    summary,
    tag: "Discovery",
    dialect: "openai",
    responses: { 200: { ...response, headers: ETAG_DOC }, 304: NOT_MODIFIED },
    faults: [],
    run: async ({ headers }) => respondWithDocument(await read(headers), headers),
  });
}

function securityRoutes({ securityContact, baseUrl }: DiscoverySettings): readonly Route[] {
  if (securityContact === undefined) return [];
  return [
    publicRoute({
      method: "GET",
      path: "/.well-known/security.txt",
      id: "getSecurityTxt",
      summary: "Get the security contact",
      tag: "Discovery",
      dialect: "openai",
      responses: { 200: { description: "RFC 9116.", contentType: "text/plain; charset=utf-8" } },
      faults: [],
      run: ({ now }) =>
        new Response(securityTxt(securityContact, baseUrl, now), {
          headers: { "content-type": "text/plain; charset=utf-8", "cache-control": "max-age=3600" },
        }),
    }),
  ];
}

function homeRoutes(
  documents: () => Documents,
  hasSessionCookie: DiscoveryDeps["hasSessionCookie"],
): readonly Route[] {
  return [
    publicRoute({
      method: "GET",
      tag: "Discovery",
      dialect: "page",
      faults: [],
      hidden: true,
      path: "/",
      id: "getHome",
      summary: "Show the home page",
      responses: {
        200: {
          description: "HTML, JSON, Markdown or text, depending on `accept`.",
          contentType: "text/html",
        },
        304: NOT_MODIFIED,
      },
      run: ({ headers, now }) => {
        const format = negotiateFormat(headers.get("accept"), HOME_FORMATS);
        const isSignedIn = format === "html" && hasSessionCookie(headers.get("cookie"));
        const document = documents().home[isSignedIn ? "signedInHtml" : format](now);
        return respondWithDocument(document, headers);
      },
    }),
  ];
}

function assetRoutes(): readonly Route[] {
  return [...ASSETS, DOCS_STYLESHEET, DOCS_SCRIPT].map((asset, index) => {
    const document = cachedDocument(asset.body, asset.contentType, {
      "cache-control": ASSET_CACHE_CONTROL,
    });
    return publicRoute({
      method: "GET",
      path: asset.path,
      id: `getAsset${index}`,
      summary: "Get a static asset",
      tag: "Discovery",
      dialect: "page",
      responses: {
        200: { description: "The asset.", contentType: asset.contentType },
        304: NOT_MODIFIED,
      },
      faults: [],
      hidden: true,
      run: (input) => respondWithDocument(document, input.headers),
    });
  });
}

// /.well-known/security.txt (RFC 9116): where to report a vulnerability.
const VALID_DAYS = 180;

function securityTxt(contact: string, baseUrl: string, now: number): string {
  const expires = new Date((Math.floor(now / DAY_MS) + VALID_DAYS) * DAY_MS).toISOString();
  return [
    `Contact: ${contact.includes("@") && !contact.includes(":") ? `mailto:${contact}` : contact}`,
    `Expires: ${expires}`,
    "Preferred-Languages: en",
    `Canonical: ${baseUrl}/.well-known/security.txt`,
    "",
  ].join("\n");
}
