// The JSON of a model in the API: OpenAI's format with prices, or Anthropic's.

import { z } from "zod";
import { usdTextOfPico } from "../base/money/money.ts";
import type { Model } from "./catalog.ts";
import { Measured, type MeasuredFigures, toMeasured } from "./measured.ts";
import { AbilityRecord, toAbilityRecord } from "./model-abilities.ts";
import { cardAt } from "./price-card.ts";
import type { Meter, PriceCard, Rates } from "./price.ts";
import type { Ratio } from "./ratio.ts";

/** The names of prices in a model's record: OpenRouter's, which many tools read. */
const PRICE_NAMES: readonly (readonly [Meter, string])[] = [
  ["input", "prompt"],
  ["output", "completion"],
  ["cache_read", "input_cache_read"],
  ["cache_write_5m", "input_cache_write"],
  ["cache_write_1h", "input_cache_write_1h"],
  ["reasoning", "internal_reasoning"],
  ["input_audio", "audio"],
  ["cache_read_audio", "input_audio_cache"],
  ["output_audio", "audio_output"],
  ["input_image", "image"],
  ["cache_read_image", "input_image_cache"],
  ["output_image", "image_output"],
  ["request", "request"],
  ["web_search", "web_search"],
  ["web_fetch", "web_fetch"],
  ["x_search", "x_search"],
  ["grounding", "grounding"],
  ["file_search", "file_search"],
  ["code_execution", "code_execution"],
  ["image_generation", "image_generation"],
  ["megapixel", "megapixel"],
  ["audio_second", "audio_second"],
  ["character", "character"],
  ["search_unit", "search_unit"],
  ["other_tool", "other_tool"],
];

const Usd = z.string().meta({
  description: "US dollars per token, or per use of a tool, as an exact decimal.",
  example: "0.0000025",
});
const Prices = z.record(z.string(), Usd);

const Pricing = z
  .object({
    tiers: z
      .array(z.object({ above_input_tokens: z.int(), prices: Prices }))
      .optional()
      .meta({
        description: "Prices for all tokens of a call whose prompt is longer than this.",
      }),
    service_tiers: z
      .record(z.string(), z.string())
      .optional()
      .meta({
        description:
          "Multipliers of token prices by the service tier that answered. `batch`: of a batch that the provider runs.",
        example: { flex: "0.5" },
      }),
    speeds: z.record(z.string(), z.string()).optional(),
    regions: z.record(z.string(), z.string()).optional(),
    request_by_size: Prices.optional(),
    image_by_size: Prices.optional(),
  })
  .catchall(Usd)
  .meta({
    description:
      "The provider's current list price. `prompt` and `completion` are always present; a meter without a price is billed at the price of the closest one.",
    example: { prompt: "0.000001", completion: "0.000002", input_cache_read: "0.0000001" },
  });

export const ModelRecord = z
  .object({
    id: z.string().meta({
      description: "The id to send as `model`: `<provider>/<name>`.",
      example: "openai/gpt-5.4",
    }),
    object: z.literal("model"),
    created: z.int().meta({
      description: "Release date as a Unix timestamp in seconds; 0 if unknown.",
      example: 1772668800,
    }),
    owned_by: z.string().meta({ description: "The provider.", example: "openai" }),
    name: z.string(),
    context_length: z.int().nullable().meta({
      description: "Maximum tokens of prompt and output together; null if unknown.",
      example: 400000,
    }),
    max_output_tokens: z
      .int()
      .nullable()
      .meta({ description: "Maximum output tokens; null if unknown.", example: 128000 }),
    input_modalities: z.array(z.string()).meta({ example: ["text", "image"] }),
    output_modalities: z.array(z.string()).meta({ example: ["text"] }),
    supported: z.array(z.string()).meta({
      description: "Features known to be supported. A missing one may be supported as well.",
      example: ["tools", "reasoning"],
    }),
    abilities: AbilityRecord,
    pricing: Pricing,
    available: z.boolean().meta({
      description:
        "Whether this gateway has an account at the provider. With your own provider key you can call other models as well.",
    }),
    wires: z.array(z.string()).meta({
      description:
        "The wire formats that the provider supports for it; calls in other formats are translated.",
      example: ["chat", "responses"],
    }),
    shutdown_date: z.string().nullable().meta({
      description:
        "The day on which the provider shuts the model down; `null` if it has announced none.",
      example: "2026-12-01",
    }),
    measured_24h: Measured,
    simulated: z
      .literal(true)
      .optional()
      .meta({ description: "True for the simulator's models, which exist to test integrations." }),
  })
  .meta({ id: "Model", description: "A model with its price." });

export type ModelRecordJson = z.infer<typeof ModelRecord>;

export const ModelList = z
  .object({
    object: z.literal("list"),
    data: z.array(ModelRecord),
    has_more: z.boolean(),
    next_cursor: z.string().nullable(),
  })
  .meta({ id: "ModelList", description: "Models, ordered by id: all of them, or a page." });

const AnthropicModel = z
  .object({
    type: z.literal("model"),
    id: z.string(),
    display_name: z.string(),
    created_at: z.string(),
    max_input_tokens: z.int().nullable(),
    max_tokens: z.int().nullable(),
    capabilities: z.null(),
    lifecycle: z.enum(["active", "deprecated"]),
    deprecated_at: z.null(),
    retires_at: z.string().nullable(),
    line: z.null(),
  })
  .meta({ id: "AnthropicModel", description: "A model in the format of Anthropic's API." });

const AnthropicModelList = z
  .object({
    data: z.array(AnthropicModel),
    has_more: z
      .boolean()
      .meta({ description: "Whether there are more models: continue with `after_id`." }),
    first_id: z.string().nullable(),
    last_id: z.string().nullable(),
  })
  .meta({
    id: "AnthropicModelList",
    description: "A page of models in the format of Anthropic's API.",
  });

const FORMAT_NOTE =
  "The first format by default, the second if the request has an `anthropic-version` header.";

/** What Codex requires of each model, and what a person looks for. */
export const CodexModelList = z
  .object({
    models: z.array(
      z.looseObject({
        slug: z
          .string()
          .meta({ description: "The model id.", example: "anthropic/claude-opus-5-5" }),
        display_name: z.string(),
        context_window: z.int().nullable(),
        default_reasoning_level: z.string().nullable(),
        supported_reasoning_levels: z.array(
          z.object({ effort: z.string(), description: z.string() }),
        ),
        base_instructions: z.string(),
      }),
    ),
  })
  .meta({ id: "CodexModelList" });

/** The request's `anthropic-version` header decides between the formats. */
export const ModelResponse = z.union([ModelRecord, AnthropicModel]).describe(FORMAT_NOTE);
export const ModelListResponse = z
  .union([ModelList, AnthropicModelList, CodexModelList])
  .describe(`${FORMAT_NOTE} With \`client_version\`, it is Codex's.`);

/** A model's record with its current price. */
export function toModelRecord(
  model: Model,
  available: boolean,
  now: number,
  measured?: MeasuredFigures,
): z.infer<typeof ModelRecord> {
  const card = cardAt(model.prices, now);
  return {
    id: model.id,
    object: "model",
    created: model.created,
    owned_by: model.provider,
    name: model.title,
    context_length: model.contextLength,
    max_output_tokens: model.maxOutputTokens,
    input_modalities: [...model.inputModalities],
    output_modalities: [...model.outputModalities],
    supported: [...model.supported],
    abilities: toAbilityRecord(model, card),
    pricing: card === undefined ? {} : pricingOf(card),
    available,
    wires: [...model.wires],
    shutdown_date: model.shutdownDate,
    measured_24h: toMeasured(measured),
    ...(model.simulated ? { simulated: true as const } : {}),
  };
}

// Cards are immutable, and lists of all models are public: without this cache a list costs milliseconds of CPU.
const pricings = new WeakMap<PriceCard, z.infer<typeof Pricing>>();

function pricingOf(card: PriceCard): z.infer<typeof Pricing> {
  const cached = pricings.get(card);
  if (cached !== undefined) return cached;
  const pricing = toPricing(card);
  pricings.set(card, pricing);
  return pricing;
}

function toPricing(card: PriceCard): z.infer<typeof Pricing> {
  const tiers = card.tiers.map((tier) => ({
    above_input_tokens: tier.aboveInputTokens,
    prices: usdPrices(tier.rates),
  }));
  const sizes = Object.entries(card.requestFees).map(([size, fee]) => [size, usdTextOfPico(fee)]);
  const images = Object.entries(card.imageFees ?? {}).filter(([name]) => name === name.trim());
  // Separate from the prices, because one literal cannot have the type of a record with a catch-all.
  const extras = {
    ...(tiers.length > 0 ? { tiers } : {}),
    ...factorsField("service_tiers", card.serviceTiers),
    ...factorsField("speeds", card.speeds),
    ...factorsField("regions", card.regions),
    ...(sizes.length > 0 ? { request_by_size: Object.fromEntries(sizes) } : {}),
    ...(images.length > 0
      ? {
          image_by_size: Object.fromEntries(
            images.map(([name, fee]) => [name, usdTextOfPico(fee)]),
          ),
        }
      : {}),
  };
  return Object.assign<Record<string, string>, typeof extras>(
    { completion: "0", ...usdPrices(card.base) },
    extras,
  );
}

function usdPrices(rates: Rates): Record<string, string> {
  return Object.fromEntries(
    PRICE_NAMES.flatMap(([meter, name]) =>
      rates[meter] === undefined ? [] : [[name, usdTextOfPico(rates[meter])]],
    ),
  );
}

function factorsField(
  name: string,
  table: Readonly<Record<string, Ratio>>,
): Record<string, Record<string, string>> {
  const entries = Object.entries(table).map(([key, { num, den }]) => [
    key,
    1_000n % den === 0n ? String(Number(num) / Number(den)) : `${num}/${den}`,
  ]);
  return entries.length === 0 ? {} : { [name]: Object.fromEntries(entries) };
}

/** A model's record in the format of Anthropic's API. */
export function toAnthropicModel(
  model: Model,
): { readonly id: string } & Readonly<Record<string, unknown>> {
  return {
    type: "model",
    id: model.id,
    display_name: model.title,
    created_at: new Date(model.created * 1000).toISOString().replace(".000Z", "Z"),
    max_input_tokens: model.contextLength,
    max_tokens: model.maxOutputTokens,
    capabilities: null,
    lifecycle: model.shutdownDate === null ? "active" : "deprecated",
    deprecated_at: null,
    retires_at: model.shutdownDate && `${model.shutdownDate}T00:00:00Z`,
    line: null,
  };
}

export const MODEL_EXAMPLE = {
  id: "sim/echo",
  object: "model",
  created: 1_795_219_200,
  owned_by: "sim",
  name: "Simulator: echo",
  context_length: 128_000,
  max_output_tokens: 16_384,
  input_modalities: ["text", "image"],
  output_modalities: ["text"],
  supported: ["tools", "structured_output", "prompt_caching", "vision"],
  abilities: {
    reasoning: null,
    efforts: [],
    sampling: true,
    tools: { chat: true, responses: true, messages: true },
    forced_tools: true,
    json_schema: true,
    stop: "provider",
    seed: true,
    n: true,
    logprobs: true,
    prefill: true,
    service_tiers: [],
    sources: [],
  },
  pricing: { prompt: "0.000001", completion: "0.000002", input_cache_read: "0.0000001" },
  available: true,
  wires: ["chat", "responses", "messages"],
  shutdown_date: null,
  measured_24h: { uptime: 1, latency_ms: 35, first_token_ms: 48 },
  simulated: true,
};
