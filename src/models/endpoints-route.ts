// GET /v1/models/{id}/endpoints: the providers of a model with their prices and recent health. Needs no API key.

import { z } from "zod";
import { oneResponse, publicRoute, type Route } from "../http/route.ts";
import { type Catalog, findModel, type Model } from "./catalog.ts";
import { dataPolicyOf } from "./data-policy.ts";
import { Measured, type MeasuredModels, toMeasured } from "./measured.ts";
import { modelNotFound } from "./model-not-found.ts";
import { MODEL_EXAMPLE, ModelRecord, toModelRecord } from "./model-record.ts";
import { modelsNamed, sameModels } from "./same-model.ts";

/** Recent health of a model on the gateway's own account; undefined where it is unknown. */
interface EndpointHealth {
  readonly status: "up" | "degraded" | "down";
  readonly latencyMs: number | undefined;
  readonly replyMs: number | undefined;
  readonly throughput: number | undefined;
  readonly uptime: number | undefined;
}

export interface EndpointRouteDeps {
  /** `OpenAI` for `openai`; the id of a provider of the models file. */
  readonly providerName: (id: string) => string;
  readonly catalog: { current(): Catalog };
  /** True if the gateway has an account at the provider. */
  readonly isAvailable: (providerId: string) => boolean;
  readonly zdrProviders: ReadonlySet<string>;
  readonly health: (model: Model, now: number) => EndpointHealth;
  /** Figures of the last 24 hours over all processes. */
  readonly measured: (now: number) => Promise<MeasuredModels>;
}

const Milliseconds = z.number().nullable();

const Endpoint = z
  .object({
    provider: z.string().meta({ example: "anthropic" }),
    model: z.string().meta({ example: "anthropic/claude-sonnet-5-5" }),
    name: z.string(),
    context_length: z.int().nullable(),
    max_output_tokens: z.int().nullable(),
    pricing: ModelRecord.shape.pricing,
    available: z.boolean().meta({
      description:
        "Whether this gateway has an account at the provider. You can also call it with your own provider key.",
    }),
    status: z.enum(["up", "degraded", "down"]).meta({
      description:
        "`up`: calls succeed. `degraded`: less than 95% of its calls succeeded. `down`: not called for 10 seconds after repeated failures. Based on the calls of this process in the last 30 minutes.",
    }),
    latency_ms: Milliseconds.meta({
      description: "Median time to the first byte of a stream, in milliseconds.",
    }),
    reply_ms: Milliseconds.meta({
      description: "Median time to a complete, non-streamed reply, in milliseconds.",
    }),
    throughput: z.number().nullable().meta({ description: "Median output tokens per second." }),
    uptime: z
      .number()
      .nullable()
      .meta({ description: "The fraction of calls that succeeded, from 0 to 1.", example: 0.998 }),
    measured_24h: Measured,
    data_policy: z
      .object({
        retention_days: z.int().nullable().meta({
          description: "The most days that the provider stores inputs and outputs; 0 for none.",
        }),
        training: z.boolean().nullable().meta({ description: "Whether it trains on them." }),
        region: z.string().nullable().meta({ description: "Where it promises to process them." }),
        source: z.string().nullable().meta({ description: "The page that says so." }),
        checked: z.string().nullable().meta({ description: "When the page was read." }),
      })
      .meta({
        description:
          "What the provider publishes. null is unknown, which satisfies no `zdr`, `data_collection` or `region`.",
      }),
  })
  .meta({ id: "ModelEndpoint" });

export type EndpointJson = z.infer<typeof Endpoint>;

const EndpointList = z
  .object({
    object: z.literal("list"),
    id: z.string(),
    data: z.array(Endpoint),
    has_more: z.literal(false),
    next_cursor: z.null(),
  })
  .meta({ id: "ModelEndpointList" });

const EXAMPLE: z.infer<typeof EndpointList> = {
  object: "list",
  id: MODEL_EXAMPLE.id,
  data: [
    {
      provider: MODEL_EXAMPLE.owned_by,
      model: MODEL_EXAMPLE.id,
      name: MODEL_EXAMPLE.name,
      context_length: MODEL_EXAMPLE.context_length,
      max_output_tokens: MODEL_EXAMPLE.max_output_tokens,
      pricing: MODEL_EXAMPLE.pricing,
      available: true,
      status: "up",
      latency_ms: 48,
      reply_ms: 35,
      throughput: 90,
      uptime: 1,
      measured_24h: MODEL_EXAMPLE.measured_24h,
      data_policy: {
        retention_days: 0,
        training: false,
        region: "local",
        source: "packages/simulator",
        checked: "2026-11-28",
      },
    },
  ],
  has_more: false,
  next_cursor: null,
};

export function endpointsRoute(deps: EndpointRouteDeps): Route {
  return publicRoute<{ id: string }>({
    method: "GET",
    path: "/v1/models/{id+}/endpoints",
    id: "listModelEndpoints",
    summary: "List the providers of a model",
    description:
      "Lists every provider that has the model, with price and recent health, in the order in which a call would try them. The `provider` preferences of a call choose among these.",
    tag: "Models",
    dialect: "openai",
    params: z.object({
      id: z.string().meta({
        description: "The model id, including slashes, or its name without a provider.",
        example: "sim/echo",
      }),
    }),
    responses: oneResponse("The providers of the model.", EndpointList, EXAMPLE),
    faults: ["model_not_found"],
    run: async ({ params, now }) => {
      const body: z.infer<typeof EndpointList> = {
        object: "list",
        id: params.id,
        data: [...(await listEndpoints(params.id, deps, now))],
        has_more: false,
        next_cursor: null,
      };
      return Response.json(body, { headers: { "cache-control": "no-cache" } });
    },
  });
}

/** All providers of the model, in the order in which a call would try them. */
export async function listEndpoints(
  id: string,
  deps: EndpointRouteDeps,
  now: number,
): Promise<readonly EndpointJson[]> {
  const models = modelsFor(deps.catalog.current(), id, now);
  const measured = await deps.measured(now);
  return models.map((model) => endpointOf(model, deps, { measured, now }));
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
  { isAvailable, health, zdrProviders }: EndpointRouteDeps,
  { measured, now }: { readonly measured: MeasuredModels; readonly now: number },
): EndpointJson {
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
    measured_24h: toMeasured(measured(model)),
    data_policy: dataPolicyRecord(model, zdrProviders),
  };
}

function dataPolicyRecord(model: Model, zdrProviders: ReadonlySet<string>) {
  const { retentionDays, ...others } = dataPolicyOf(model, zdrProviders);
  return { retention_days: retentionDays, ...others };
}

function rounded(value: number | undefined, parts: number): number | null {
  return value === undefined ? null : Math.round(value * parts) / parts;
}
