/** @jsxImportSource hono/jsx */
// The addresses at which the service describes itself. Everything is made once, when its first reader asks for it, out of
// the routes and the settings; these routes are among the described. To make it at the start would make a start half as
// long again.

import { z } from "zod";
import { lazy } from "../base/lazy.ts";
import { ASSET_CACHE_CONTROL, ASSETS } from "../http/pages/assets.ts";
import { pageHeaders } from "../http/pages/layout.tsx";
import { type ResponseDoc, publicRoute, type Route } from "../http/route.ts";
import { negotiateFormat } from "./accept.ts";
import { REGISTER_ROUTE } from "./route-keys.ts";
import { type DocContext, createDocContext } from "./doc-context.ts";
import { homePage, PRODUCT_SUMMARY } from "./home-page.tsx";
import { LLMS_CONTENT_TYPE, llmsTxt } from "./llms-txt.ts";
import { authMd } from "./auth-md/auth-md.ts";
import { OPENAPI_CONTENT_TYPE, openApiDocument, openApiYaml } from "./openapi/openapi.ts";
import { referencePage } from "./reference/reference-page.tsx";
import { respondWithDocument, type CachedDocument, cachedDocument } from "./cached-document.ts";
import { type DiscoverySettings, PRODUCT_NAME } from "./discovery-settings.ts";
import { authorizationServerMetadata, protectedResourceMetadata } from "./oauth-metadata.ts";

export interface DiscoveryDeps {
  /** The routes of all other rooms. */
  readonly routes: readonly Route[];
  readonly settings: DiscoverySettings;
}

const JSON_TYPE = "application/json";
const MARKDOWN_TYPE = "text/markdown; charset=utf-8";

interface Documents {
  readonly yaml: () => Promise<CachedDocument>;
  readonly json: () => CachedDocument;
  readonly llms: () => CachedDocument;
  readonly manifest: () => CachedDocument;
  readonly resource: () => CachedDocument;
  readonly server: () => CachedDocument;
  readonly reference: () => CachedDocument;
  readonly home: Readonly<Record<"html" | "json" | "text", () => CachedDocument>>;
}

export function discoveryRoutes({ routes, settings }: DiscoveryDeps): readonly Route[] {
  const own: readonly Route[] = [
    ...documentRoutes(() => documents),
    ...pageRoutes(() => documents),
    ...assetRoutes(),
  ];
  const documents = createDocuments([...routes, ...own], settings);
  return own;
}

function createDocuments(routes: readonly Route[], settings: DiscoverySettings): Documents {
  const document = lazy(() => openApiDocument(routes, settings));
  const context = lazy(() => createDocContext(routes, document(), settings));
  const llms = lazy(() => llmsTxt(context()));
  const varied = { vary: "accept" };
  return {
    yaml: lazy(async () => cachedDocument(await openApiYaml(document()), OPENAPI_CONTENT_TYPE)),
    json: lazy(() => cachedDocument(JSON.stringify(document()), JSON_TYPE)),
    llms: lazy(() => cachedDocument(llms(), LLMS_CONTENT_TYPE)),
    manifest: lazy(() => cachedDocument(authMd(context()), MARKDOWN_TYPE)),
    resource: lazy(() =>
      cachedDocument(JSON.stringify(protectedResourceMetadata(context())), JSON_TYPE),
    ),
    server: lazy(() =>
      cachedDocument(JSON.stringify(authorizationServerMetadata(context())), JSON_TYPE),
    ),
    reference: lazy(() => htmlDocument(referencePage(document()))),
    home: {
      html: lazy(() => htmlDocument(homePage(context()), varied)),
      json: lazy(() => cachedDocument(JSON.stringify(apiIndex(context())), JSON_TYPE, varied)),
      text: lazy(() => cachedDocument(llms(), LLMS_CONTENT_TYPE, varied)),
    },
  };
}

function htmlDocument(
  html: string,
  extraHeaders: Readonly<Record<string, string>> = {},
): CachedDocument {
  const { "content-type": type = "", ...headers } = pageHeaders();
  return cachedDocument(html, type, { ...headers, ...extraHeaders });
}

/** The front page for a program: where everything is. */
function apiIndex(context: DocContext): unknown {
  const { baseUrl, docsUrl, version } = context.settings;
  return {
    name: PRODUCT_NAME,
    description: PRODUCT_SUMMARY,
    version,
    base_url: baseUrl,
    auth_md: `${baseUrl}/auth.md`,
    llms_txt: `${baseUrl}/llms.txt`,
    openapi: `${baseUrl}/openapi.yaml`,
    protected_resource: `${baseUrl}/.well-known/oauth-protected-resource`,
    docs: docsUrl,
    ...(context.isMounted(REGISTER_ROUTE)
      ? {
          next: [
            {
              method: "POST",
              url: `${baseUrl}/v1/accounts`,
              body: {},
              why: "Open an account and get its first key.",
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
  readonly pick: keyof Omit<Documents, "home">;
  readonly response: ResponseDoc;
}

const OpenApiSchema = z
  .looseObject({
    openapi: z.string(),
    info: z.looseObject({ title: z.string(), version: z.string() }),
    paths: z.record(z.string(), z.looseObject({})),
  })
  .meta({ id: "OpenApiDocument", description: "This description." });

const ProtectedResourceSchema = z
  .looseObject({
    resource: z.string(),
    authorization_servers: z.array(z.string()),
    bearer_methods_supported: z.array(z.string()),
  })
  .meta({ id: "ProtectedResource", description: "RFC 9728's metadata." });

const AuthorizationServerSchema = z
  .looseObject({
    issuer: z.string(),
    token_endpoint: z.string().optional(),
    grant_types_supported: z.array(z.string()).optional(),
    agent_auth: z.looseObject({ skill: z.string() }),
  })
  .meta({ id: "AuthorizationServer", description: "RFC 8414's metadata." });

const NOT_MODIFIED: ResponseDoc = { description: "The client's copy is current." };

const DOCUMENT_ROUTES: readonly DocumentRoute[] = [
  {
    path: "/openapi.yaml",
    id: "getOpenApiYaml",
    summary: "OpenAPI description",
    pick: "yaml",
    response: { description: "OpenAPI 3.1, as YAML.", contentType: "application/yaml" },
  },
  {
    path: "/openapi.json",
    id: "getOpenApiJson",
    summary: "OpenAPI description as JSON",
    pick: "json",
    response: { description: "OpenAPI 3.1, as JSON.", schema: OpenApiSchema },
  },
  {
    path: "/llms.txt",
    id: "getLlmsText",
    summary: "Index of the documents for language models",
    pick: "llms",
    response: { description: "The form of llmstxt.org.", contentType: "text/plain" },
  },
  {
    path: "/auth.md",
    id: "getAuthManifest",
    summary: "How an agent gets in",
    pick: "manifest",
    response: {
      description: "One page with everything that an agent needs.",
      contentType: "text/markdown",
    },
  },
  {
    path: "/.well-known/auth.md",
    id: "getWellKnownAuthManifest",
    summary: "How an agent gets in, at its well-known address",
    pick: "manifest",
    response: { description: "The same page as `/auth.md`.", contentType: "text/markdown" },
  },
  {
    path: "/.well-known/oauth-protected-resource",
    id: "getProtectedResource",
    summary: "Protected-resource metadata",
    pick: "resource",
    response: {
      description: "RFC 9728's metadata, which a 401 points to.",
      schema: ProtectedResourceSchema,
    },
  },
  {
    path: "/.well-known/oauth-authorization-server",
    id: "getAuthorizationServer",
    summary: "Authorization-server metadata",
    pick: "server",
    response: {
      description: "RFC 8414's metadata with the `agent_auth` block.",
      schema: AuthorizationServerSchema,
    },
  },
];

function documentRoutes(documents: () => Documents): readonly Route[] {
  return DOCUMENT_ROUTES.map(({ path, id, summary, pick, response }) =>
    publicRoute({
      method: "GET",
      path,
      id,
      summary,
      tag: "Discovery",
      dialect: "openai",
      responses: { 200: response, 304: NOT_MODIFIED },
      faults: [],
      run: async (input) => respondWithDocument(await documents()[pick](), input.headers),
    }),
  );
}

function pageRoutes(documents: () => Documents): readonly Route[] {
  const common = {
    method: "GET",
    tag: "Discovery",
    dialect: "page",
    faults: [],
    hidden: true,
  } as const;
  return [
    publicRoute({
      ...common,
      path: "/",
      id: "getHome",
      summary: "What this is",
      responses: {
        200: { description: "HTML, JSON or text, as `accept` asks.", contentType: "text/html" },
        304: NOT_MODIFIED,
      },
      run: (input) =>
        respondWithDocument(
          documents().home[negotiateFormat(input.headers.get("accept"))](),
          input.headers,
        ),
    }),
    publicRoute({
      ...common,
      path: "/docs",
      id: "getReference",
      summary: "API reference",
      responses: {
        200: { description: "The API reference.", contentType: "text/html" },
        304: NOT_MODIFIED,
      },
      run: (input) => respondWithDocument(documents().reference(), input.headers),
    }),
  ];
}

function assetRoutes(): readonly Route[] {
  return ASSETS.map((asset, index) => {
    const document = cachedDocument(asset.body, asset.contentType, {
      "cache-control": ASSET_CACHE_CONTROL,
    });
    return publicRoute({
      method: "GET",
      path: asset.path,
      id: `getAsset${index}`,
      summary: "What pages load",
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
