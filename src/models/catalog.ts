// The catalog of models with their prices, limits and abilities. It is merged from the published list prices, our own tables
// and the operator's models file, the later ones winning, and it is immutable: a change creates a new catalog.

import { kindOfWire, type ModelKind } from "@postern/wires";
import type { Secret } from "../base/crypto/secret.ts";
import { memoize } from "../base/memoize.ts";
import { DAY_MS } from "../base/time.ts";
import { profileAlternatives, profileName } from "./bedrock-profiles.ts";
import { PRICE_TABLE, publishedPrices } from "./list-prices.ts";
import type { ListedPrice, PriceTable } from "./list-prices.ts";
import type { Ability, Modality, SupplementalModel, Wire } from "./model-facts.ts";
import { factsFor } from "./model-facts.ts";
import type { OperatorProvider } from "./models-file.ts";
import type { DatedCard } from "./price-card.ts";
import { cardAt, datedCard } from "./price-card.ts";
import { applyPriceRules } from "./price-rules.ts";
import type { CardResolver, PriceCard } from "./price.ts";
import { ANTHROPIC_FACTS, ANTHROPIC_PRICE_RULES } from "./tables/anthropic.ts";
import { DEEPSEEK_FACTS, DEEPSEEK_MODELS } from "./tables/deepseek.ts";
import { GOOGLE_FACTS, GOOGLE_MODELS, GOOGLE_PRICE_RULES } from "./tables/google.ts";
import { OPEN_FACTS, OPEN_MODELS, OPEN_PRICE_RULES } from "./tables/open-models.ts";
import { OPENAI_FACTS, OPENAI_MODELS, OPENAI_PRICE_RULES } from "./tables/openai.ts";
import { RELAYED_FACTS, RELAYED_MODELS } from "./tables/relayed-models.ts";
import { RETIRED } from "./tables/retired.ts";
import { SERVER_TOOL_PRICE_RULES } from "./tables/server-tool-prices.ts";
import { shutdownBefore, shutdownOf } from "./tables/shutdown-dates.ts";
import { SIMULATOR_FACTS, SIMULATOR_MODELS } from "./tables/simulator-models.ts";
import { XAI_FACTS, XAI_MAY_ANSWER_AS, XAI_MODELS } from "./tables/xai.ts";

export interface Model {
  /** `<provider>/<name>`. */
  readonly id: string;
  readonly provider: string;
  /** The provider's own name for it. */
  readonly name: string;
  readonly title: string;
  readonly kind: ModelKind;
  /** Release date as a Unix timestamp in seconds; 0 if unknown. */
  readonly created: number;
  readonly contextLength: number | null;
  readonly maxOutputTokens: number | null;
  readonly inputModalities: readonly Modality[];
  readonly outputModalities: readonly Modality[];
  readonly supported: readonly Ability[];
  readonly wires: readonly Wire[];
  /** Other names that the provider accepts at this price. */
  readonly aliases: readonly string[];
  /** Other ways to write the name, which the provider may not accept. */
  readonly spellings: readonly string[];
  readonly prices: readonly DatedCard[];
  /** Where the price was found, and the day it was checked. */
  readonly source: string;
  readonly checked: string;
  /** Kept for the prices of old records; it cannot be called. */
  readonly retired: boolean;
  /** "2026-12-01": when its provider shuts it down; null if it has announced nothing. */
  readonly shutdownDate: string | null;
  readonly simulated: boolean;
  /** The gateway searches the web, or fetches pages, for this model, because its provider does not. */
  readonly hasGatewaySearch?: true;
  readonly hasGatewayFetch?: true;
  /** The gateway calls MCP servers for this model. */
  readonly hasGatewayMcp?: true;
  /** Set by the operator: the id of a model with the same weights, or a name that several models share. */
  readonly sameAs?: string;
}

export interface Catalog {
  /** The models that can be called, ordered by id. */
  readonly models: readonly Model[];
  readonly providers: readonly OperatorProvider[];
  /** Keys of the gateway beside those in its settings. */
  readonly credentials: readonly CatalogCredential[];
  /** Every model, by each of its names in lower case, as `<provider>/<name>`. */
  readonly byName: ReadonlyMap<string, Model>;
  /** What was shut down by this day is not offered. */
  readonly day: string;
}

export interface CatalogCredential {
  readonly provider: string;
  readonly name: string;
  /** The share of accounts whose calls go to this key first, relative to the provider's other keys. */
  readonly weight: number;
  /** The content of `api_key_file`. */
  readonly apiKey: Secret | undefined;
  readonly keyVariable: string | undefined;
}

export interface ResolvedModel {
  readonly model: Model;
  /** The model name to send to the provider: a requested snapshot stays that snapshot. */
  readonly upstreamName: string;
}

export interface ResolvedCard {
  readonly card: PriceCard;
  readonly model: Model;
  /** False if the model that answered is unknown and the requested model's price is used instead. */
  readonly exact: boolean;
}

/** The source of prices that the operator sets in the models file. */
export const OPERATOR_SOURCE = "the operator's file";

const FACTS = [
  ...OPENAI_FACTS,
  ...ANTHROPIC_FACTS,
  ...GOOGLE_FACTS,
  ...XAI_FACTS,
  ...DEEPSEEK_FACTS,
  ...OPEN_FACTS,
  ...RELAYED_FACTS,
  ...SIMULATOR_FACTS,
];
const PRICE_RULES = [
  ...OPENAI_PRICE_RULES,
  ...ANTHROPIC_PRICE_RULES,
  ...GOOGLE_PRICE_RULES,
  ...SERVER_TOOL_PRICE_RULES,
  ...OPEN_PRICE_RULES,
];
const SUPPLEMENTAL_MODELS = [
  ...OPENAI_MODELS,
  ...GOOGLE_MODELS,
  ...XAI_MODELS,
  ...DEEPSEEK_MODELS,
  ...OPEN_MODELS,
  ...RELAYED_MODELS,
  ...SIMULATOR_MODELS,
];
/** Assumed for a model with an unknown context length: the longest of any known model. */
const LONGEST_CONTEXT_TOKENS = 2_000_000;
/** Each part can be read in one way only: callers send names. */
const SNAPSHOT =
  /(?:[-@:](?:latest|preview|\d{4}-\d{2}-\d{2}|\d{8}|\d{6}|\d{4}|\d{3}|v\d+(?::\d+|(?!:\d))))+$/;
/** A longer name is not that of a snapshot. */
const SNAPSHOT_NAME_MAX_CHARACTERS = 256;
const BEDROCK_PREFIX = "bedrock/";
const DATE = /(20\d{2})-?(0[1-9]|1[0-2])-?(0[1-9]|[12]\d|3[01])(?!\d)/;

/** The models of the catalog without a models file; those that were shut down by the day are retired. */
export function builtInModels(
  table: PriceTable = PRICE_TABLE,
  day: string = table.checked,
): readonly Model[] {
  return modelsOf(table).map((model) => retiredOn(day, model));
}

function retiredOn(day: string, model: Model): Model {
  const isShutDown = model.shutdownDate !== null && model.shutdownDate <= day;
  return isShutDown ? { ...model, retired: true } : model;
}

// Merged once per table: several gateways in a process, as in tests, share the models.
const modelsOf = memoize((table: PriceTable): readonly Model[] => {
  const models = new Map<string, Model>();
  const takenNames = new Set<string>();
  for (const own of SUPPLEMENTAL_MODELS) {
    const model = toModel(toListedPrice(own), own);
    models.set(model.id, model);
    for (const name of namesOf(model)) takenNames.add(name);
  }
  for (const listed of publishedPrices(table)) {
    const id = `${listed.provider}/${listed.slug}`;
    if (!models.has(id) && !takenNames.has(id.toLowerCase()))
      models.set(id, toModel(listed, undefined));
  }
  return [...models.values()];
});

/** Indexes models by all their names. If names collide, ids win over aliases, and aliases over other spellings. */
export function catalogOf(
  models: readonly Model[],
  providers: readonly OperatorProvider[] = [],
  credentials: readonly CatalogCredential[] = [],
  day: string = PRICE_TABLE.checked,
): Catalog {
  const byName = new Map<string, Model>();
  const index = (model: Model, name: string): void => {
    const key = `${model.provider}/${name}`.toLowerCase();
    if (!byName.has(key)) byName.set(key, model);
  };
  for (const model of models) byName.set(model.id.toLowerCase(), model);
  for (const model of models) for (const name of [model.name, ...model.aliases]) index(model, name);
  for (const model of models) for (const name of model.spellings) index(model, name);
  return {
    models: models.filter(isOffered).toSorted((left, right) => (left.id < right.id ? -1 : 1)),
    providers,
    credentials,
    byName,
    day,
  };
}

function isOffered({ retired, wires, prices }: Model): boolean {
  return !retired && wires.length > 0 && prices.length > 0;
}

/** Finds a model by id, alias or dated snapshot. Retired models are not found. */
export function findModel(catalog: Catalog, id: string): ResolvedModel | undefined {
  return lookupOf(catalog).find(id);
}

/** A prefix under which Claude Code sees every model: its picker shows only ids that begin with `claude` or `anthropic`. */
export const CLAUDE_ALIAS = "claude/";

export function withoutClaudeAlias(id: string): string {
  return id.startsWith(CLAUDE_ALIAS) ? id.slice(CLAUDE_ALIAS.length) : id;
}

function resolveId(catalog: Catalog, name: string): ResolvedModel | undefined {
  const id = withoutClaudeAlias(name);
  const slash = id.indexOf("/");
  if (slash <= 0) return undefined;
  const model = resolve(catalog, id.slice(0, slash), id.slice(slash + 1));
  if (model === undefined || model.retired || model.wires.length === 0) return undefined;
  const upstream = upstreamName(model, id.slice(slash + 1));
  // A snapshot may be shut down before its model is.
  if (upstream !== model.name && shutdownBefore(catalog.day, model.provider, upstream))
    return undefined;
  return { model, upstreamName: upstream };
}

/**
 * The price card of a call: that of the model that answered, at the time the call was sent. If that model is unknown, or the
 * operator has set the price of the requested one, the requested model's card; undefined only if neither has one.
 */
export function cardFor(
  catalog: Catalog,
  requested: Model,
  answeredModel: string | undefined,
  at: number,
): ResolvedCard | undefined {
  const answeringModel =
    answeredModel === undefined || requested.source === OPERATOR_SOURCE
      ? requested
      : resolve(catalog, requested.provider, answeredModel);
  const model = answeringModel ?? requested;
  const card = cardAt(model.prices, at);
  return card === undefined ? undefined : { card, model, exact: answeringModel !== undefined };
}

/** The id, in `GET /v1/models`, of the model that a provider names in its reply: of another one, if that model answered. */
export function answeredModelId(
  catalog: Catalog,
  { model: requested, upstreamName }: ResolvedModel,
  name: string,
): string {
  if (name === upstreamName || requested.source === OPERATOR_SOURCE) return requested.id;
  const answering = resolve(catalog, requested.provider, name);
  return answering !== undefined && isOffered(answering) ? answering.id : requested.id;
}

/** Every card that a call of this model may be billed by; a hold must cover all of them. */
export function possibleCards(catalog: Catalog, model: Model, at: number): PriceCard[] {
  const other =
    model.provider === "xai" && XAI_MAY_ANSWER_AS.match.test(model.name)
      ? catalog.byName.get(XAI_MAY_ANSWER_AS.id)
      : undefined;
  const cards: PriceCard[] = [];
  for (const possible of other === undefined ? [model] : [model, other]) {
    const card = cardAt(possible.prices, at);
    if (card !== undefined) cards.push(card);
  }
  return cards;
}

/** A model by the name that its provider uses. */
export function modelAt(catalog: Catalog, provider: string, name: string): Model | undefined {
  return resolve(catalog, provider, name);
}

/** Finds the card of another model of the same provider that ran within a call, such as an advisor. */
export function cardResolver(catalog: Catalog, provider: string, at: number): CardResolver {
  return (name) => cardAt(resolve(catalog, provider, name)?.prices ?? [], at);
}

/** Safe upper limits: an unknown output limit is the context length, an unknown context length the longest one known. */
export function limitsOf(model: Model): { readonly input: number; readonly output: number } {
  const input = model.contextLength ?? LONGEST_CONTEXT_TOKENS;
  return { input, output: model.kind === "chat" ? (model.maxOutputTokens ?? input) : 0 };
}

/** Prices that are older than this are reported to the operator. */
export const STALE_PRICE_DAYS = 30;

/** The age of the oldest price. */
export function priceAge(
  catalog: Catalog,
  now: number,
): {
  readonly oldest: string;
  readonly newest: string;
  readonly days: number;
} {
  const dates = catalog.models
    .filter((model) => !model.simulated)
    .map((model) => model.checked)
    .toSorted();
  const oldest = dates[0] ?? PRICE_TABLE.checked;
  return {
    oldest,
    newest: dates.at(-1) ?? oldest,
    days: Math.floor((now - Date.parse(oldest)) / DAY_MS),
  };
}

/** The wires of a provider, for a model that the operator adds to it. */
export function wiresOf(provider: string, name: string): readonly Wire[] {
  return factsFor(FACTS, provider, name).wires;
}

// A name that the provider accepts is sent unchanged, so that a snapshot stays that snapshot. Our own id and other spellings are replaced by the model's name.
function upstreamName(model: Model, requestedName: string): string {
  const lower = requestedName.toLowerCase();
  if (`${model.provider}/${lower}` === model.id.toLowerCase()) return model.name;
  if (model.provider === "bedrock") return profileName(model.name, requestedName);
  return model.spellings.some((name) => name.toLowerCase() === lower) &&
    !model.aliases.includes(requestedName)
    ? model.name
    : requestedName;
}

function resolve(catalog: Catalog, provider: string, name: string): Model | undefined {
  return lookupOf(catalog).resolve(`${provider}/${name}`);
}

function resolveName(catalog: Catalog, name: string): Model | undefined {
  const key = name.replace(/^([^/]*)\/models\//, "$1/").toLowerCase();
  const found = namedModel(catalog, key);
  if (found !== undefined || !key.startsWith(BEDROCK_PREFIX)) return found;
  for (const other of profileAlternatives(key.slice(BEDROCK_PREFIX.length))) {
    const model = namedModel(catalog, `${BEDROCK_PREFIX}${other}`);
    if (model !== undefined) return model;
  }
  return undefined;
}

function namedModel({ byName }: Catalog, key: string): Model | undefined {
  const found = byName.get(key);
  if (found !== undefined || key.length > SNAPSHOT_NAME_MAX_CHARACTERS) return found;
  return byName.get(key.replace(SNAPSHOT, ""));
}

interface NameLookup {
  readonly find: (id: string) => ResolvedModel | undefined;
  readonly resolve: (name: string) => Model | undefined;
}

const lookups = new WeakMap<Catalog, NameLookup>();

// A catalog is immutable, so name lookups are cached per catalog.
function lookupOf(catalog: Catalog): NameLookup {
  const cached = lookups.get(catalog);
  if (cached !== undefined) return cached;
  const lookup = {
    find: memoize((id: string) => resolveId(catalog, id)),
    resolve: memoize((name: string) => resolveName(catalog, name)),
  };
  lookups.set(catalog, lookup);
  return lookup;
}

function toListedPrice(own: SupplementalModel): ListedPrice {
  return {
    provider: own.provider,
    slug: own.name,
    name: own.name,
    aliases: own.aliases ?? [],
    spellings: [],
    title: own.title,
    kind: own.kind ?? "chat",
    contextLength: null,
    offered: true,
    prices: own.pricing.map(datedCard),
    source: own.source,
    checked: own.checked,
  };
}

function toModel(listed: ListedPrice, own: SupplementalModel | undefined): Model {
  const { provider, name } = listed;
  const facts = factsFor(FACTS, provider, name);
  return {
    id: `${provider}/${listed.slug}`,
    provider,
    name,
    title: listed.title,
    kind: listed.kind,
    created: createdSeconds(own?.released ?? facts.released, [name, ...listed.aliases]),
    contextLength: facts.contextLength ?? listed.contextLength,
    maxOutputTokens: listed.kind === "chat" ? facts.maxOutputTokens : null,
    inputModalities: facts.inputModalities,
    outputModalities: facts.outputModalities,
    supported: facts.supported,
    wires:
      listed.kind === "chat"
        ? facts.wires
        : facts.wires.filter((wire) => kindOfWire(wire) === listed.kind),
    aliases: listed.aliases,
    spellings: listed.spellings,
    prices: listed.prices.map((price) => ({
      ...price,
      card: applyPriceRules(PRICE_RULES, provider, name, price.card),
    })),
    source: listed.source,
    checked: listed.checked,
    retired: !listed.offered || (RETIRED[provider]?.test(name) ?? false),
    shutdownDate: shutdownOf(provider, name)?.date ?? null,
    simulated: own?.simulated ?? false,
  };
}

// Snapshot names contain their date; the earliest one is the release date.
function createdSeconds(released: string | undefined, names: readonly string[]): number {
  const days = released === undefined ? names.flatMap(releaseDates) : [Date.parse(released)];
  return days.length === 0 ? 0 : Math.min(...days) / 1000;
}

function releaseDates(name: string): number[] {
  const match = DATE.exec(name);
  return match === null ? [] : [Date.parse(`${match[1]}-${match[2]}-${match[3]}`)];
}

function namesOf(model: Model): string[] {
  return [model.name, ...model.aliases].map((name) => `${model.provider}/${name}`.toLowerCase());
}
