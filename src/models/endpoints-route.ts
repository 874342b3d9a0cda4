// GET /v1/models/{id}/endpoints: every provider that has a model, with its price and how it has been doing, for anybody.

import { z } from "zod";
import { publicRoute, type Route } from "../http/route.ts";
import { type Catalog, findModel, type Model, modelNotFound } from "./catalog.ts";
import { toModelRecord, ModelRecord } from "./api-record.ts";
import { modelsNamed, sameModels } from "./same-model.ts";

/** How the gateway's own account for a model has been doing lately; undefined is not known. */
export interface EndpointHealth {
  readonly status: "up" | "degraded" | "down";
  readonly latencyMs: number | undefined;
  readonly replyMs: number | undefined;
  readonly throughput: number | undefined;
  readonly uptime: number | undefined;
}

export interface EndpointRouteDeps {
  readonly catalog: { current(): Catalog };
  /** True where the gateway's own key for that provider is set, so its models can be called now. */
  readonly isAvailable: (providerId: string) => boolean;
  readonly health: (model: Model, now: number) => EndpointHealth;
}

const Milliseconds = z.number().nullable();

const Endpoint = z
  .object({
    provider: z.string().meta({ example: "anthropic" }),
    model: z.string().meta({ example: "anthropic/claude-sonnet-4-5" }),
    name: z.string(),
    context_length: z.int().nullable(),
    max_output_tokens: z.int().nullable(),
    pricing: ModelRecord.shape.pricing,
    available: z.boolean().meta({
      description:
        "Whether this gateway has an account there; with your own provider key it can be called, too.",
    }),
    status: z.enum(["up", "degraded", "down"]).meta({
      description:
        "`down` while calls are kept away from it after a run of failures, `degraded` where it failed one call in twenty or more. As this process saw it in the last half hour.",
    }),
    latency_ms: Milliseconds.meta({ description: "To the first byte of a stream, the median." }),
    reply_ms: Milliseconds.meta({
      description: "To the whole of a reply that is not streamed, the median.",
    }),
    throughput: z.number().nullable().meta({ description: "Output tokens a second, the median." }),
    uptime: z
      .number()
      .nullable()
      .meta({ description: "The share of calls that it answered.", example: 0.998 }),
  })
  .meta({ id: "ModelEndpoint" });

const EndpointList = z
  .object({
    object: z.literal("list"),
    id: z.string(),
    data: z.array(Endpoint),
    has_more: z.literal(false),
    next_cursor: z.null(),
  })
  .meta({ id: "ModelEndpointList" });

export function endpointsRoute(deps: EndpointRouteDeps): Route {
  return publicRoute<{ id: string }>({
    method: "GET",
    path: "/v1/models/{id+}/endpoints",
    id: "listModelEndpoints",
    summary: "List the providers of a model, and how they are doing",
    description:
      "The same model at every provider that has it, in the order in which they would be tried without further wishes: those that `provider` preferences of a call choose among.",
    tag: "Models",
    dialect: "openai",
    params: z.object({
      id: z.string().meta({
        description: "The model's id, slashes and all, or its name without a provider.",
        example: "sim/echo",
      }),
    }),
    responses: { 200: { description: "The endpoints.", schema: EndpointList } },
    faults: ["model_not_found"],
    run: ({ params, now }) => {
      const catalog = deps.catalog.current();
      const models = modelsFor(catalog, params.id, now);
      const body: z.infer<typeof EndpointList> = {
        object: "list",
        id: params.id,
        data: models.map((model) => endpointOf(model, deps, now)),
        has_more: false,
        next_cursor: null,
      };
      return Response.json(body, { headers: { "cache-control": "no-cache" } });
    },
  });
}

function modelsFor(catalog: Catalog, id: string, now: number): readonly Model[] {
  const found = findModel(catalog, id);
  const models =
    found === undefined ? modelsNamed(catalog, id, now) : sameModels(catalog, found.model, now);
  if (models.length === 0) throw modelNotFound(catalog, id);
  return models;
}

function endpointOf(
  model: Model,
  { isAvailable, health }: EndpointRouteDeps,
  now: number,
): z.infer<typeof Endpoint> {
  const available = isAvailable(model.provider);
  const { name, context_length, max_output_tokens, pricing } = toModelRecord(model, available, now);
  const { status, latencyMs, replyMs, throughput, uptime } = health(model, now);
  return {
    provider: model.provider,
    model: model.id,
    name,
    context_length,
    max_output_tokens,
    pricing,
    available,
    status,
    latency_ms: rounded(latencyMs, 1),
    reply_ms: rounded(replyMs, 1),
    throughput: rounded(throughput, 10),
    uptime: rounded(uptime, 10_000),
  };
}

function rounded(value: number | undefined, parts: number): number | null {
  return value === undefined ? null : Math.round(value * parts) / parts;
}
