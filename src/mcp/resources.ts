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
const MODEL_PATH = "/v1/models/{id+}";

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
  ];
}

/** The path to request for a resource; undefined for a URI that is none. */
export function resourcePath(
  uri: string,
  baseUrl: string,
  resources: readonly Resource[],
): string | undefined {
  if (resources.some((resource) => resource.uri === uri)) return uri.slice(baseUrl.length);
  const modelPrefix = `${baseUrl}${MODEL_PATH.slice(0, MODEL_PATH.indexOf("{"))}`;
  const id = uri.startsWith(modelPrefix) ? uri.slice(modelPrefix.length) : "";
  return /^[\w.:@/-]{1,200}$/.test(id) && !id.includes("..")
    ? `${MODEL_LIST_PATH}/${id}`
    : undefined;
}

function documentType(route: Route): string | undefined {
  if (route.method !== "GET" || route.auth !== "none" || route.hidden === true) return undefined;
  if (route.path === MODEL_LIST_PATH) return "application/json";
  if (route.tag !== "Discovery" || WELL_KNOWN.test(route.path)) return undefined;
  const ok = route.responses[200];
  const type = ok?.contentType ?? (ok?.schema === undefined ? "" : "application/json");
  return DOCUMENT_TYPES.test(type) ? type : undefined;
}
