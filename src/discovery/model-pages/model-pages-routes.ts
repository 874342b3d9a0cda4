// The routes of the public model pages.

import { z } from "zod";
import { publicRoute, type Route } from "../../http/route.ts";
import { findModel, modelNotFound } from "../../models/catalog.ts";
import { type EndpointRouteDeps, listEndpoints } from "../../models/endpoints-route.ts";
import { toModelRecord } from "../../models/model-record.ts";
import { prefersMarkdown } from "../accept.ts";
import { respondWithDocument } from "../cached-document.ts";
import { siteHeaders } from "../site/site-frame.tsx";
import { createModelsPages } from "./cached-models-pages.ts";
import { SORT_ORDERS } from "./model-list.ts";
import { modelMarkdown, modelPage } from "./model-page.tsx";
import { priceHistory } from "./price-history.ts";

/** An empty field of the form is the same as none. */
const Text = z
  .string()
  .max(100)
  .optional()
  .transform((text) => (text === "" ? undefined : text));

const ListQuery = z.object({
  q: Text,
  provider: Text,
  ability: Text,
  sort: z.enum(SORT_ORDERS).optional(),
  all: z.literal("true").optional(),
  page: z.coerce.number().int().min(1).max(1_000).optional(),
});

const COMMON = { method: "GET", tag: "Discovery", dialect: "page", hidden: true } as const;
const HTML = { 200: { description: "The page.", contentType: "text/html" } };
const PAGE_HEADERS = { "cache-control": "no-cache" };

export function modelPageRoutes(deps: EndpointRouteDeps, baseUrl: string): readonly Route[] {
  const pages = createModelsPages(deps);
  return [
    publicRoute<undefined, z.infer<typeof ListQuery>>({
      ...COMMON,
      path: "/models",
      id: "getModelsPage",
      summary: "Show the list of models",
      query: ListQuery,
      responses: HTML,
      faults: ["invalid_request", "rate_limited"],
      run: async ({ query, now, headers, clientIp }) => {
        if (prefersMarkdown(headers.get("accept")))
          return markdown(listMarkdown(await pages.records(now)));
        return respondWithDocument(await pages.page(query, { clientIp, now }), headers);
      },
    }),
    publicRoute<{ id: string }>({
      ...COMMON,
      path: "/models/{id+}",
      id: "getModelPage",
      summary: "Show a model",
      params: z.object({ id: z.string() }),
      responses: HTML,
      faults: ["model_not_found"],
      run: async ({ params, now, headers }) => {
        const isFile = params.id.endsWith(".md");
        const id = isFile ? params.id.slice(0, -".md".length) : params.id;
        const catalog = deps.catalog.current();
        const model = findModel(catalog, id)?.model;
        if (model === undefined) throw modelNotFound(catalog, id);
        const record = toModelRecord(model, deps.isAvailable(model.provider), now);
        const endpoints = await listEndpoints(model.id, deps, now);
        const { providerName } = deps;
        const content = {
          model: record,
          endpoints,
          history: priceHistory(model, now),
          providerName,
        };
        if (isFile || prefersMarkdown(headers.get("accept")))
          return markdown(`${modelMarkdown(content)}\n`);
        return page(modelPage(content, baseUrl));
      },
    }),
  ];
}

function listMarkdown(records: readonly ReturnType<typeof toModelRecord>[]): string {
  const lines = records
    .filter(({ available }) => available)
    .map(({ id, name }) => `- [${name}](/models/${id}.md): \`${id}\``);
  return `# Models\n\nThe models that can be called now. \`GET /v1/models\` has their prices as JSON.\n\n${lines.join("\n")}\n`;
}

function page(html: string): Response {
  return new Response(html, { headers: { ...siteHeaders(), ...PAGE_HEADERS } });
}

function markdown(text: string): Response {
  return new Response(text, {
    headers: { "content-type": "text/markdown; charset=utf-8", vary: "accept", ...PAGE_HEADERS },
  });
}
