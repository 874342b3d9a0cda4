// What a caller says about where a call may go: `models`, a list to fall back on, and `provider`, preferences among the
// providers of a model. Both are read strictly, since a preference that is skipped in silence costs somebody money.

import { invalid } from "../base/fault.ts";
import { type Decimal, picoPerToken } from "../models/card.ts";
import { isObject, type Json } from "./ask.ts";

export const SORTS = ["price", "latency", "throughput"] as const;
export type Sort = (typeof SORTS)[number];

export interface Preferences {
  /** What to turn to when the model that was asked for fails, in this order. */
  readonly models: readonly string[];
  readonly order: readonly string[] | undefined;
  readonly only: readonly string[] | undefined;
  readonly ignore: readonly string[];
  readonly sort: Sort | undefined;
  readonly allowFallbacks: boolean | undefined;
  /** In pico-USD for a token. */
  readonly maxPrice: { readonly prompt?: bigint; readonly completion?: bigint };
}

const MODELS_MAX = 8;
const PROVIDERS_MAX = 32;
const NAME_MAX = 256;
const FIELDS = ["order", "only", "ignore", "sort", "allow_fallbacks", "max_price"] as const;
const PRICES = ["prompt", "completion"] as const;

/** The members of a body that are the gateway's own and never reach a provider. */
export const OWN_MEMBERS = ["models", "provider", "postern"] as const;

export function hasOwnMembers({ models, provider, postern }: Json): boolean {
  return models !== undefined || provider !== undefined || postern !== undefined;
}

/** The preferences of a body; undefined where it has none. */
export function readPreferences(
  json: Json,
  isProvider: (id: string) => boolean,
): Preferences | undefined {
  const { models, provider } = json;
  if (isAbsent(models) && isAbsent(provider)) return undefined;
  if (!isAbsent(provider) && !isObject(provider))
    throw invalid("provider", 'provider must be an object, such as {"sort": "price"}.');
  const said = isObject(provider) ? provider : {};
  for (const field of Object.keys(said))
    if (!FIELDS.some((known) => known === field))
      throw invalid(
        `provider.${field}`,
        `provider.${field} is not a preference of this gateway; it knows ${FIELDS.join(", ")}.`,
      );
  return {
    models: modelsIn(models),
    order: providersIn(said, "order", isProvider),
    only: providersIn(said, "only", isProvider),
    ignore: providersIn(said, "ignore", isProvider) ?? [],
    sort: sortIn(said["sort"]),
    allowFallbacks: flagIn(said["allow_fallbacks"]),
    maxPrice: maxPriceIn(said["max_price"]),
  };
}

function isAbsent(value: unknown): value is undefined | null {
  return value === undefined || value === null;
}

function modelsIn(models: unknown): readonly string[] {
  if (isAbsent(models)) return [];
  if (!Array.isArray(models) || models.length === 0 || models.length > MODELS_MAX)
    throw invalid(
      "models",
      `models must be an array of 1 to ${MODELS_MAX} ids from GET /v1/models.`,
    );
  return models.map((model: unknown, place) => {
    if (typeof model !== "string" || model === "" || model.length > NAME_MAX)
      throw invalid(`models[${place}]`, `models[${place}] must be an id from GET /v1/models.`);
    return model;
  });
}

function providersIn(
  said: Json,
  field: "order" | "only" | "ignore",
  isProvider: (id: string) => boolean,
): readonly string[] | undefined {
  const list = said[field];
  if (isAbsent(list)) return undefined;
  const path = `provider.${field}`;
  if (!Array.isArray(list) || list.length === 0 || list.length > PROVIDERS_MAX)
    throw invalid(path, `${path} must be an array of 1 to ${PROVIDERS_MAX} providers.`);
  return list.map((entry: unknown, place) => {
    const id = typeof entry === "string" ? entry.toLowerCase() : "";
    if (!isProvider(id))
      throw invalid(
        `${path}[${place}]`,
        `${path}[${place}] must be a provider: the first part of an id from GET /v1/models, such as "anthropic".`,
      );
    return id;
  });
}

function sortIn(sort: unknown): Sort | undefined {
  if (isAbsent(sort)) return undefined;
  const known = SORTS.find((one) => one === sort);
  if (known === undefined)
    throw invalid("provider.sort", `provider.sort must be ${SORTS.join(", ")}.`);
  return known;
}

function flagIn(allow: unknown): boolean | undefined {
  if (isAbsent(allow)) return undefined;
  if (typeof allow !== "boolean")
    throw invalid("provider.allow_fallbacks", "provider.allow_fallbacks must be true or false.");
  return allow;
}

function maxPriceIn(most: unknown): Preferences["maxPrice"] {
  if (isAbsent(most)) return {};
  if (!isObject(most))
    throw invalid(
      "provider.max_price",
      'provider.max_price must be an object of US dollars for a million tokens, such as {"prompt": 1, "completion": 5}.',
    );
  const prices: { prompt?: bigint; completion?: bigint } = {};
  for (const [field, value] of Object.entries(most)) {
    const known = PRICES.find((price) => price === field);
    const path = `provider.max_price.${field}`;
    if (known === undefined)
      throw invalid(path, `${path} is not known; max_price takes ${PRICES.join(" and ")}.`);
    if (!isAbsent(value)) prices[known] = picoIn(value, path);
  }
  return prices;
}

function picoIn(value: unknown, path: string): bigint {
  try {
    if (isDecimal(value)) return picoPerToken(value);
  } catch {
    // What cannot be read is told below, like what has another type.
  }
  throw invalid(path, `${path} must be US dollars for a million tokens: a decimal of 0 or more.`);
}

function isDecimal(value: unknown): value is Decimal {
  return typeof value === "string" || (typeof value === "number" && Number.isFinite(value));
}
