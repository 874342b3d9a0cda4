/** @jsxImportSource hono/jsx */
// The addresses at which the service describes itself. Everything is made once, when its first reader asks for it, out of
// the routes and the settings; these routes are among the described. To make it at the start would make a start half as
// long again.

import { z } from "zod";
import { once } from "../base/once.ts";
import { ASSET_CACHE_CONTROL, ASSETS } from "../http/assets.ts";
import { pageHeaders } from "../http/layout.tsx";
import { type AnswerDoc, openRoute, type Route } from "../http/route.ts";
import { formFor } from "./accept.ts";
import { REGISTER } from "./addresses.ts";
import { type Desk, openDesk } from "./desk.ts";
import { homePage, SUMMARY } from "./home-page.tsx";
import { LLMS_CONTENT_TYPE, llmsText } from "./llms.ts";
import { authManifest } from "./manifest.ts";
import { OPENAPI_CONTENT_TYPE, openApiDocument, openApiYaml } from "./openapi.ts";
import { referencePage } from "./reference-page.tsx";
import { answerWith, type Served, served } from "./served.ts";
import { type DiscoverySettings, NAME } from "./settings.ts";
import { authorizationServer, protectedResource } from "./well-known.ts";

export interface DiscoveryDeps {
  /** The routes of all other rooms. */
  readonly routes: readonly Route[];
  readonly settings: DiscoverySettings;
}

const JSON_TYPE = "application/json";
const MARKDOWN_TYPE = "text/markdown; charset=utf-8";

interface Documents {
  readonly yaml: () => Promise<Served>;
  readonly json: () => Served;
  readonly llms: () => Served;
  readonly manifest: () => Served;
  readonly resource: () => Served;
  readonly server: () => Served;
  readonly reference: () => Served;
  readonly home: Readonly<Record<"html" | "json" | "text", () => Served>>;
}

export function discoveryRoutes({ routes, settings }: DiscoveryDeps): readonly Route[] {
  const own: readonly Route[] = [
    ...documentRoutes(() => documents),
    ...pageRoutes(() => documents),
    ...assetRoutes(),
  ];
  const documents = documentsOf([...routes, ...own], settings);
  return own;
}

function documentsOf(routes: readonly Route[], settings: DiscoverySettings): Documents {
  const document = once(() => openApiDocument(routes, settings));
  const desk = once(() => openDesk(routes, document(), settings));
  const llms = once(() => llmsText(desk()));
  const varied = { vary: "accept" };
  return {
    yaml: once(async () => served(await openApiYaml(document()), OPENAPI_CONTENT_TYPE)),
    json: once(() => served(JSON.stringify(document()), JSON_TYPE)),
    llms: once(() => served(llms(), LLMS_CONTENT_TYPE)),
    manifest: once(() => served(authManifest(desk()), MARKDOWN_TYPE)),
    resource: once(() => served(JSON.stringify(protectedResource(desk())), JSON_TYPE)),
    server: once(() => served(JSON.stringify(authorizationServer(desk())), JSON_TYPE)),
    reference: once(() => page(referencePage(document()))),
    home: {
      html: once(() => page(homePage(desk()), varied)),
      json: once(() => served(JSON.stringify(pointers(desk())), JSON_TYPE, varied)),
      text: once(() => served(llms(), LLMS_CONTENT_TYPE, varied)),
    },
  };
}

function page(html: string, more: Readonly<Record<string, string>> = {}): Served {
  const { "content-type": type = "", ...headers } = pageHeaders();
  return served(html, type, { ...headers, ...more });
}

/** The front page for a program: where everything is. */
function pointers(desk: Desk): unknown {
  const { baseUrl, docsUrl, version } = desk.settings;
  return {
    name: NAME,
    description: SUMMARY,
    version,
    base_url: baseUrl,
    auth_md: `${baseUrl}/auth.md`,
    llms_txt: `${baseUrl}/llms.txt`,
    openapi: `${baseUrl}/openapi.yaml`,
    protected_resource: `${baseUrl}/.well-known/oauth-protected-resource`,
    docs: docsUrl,
    ...(desk.has(REGISTER)
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
  readonly answer: AnswerDoc;
}

const OpenApiForm = z
  .looseObject({
    openapi: z.string(),
    info: z.looseObject({ title: z.string(), version: z.string() }),
    paths: z.record(z.string(), z.looseObject({})),
  })
  .meta({ id: "OpenApiDocument", description: "This description." });

const ProtectedResource = z
  .looseObject({
    resource: z.string(),
    authorization_servers: z.array(z.string()),
    bearer_methods_supported: z.array(z.string()),
  })
  .meta({ id: "ProtectedResource", description: "RFC 9728's metadata." });

const AuthorizationServer = z
  .looseObject({
    issuer: z.string(),
    token_endpoint: z.string().optional(),
    grant_types_supported: z.array(z.string()).optional(),
    agent_auth: z.looseObject({ skill: z.string() }),
  })
  .meta({ id: "AuthorizationServer", description: "RFC 8414's metadata." });

const UNCHANGED: AnswerDoc = { description: "The client's copy is current." };

const DOCUMENT_ROUTES: readonly DocumentRoute[] = [
  {
    path: "/openapi.yaml",
    id: "getOpenApiYaml",
    summary: "OpenAPI description",
    pick: "yaml",
    answer: { description: "OpenAPI 3.1, as YAML.", contentType: "application/yaml" },
  },
  {
    path: "/openapi.json",
    id: "getOpenApiJson",
    summary: "OpenAPI description as JSON",
    pick: "json",
    answer: { description: "OpenAPI 3.1, as JSON.", schema: OpenApiForm },
  },
  {
    path: "/llms.txt",
    id: "getLlmsText",
    summary: "Index of the documents for language models",
    pick: "llms",
    answer: { description: "The form of llmstxt.org.", contentType: "text/plain" },
  },
  {
    path: "/auth.md",
    id: "getAuthManifest",
    summary: "How an agent gets in",
    pick: "manifest",
    answer: {
      description: "One page with everything that an agent needs.",
      contentType: "text/markdown",
    },
  },
  {
    path: "/.well-known/auth.md",
    id: "getWellKnownAuthManifest",
    summary: "How an agent gets in, at its well-known address",
    pick: "manifest",
    answer: { description: "The same page as `/auth.md`.", contentType: "text/markdown" },
  },
  {
    path: "/.well-known/oauth-protected-resource",
    id: "getProtectedResource",
    summary: "Protected-resource metadata",
    pick: "resource",
    answer: {
      description: "RFC 9728's metadata, which a 401 points to.",
      schema: ProtectedResource,
    },
  },
  {
    path: "/.well-known/oauth-authorization-server",
    id: "getAuthorizationServer",
    summary: "Authorization-server metadata",
    pick: "server",
    answer: {
      description: "RFC 8414's metadata with the `agent_auth` block.",
      schema: AuthorizationServer,
    },
  },
];

function documentRoutes(documents: () => Documents): readonly Route[] {
  return DOCUMENT_ROUTES.map(({ path, id, summary, pick, answer }) =>
    openRoute({
      method: "GET",
      path,
      id,
      summary,
      tag: "Discovery",
      dialect: "openai",
      answers: { 200: answer, 304: UNCHANGED },
      faults: [],
      run: async (input) => answerWith(await documents()[pick](), input.headers),
    }),
  );
}

function pageRoutes(documents: () => Documents): readonly Route[] {
  const plain = {
    method: "GET",
    tag: "Discovery",
    dialect: "page",
    faults: [],
    hidden: true,
  } as const;
  return [
    openRoute({
      ...plain,
      path: "/",
      id: "getHome",
      summary: "What this is",
      answers: {
        200: { description: "HTML, JSON or text, as `accept` asks.", contentType: "text/html" },
        304: UNCHANGED,
      },
      run: (input) =>
        answerWith(documents().home[formFor(input.headers.get("accept"))](), input.headers),
    }),
    openRoute({
      ...plain,
      path: "/docs",
      id: "getReference",
      summary: "API reference",
      answers: {
        200: { description: "The API reference.", contentType: "text/html" },
        304: UNCHANGED,
      },
      run: (input) => answerWith(documents().reference(), input.headers),
    }),
  ];
}

function assetRoutes(): readonly Route[] {
  return ASSETS.map((asset, index) => {
    const document = served(asset.body, asset.contentType, {
      "cache-control": ASSET_CACHE_CONTROL,
    });
    return openRoute({
      method: "GET",
      path: asset.path,
      id: `getAsset${index}`,
      summary: "What pages load",
      tag: "Discovery",
      dialect: "page",
      answers: {
        200: { description: "The asset.", contentType: asset.contentType },
        304: UNCHANGED,
      },
      faults: [],
      hidden: true,
      run: (input) => answerWith(document, input.headers),
    });
  });
}
