// GET /v1beta/models and /v1beta/models/{model}: the models that can be called, in the form of Google's API.

import { z } from "zod";
import { invalid } from "../base/fault.ts";
import type { KeySources } from "../http/request/api-key-header.ts";
import { splitTarget } from "../http/request/request-target.ts";
import { oneResponse, publicRoute } from "../http/route.ts";
import type { Route } from "../http/route.ts";
import type { Model } from "./catalog.ts";

export interface GoogleModelsDeps {
  /** The models that this request's API key may call. */
  readonly listModels: (sources: KeySources, now: number) => Promise<readonly Model[]>;
  /** By its id or name; throws for an unknown one. */
  readonly getModel: (id: string, now: number) => Promise<Model>;
}

/** Google's limits. */
const PAGE = 50;
const PAGE_MAX = 1_000;
const NAME_PREFIX = "models/";

const METHODS: Readonly<Partial<Record<Model["kind"], readonly string[]>>> = {
  chat: ["generateContent", "streamGenerateContent", "countTokens"],
  embedding: ["embedContent", "batchEmbedContents"],
};

const GoogleModel = z
  .looseObject({
    name: z.string().meta({
      description: "`models/` and the id to call, which may contain slashes.",
      example: "models/sim/echo",
    }),
    displayName: z.string().meta({ description: "The title of the model." }),
    inputTokenLimit: z.int().optional().meta({ description: "The size of the context." }),
    outputTokenLimit: z.int().optional().meta({ description: "The most tokens of a reply." }),
    supportedGenerationMethods: z.array(z.string()).meta({
      description: "What can be called below the model, such as `generateContent`.",
    }),
  })
  .meta({ id: "GoogleModel" });

const EXAMPLE: z.infer<typeof GoogleModel> = {
  name: "models/sim/echo",
  displayName: "Simulator: echo",
  inputTokenLimit: 128_000,
  outputTokenLimit: 16_384,
  supportedGenerationMethods: ["generateContent", "streamGenerateContent", "countTokens"],
};

/** Google's clients add parameters of their own, which are ignored. */
const ListQuery = z.object({
  pageSize: z.coerce
    .number()
    .int()
    .min(0)
    .optional()
    .meta({
      description: `Models per page, at most ${PAGE_MAX}. Default: ${PAGE}.`,
    }),
  pageToken: z.string().max(300).optional().meta({
    description: "`nextPageToken` of the previous page.",
  }),
});
type ListQuery = z.infer<typeof ListQuery>;

export function googleModelsRoutes(deps: GoogleModelsDeps): readonly Route[] {
  return [listRoute(deps), getRoute(deps)];
}

function listRoute({ listModels }: GoogleModelsDeps): Route {
  return publicRoute<undefined, ListQuery>({
    method: "GET",
    path: "/v1beta/models",
    id: "listGoogleModels",
    summary: "List models in Google's form",
    description:
      "The models that can be called with generateContent or embedContent; with an API key, those that the key may call. Prices are in GET /v1/models.",
    tag: "Models",
    dialect: "google",
    credential: "optionalKey",
    query: ListQuery,
    responses: {
      200: {
        description: "A page of models.",
        schema: z
          .object({
            models: z.array(GoogleModel).meta({ description: "The models." }),
            nextPageToken: z.string().optional().meta({
              description: "`pageToken` of the next page, if there is one.",
            }),
          })
          .meta({ id: "GoogleModelList" }),
        example: { models: [EXAMPLE] },
      },
    },
    faults: ["invalid_request"],
    run: async ({ query, headers, request, now }) => {
      const models = await listModels({ headers, query: queryOf(request) }, now);
      return { status: 200, body: googleList(models, query ?? {}) };
    },
  });
}

export function queryOf({ url }: Request): string {
  const [, query] = splitTarget(url);
  return query;
}

/** Google's SDKs ask for the models at the path of OpenAI's list, too. */
export function isGoogleClient(headers: Headers): boolean {
  return headers.has("x-goog-api-client") || headers.has("x-goog-api-key");
}

export function googleList(
  models: readonly Model[],
  { pageSize = PAGE, pageToken }: ListQuery,
): object {
  const listed = models.filter(({ kind }) => METHODS[kind] !== undefined);
  const after = pageToken === undefined ? -1 : listed.findIndex(({ id }) => id === pageToken);
  if (pageToken !== undefined && after === -1)
    throw invalid("pageToken", "`pageToken` is not the `nextPageToken` of a page of this list.");
  const size = pageSize === 0 ? PAGE : Math.min(pageSize, PAGE_MAX);
  const page = listed.slice(after + 1, after + 1 + size);
  const hasMore = after + 1 + page.length < listed.length;
  const nextPageToken = hasMore ? page.at(-1)?.id : undefined;
  return { models: page.map(toGoogleModel), nextPageToken };
}

/** The query of a request at another path than that of this list. */
export function readGoogleQuery(query: string): ListQuery {
  const { success, data } = ListQuery.safeParse(Object.fromEntries(new URLSearchParams(query)));
  return success ? data : {};
}

function getRoute({ getModel }: GoogleModelsDeps): Route {
  return publicRoute<{ model: string }>({
    method: "GET",
    path: "/v1beta/models/{model+}",
    id: "getGoogleModel",
    summary: "Get a model in Google's form",
    tag: "Models",
    dialect: "google",
    params: z.object({
      model: z.string().meta({ description: "A model id or name.", example: "sim/echo" }),
    }),
    responses: oneResponse("The model.", GoogleModel, EXAMPLE),
    faults: ["model_not_found"],
    run: async ({ params, now }) => ({
      status: 200,
      body: toGoogleModel(await getModel(params.model, now)),
    }),
  });
}

export function toGoogleModel({
  id,
  title,
  kind,
  contextLength,
  maxOutputTokens,
  supported,
}: Model) {
  return {
    name: NAME_PREFIX + id,
    baseModelId: id,
    version: id.slice(id.lastIndexOf("/") + 1),
    displayName: title,
    inputTokenLimit: contextLength ?? undefined,
    outputTokenLimit: maxOutputTokens ?? undefined,
    supportedGenerationMethods: METHODS[kind] ?? [],
    thinking: supported.includes("reasoning"),
  };
}
