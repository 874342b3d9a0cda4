// Reads the caller's routing preferences: `models`, a list of fallbacks, and `provider`, preferences among the providers of
// a model. Unknown fields are rejected, because a preference ignored silently would cost the caller money.

import { REGION } from "../../base/data-rules.ts";
import { invalid } from "../../base/fault.ts";
import { isObject, type JsonObject } from "../../base/json.ts";
import { shortName } from "../../base/text/suggest.ts";
import { type Decimal, picoPerToken } from "../../models/price-card.ts";

export const SORT_KEYS = ["price", "latency", "throughput"] as const;
export type SortKey = (typeof SORT_KEYS)[number];

export interface RoutingPreferences {
  /** Models to try, in this order, if the requested model fails. */
  readonly models: readonly string[];
  readonly order: readonly string[] | undefined;
  readonly only: readonly string[] | undefined;
  readonly ignore: readonly string[];
  readonly sort: SortKey | undefined;
  readonly allowFallbacks: boolean | undefined;
  /** In pico-USD per token. */
  readonly maxPrice: { readonly prompt?: bigint; readonly completion?: bigint };
}

const MODELS_MAX = 8;
const PROVIDERS_MAX_COUNT = 32;
const MODEL_NAME_MAX_LENGTH = 256;
const PREFERENCE_FIELDS = [
  "order",
  "only",
  "ignore",
  "sort",
  "allow_fallbacks",
  "max_price",
  "require_parameters",
  "data_collection",
  "zdr",
  "region",
  "quantizations",
] as const;
const PRICE_FIELDS = ["prompt", "completion"] as const;

/** The routing preferences of a request; undefined if it has none. */
export function readPreferences(
  json: JsonObject,
  isProvider: (id: string) => boolean,
): RoutingPreferences | undefined {
  const { models, provider } = json;
  if (isAbsent(models) && isAbsent(provider)) return undefined;
  if (!isAbsent(provider) && !isObject(provider))
    throw invalid("provider", '`provider` must be an object, such as {"sort": "price"}.');
  const fields = isObject(provider) ? provider : {};
  for (const field of Object.keys(fields))
    if (!PREFERENCE_FIELDS.some((known) => known === field))
      throw invalid(
        `provider.${shortName(field)}`,
        `Unknown field \`provider.${shortName(field)}\`. \`provider\` accepts ${PREFERENCE_FIELDS.join(", ")}.`,
      );
  // Only checked here: the plan of a call reads it.
  readBoolean(fields, "require_parameters");
  checkDataRules(fields);
  rejectQuantizations(fields["quantizations"]);
  return {
    models: readModels(models),
    order: readProviders(fields, "order", isProvider),
    only: readProviders(fields, "only", isProvider),
    ignore: readProviders(fields, "ignore", isProvider) ?? [],
    sort: readSort(fields["sort"]),
    allowFallbacks: readBoolean(fields, "allow_fallbacks"),
    maxPrice: readMaxPrice(fields["max_price"]),
  };
}

function isAbsent(value: unknown): value is undefined | null {
  return value === undefined || value === null;
}

function readModels(models: unknown): readonly string[] {
  if (isAbsent(models)) return [];
  if (!Array.isArray(models) || models.length === 0 || models.length > MODELS_MAX)
    throw invalid(
      "models",
      `\`models\` must be an array of 1 to ${MODELS_MAX} model ids from GET /v1/models.`,
    );
  return models.map((model: unknown, index) => {
    if (typeof model !== "string" || model === "" || model.length > MODEL_NAME_MAX_LENGTH)
      throw invalid(
        `models[${index}]`,
        `\`models[${index}]\` must be a model id from GET /v1/models.`,
      );
    return model;
  });
}

function readProviders(
  fields: JsonObject,
  field: "order" | "only" | "ignore",
  isProvider: (id: string) => boolean,
): readonly string[] | undefined {
  const list = fields[field];
  if (isAbsent(list)) return undefined;
  const path = `provider.${field}`;
  if (!Array.isArray(list) || list.length === 0 || list.length > PROVIDERS_MAX_COUNT)
    throw invalid(
      path,
      `\`${path}\` must be an array of 1 to ${PROVIDERS_MAX_COUNT} provider ids, such as "anthropic".`,
    );
  return list.map((entry: unknown, index) => {
    const id = typeof entry === "string" ? entry.toLowerCase() : "";
    if (!isProvider(id))
      throw invalid(
        `${path}[${index}]`,
        `\`${path}[${index}]\` must be a provider id, such as "anthropic": the part before the slash of a model id from GET /v1/models.`,
      );
    return id;
  });
}

function readSort(sort: unknown): SortKey | undefined {
  if (isAbsent(sort)) return undefined;
  const known = SORT_KEYS.find((key) => key === sort);
  if (known === undefined)
    throw invalid("provider.sort", `\`provider.sort\` must be one of ${SORT_KEYS.join(", ")}.`);
  return known;
}

function readBoolean(
  fields: JsonObject,
  field: "allow_fallbacks" | "require_parameters" | "zdr",
): boolean | undefined {
  const value = fields[field];
  if (isAbsent(value)) return undefined;
  if (typeof value !== "boolean")
    throw invalid(`provider.${field}`, `\`provider.${field}\` must be true or false.`);
  return value;
}

/** OpenRouter's fields for what a provider may do with the data, and a region. `keepDataPolicy` applies them. */
export function checkDataRules(fields: JsonObject): void {
  readBoolean(fields, "zdr");
  const { data_collection: collection, region } = fields;
  if (!isAbsent(collection) && collection !== "allow" && collection !== "deny")
    throw invalid("provider.data_collection", "`provider.data_collection` must be allow or deny.");
  if (!isAbsent(region) && !(typeof region === "string" && REGION.test(region.toLowerCase())))
    throw invalid("provider.region", '`provider.region` must be a region, such as "us" or "eu".');
}

const QUANTIZATIONS = ["int4", "int8", "fp4", "fp6", "fp8", "fp16", "bf16", "fp32", "unknown"];

// Providers do not say with which precision they serve a model, so it is `unknown` for all of them.
function rejectQuantizations(value: unknown): void {
  if (isAbsent(value)) return;
  const path = "provider.quantizations";
  if (!Array.isArray(value) || value.some((one) => !QUANTIZATIONS.some((known) => known === one)))
    throw invalid(path, `\`${path}\` must be an array of ${QUANTIZATIONS.join(", ")}.`);
  if (!value.includes("unknown"))
    throw invalid(
      path,
      `\`${path}\` cannot be promised: providers do not say with which precision they serve a model. Leave it out, add "unknown", or choose providers that you trust with \`provider.only\`.`,
    );
}

function readMaxPrice(maxPrice: unknown): RoutingPreferences["maxPrice"] {
  if (isAbsent(maxPrice)) return {};
  if (!isObject(maxPrice))
    throw invalid(
      "provider.max_price",
      '`provider.max_price` must be an object with prices in US dollars per million tokens, such as {"prompt": 1, "completion": 5}.',
    );
  const prices: { prompt?: bigint; completion?: bigint } = {};
  for (const [field, value] of Object.entries(maxPrice)) {
    const known = PRICE_FIELDS.find((price) => price === field);
    const path = `provider.max_price.${shortName(field)}`;
    if (known === undefined)
      throw invalid(
        path,
        `Unknown field \`${path}\`. \`provider.max_price\` accepts ${PRICE_FIELDS.join(" and ")}.`,
      );
    if (!isAbsent(value)) prices[known] = readPicoPrice(value, path);
  }
  return prices;
}

function readPicoPrice(value: unknown, path: string): bigint {
  try {
    if (isDecimal(value)) return picoPerToken(value);
  } catch {
    // Rejected below, like a value of another type.
  }
  throw invalid(
    path,
    `\`${path}\` must be a decimal of at least 0, in US dollars per million tokens.`,
  );
}

function isDecimal(value: unknown): value is Decimal {
  return typeof value === "string" || (typeof value === "number" && Number.isFinite(value));
}
