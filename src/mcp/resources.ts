// The resources of the MCP server: the documents of this gateway, and each model with its price.

import type { Route } from "../http/route.ts";

export interface Resource {
  readonly uri: string;
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly mimeType: string;
}

/** Documents that a model can read as they are. */
const DOCUMENT_TYPES = /^(text\/(markdown|plain)|application\/(json|yaml))$/;
/** Copies of other documents, and metadata for programs. */
const WELL_KNOWN = /^\/\.well-known\/|^\/robots\.txt$/;

const MODEL_LIST_PATH = "/v1/models";
/** What the templates expand to. */
const DOT_SEGMENT = /\/\.\.?(\/|$)/;
const TEMPLATE_PATHS = /^\/(v1\/models\/[\w.:@/-]{1,200}|docs\/[\w/-]{1,200}\.md)$/;

export function listResources(routes: readonly Route[], baseUrl: string): readonly Resource[] {
  return routes.flatMap((route) => {
    const type = documentType(route);
    if (type === undefined) return [];
    return [
      {
        uri: `${baseUrl}${route.path}`,
        name: route.path.slice(1),
        title: route.summary.replace(/^(Get|List) (the )?/, ""),
        description: route.responses[200]?.description ?? route.summary,
        mimeType: type,
      },
    ];
  });
}

export function listResourceTemplates(baseUrl: string): readonly {
  readonly uriTemplate: string;
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly mimeType: string;
}[] {
  return [
    {
      uriTemplate: `${baseUrl}/v1/models/{+id}`,
      name: "model",
      title: "A model",
      description: "A model with its limits, abilities and price, by its id.",
      mimeType: "application/json",
    },
    {
      uriTemplate: `${baseUrl}/docs/{+page}.md`,
      name: "documentation",
      title: "A page of the documentation",
      description: "A page of the documentation by its path, such as `keys` or `mcp`.",
      mimeType: "text/markdown",
    },
  ];
}

/** The path to request for a resource; undefined for a URI that is none. */
export function resourcePath(
  uri: string,
  baseUrl: string,
  resources: readonly Resource[],
): string | undefined {
  if (resources.some((resource) => resource.uri === uri)) return uri.slice(baseUrl.length);
  const path = uri.startsWith(`${baseUrl}/`) ? uri.slice(baseUrl.length) : "";
  return TEMPLATE_PATHS.test(path) && !DOT_SEGMENT.test(path) ? path : undefined;
}

function documentType(route: Route): string | undefined {
  if (route.method !== "GET" || route.kind !== "public" || route.hidden === true) return undefined;
  if (route.path === MODEL_LIST_PATH) return "application/json";
  if (route.tag !== "Discovery" || WELL_KNOWN.test(route.path)) return undefined;
  const ok = route.responses[200];
  const type = ok?.contentType ?? (ok?.schema === undefined ? "" : "application/json");
  return DOCUMENT_TYPES.test(type) ? type : undefined;
}
