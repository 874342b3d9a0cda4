// The current catalog. It is reloaded when the operator's models file changes; if the new file is invalid, the previous
// catalog stays in use and the error is reported.

import { readFileSync, statSync } from "node:fs";
import { kindOfWire } from "@postern/wires";
import { secret } from "../base/crypto/secret.ts";
import { Fault } from "../base/fault.ts";
import { utcDay } from "../base/time.ts";
import { blankModel } from "./blank-model.ts";
import { builtInModels, catalogOf, OPERATOR_SOURCE, wiresOf } from "./catalog.ts";
import type { Catalog, CatalogCredential, Model } from "./catalog.ts";
import { type GatewayToolFees, withGatewayTools } from "./gateway-tool-models.ts";
import { parsePriceTable, PRICE_TABLE } from "./list-prices.ts";
import type { PriceTable } from "./list-prices.ts";
import type { Wire } from "./model-facts.ts";
import { isHidden, parseModelsFile } from "./models-file.ts";
import type { ModelsFile, OperatorCredential, OperatorModel } from "./models-file.ts";
import { datedCard } from "./price-card.ts";

/** The source of the operator's models file, and of the key files that it names. */
export interface ModelsFileSource {
  readonly path?: string;
  /** A stamp that changes with the file; undefined if there is no file. */
  stamp(keyFile?: string): string | undefined;
  read(keyFile?: string): string;
}

interface RefreshResult {
  readonly changed: boolean;
  /** Why the current file is invalid; the previous catalog stays in use. */
  readonly error?: string;
}

export interface LiveCatalog {
  current(): Catalog;
  /** Reloads the file if its stamp changed, and retires what is shut down each day; cheap otherwise. */
  refresh(now: number): RefreshResult;
  /** Why the current file is invalid, and since when. */
  problem(): { readonly error: string; readonly since: number } | undefined;
}

/** Throws if the models file is invalid or missing at the start: there is no previous catalog to use. */
export function createLiveCatalog(options: {
  readonly file?: ModelsFileSource | undefined;
  readonly prices?: PriceTable;
  /** Undefined where the gateway runs no tools. */
  readonly gatewayTools?: GatewayToolFees | undefined;
  readonly now: number;
  /** Models that are shut down after this day stay offered, for tests; today if absent. */
  readonly day?: string | undefined;
}): LiveCatalog {
  const { file, gatewayTools, prices } = options;
  const dayAt = (now: number): string => options.day ?? utcDay(now);
  let day = dayAt(options.now);
  let builtIn = builtInModels(prices, day);
  const finished = ({ byName, providers, credentials }: Catalog): Catalog => {
    const own = new Set(providers.map(({ id }) => id));
    const models = withGatewayTools([...new Set(byName.values())], gatewayTools, own);
    return catalogOf(models, providers, credentials, day);
  };
  let stamp: string | undefined;
  const keyStamps = new Map<string, string | undefined>();
  // Each stamp is taken before the file is read, so that a change meanwhile is seen by the next refresh.
  const load = (source: ModelsFileSource, now: number): Catalog => {
    stamp = source.stamp();
    keyStamps.clear();
    const merged = mergeModels(builtIn, parseModelsFile(source.read()), now, (keyFile) => {
      keyStamps.set(keyFile, source.stamp(keyFile));
      return source.read(keyFile);
    });
    return finished(merged);
  };
  const isChanged = (): boolean =>
    file !== undefined &&
    (file.stamp() !== stamp ||
      [...keyStamps].some(([keyFile, seen]) => file.stamp(keyFile) !== seen));
  const loadAt = (now: number): Catalog =>
    file === undefined ? finished(catalogOf(builtIn)) : load(file, now);
  let catalog = loadAtStart(file?.path, () => loadAt(options.now));
  let problem: { readonly error: string; readonly since: number } | undefined;
  const refresh = (now: number): RefreshResult => {
    const today = dayAt(now);
    const changed = isChanged();
    if (!changed && today === day) return { changed, ...(problem && { error: problem.error }) };
    if (today !== day) builtIn = builtInModels(prices, today);
    day = today;
    try {
      catalog = loadAt(now);
      problem = undefined;
    } catch (cause) {
      problem = { error: cause instanceof Error ? cause.message : String(cause), since: now };
    }
    return problem === undefined ? { changed } : { changed: false, error: problem.error };
  };
  return { current: () => catalog, refresh, problem: () => problem };
}

/** An invalid file is an invalid setting: the process must not be restarted until it is corrected. */
function loadAtStart(path: string | undefined, load: () => Catalog): Catalog {
  try {
    return load();
  } catch (cause) {
    const text = cause instanceof Error ? cause.message : String(cause);
    const message = path === undefined || text.includes(path) ? text : `${path}: ${text}`;
    throw new Fault("invalid_request", message, { message, cause });
  }
}

/** A file on disk. If it is missing, reading it throws: falling back to list prices would bill the wrong amounts. */
export function modelsFileAt(path: string): ModelsFileSource {
  return {
    path,
    stamp: (keyFile) => stampOf(keyFile ?? path),
    read: (keyFile) =>
      keyFile === undefined ? readSetting(path, "POSTERN_MODELS_FILE") : readKeyFile(keyFile),
  };
}

function readKeyFile(path: string): string {
  return readSetting(path, "`api_key_file`");
}

function stampOf(path: string): string | undefined {
  try {
    const { mtimeMs, size, ino } = statSync(path);
    return `${mtimeMs}-${size}-${ino}`;
  } catch {
    return undefined;
  }
}

/** The operator's table of list prices, or the built-in one. Throws if the file is missing or invalid. */
export function readPriceTable(path: string | undefined): PriceTable {
  if (path === undefined) return PRICE_TABLE;
  const text = readSetting(path, "POSTERN_PRICES_FILE");
  try {
    return parsePriceTable(text);
  } catch (cause) {
    throw new Error(`${path}: ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause,
    });
  }
}

function readSetting(path: string, setting: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (cause) {
    const code = cause instanceof Error && "code" in cause ? ` (${String(cause.code)})` : "";
    throw new Error(`Cannot read ${path}${code}. Create the file, or change or unset ${setting}.`, {
      cause,
    });
  }
}

/** Merges the models file into the built-in models. Throws if an entry is incomplete or refers to an unknown model. */
export function mergeModels(
  builtIn: readonly Model[],
  file: ModelsFile,
  now: number,
  readKey: ReadKey = readKeyFile,
): Catalog {
  const models = new Map(builtIn.map((model) => [model.id, model]));
  const errors: string[] = [];
  for (const [index, entry] of file.models.entries()) {
    const merged = mergeModel(models, entry, file, now);
    if (typeof merged === "string") errors.push(`  models[${index}]: ${merged}`);
    else models.set(merged.id, merged);
  }
  const providers = new Set([...models.values()].map(({ provider }) => provider));
  const credentials: CatalogCredential[] = [];
  for (const [index, entry] of file.credentials.entries()) {
    const credential = providers.has(entry.provider)
      ? toCredential(entry, readKey)
      : `the provider "${entry.provider}" has no models`;
    if (typeof credential === "string") errors.push(`  credentials[${index}]: ${credential}`);
    else credentials.push(credential);
  }
  if (errors.length > 0) throw new Error(`The models file is not valid:\n${errors.join("\n")}`);
  // A hidden model keeps its price, because another model may answer under its name.
  for (const model of models.values()) {
    if (isHidden(file.hide, model.id)) models.set(model.id, { ...model, retired: true });
  }
  return catalogOf([...models.values()], file.providers, credentials);
}

type ReadKey = (keyFile: string) => string;

/** As sent in a header. */
const API_KEY = /^[\x21-\x7e]+$/;

/** A text says what is wrong with the entry. */
function toCredential(
  { provider, name, weight, api_key_env, api_key_file }: OperatorCredential,
  readKey: ReadKey,
): CatalogCredential | string {
  if (api_key_file === undefined)
    return { provider, name, weight, keyVariable: api_key_env, apiKey: undefined };
  try {
    const key = readKey(api_key_file).trim();
    return API_KEY.test(key)
      ? { provider, name, weight, keyVariable: undefined, apiKey: secret(key) }
      : `${api_key_file} must hold one API key and nothing else`;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

function mergeModel(
  models: ReadonlyMap<string, Model>,
  entry: OperatorModel,
  file: ModelsFile,
  now: number,
): Model | string {
  const base = models.get(entry.id) ?? blankModel(entry.id);
  const pricedLike = entry.priced_like === undefined ? base : models.get(entry.priced_like);
  if (pricedLike === undefined)
    return `\`priced_like\` is "${entry.priced_like}", which is not in the catalog`;
  const wires = entry.wires ?? wiresFor(base, file);
  if (wires.length === 0)
    return `the provider "${base.provider}" is unknown; add it to \`providers\``;
  const kinds = new Set(wires.map(kindOfWire));
  const kind = entry.kind ?? (kinds.size === 1 ? kindOfWire(wires[0] ?? "") : base.kind);
  const modelWires = wires.filter((wire) => kindOfWire(wire) === kind);
  const model = { ...withOverrides(base, entry), kind, wires: modelWires, retired: false };
  if (entry.pricing === undefined) {
    return pricedLike.prices.length === 0
      ? "a new model needs `pricing` or `priced_like`"
      : { ...model, prices: pricedLike.prices };
  }
  return {
    ...model,
    prices: [entry.pricing].flat().map(datedCard),
    source: OPERATOR_SOURCE,
    checked: utcDay(now),
  };
}

function withOverrides(base: Model, entry: OperatorModel): Model {
  return {
    ...base,
    name: entry.name ?? base.name,
    title: entry.title ?? base.title,
    contextLength: entry.context_length === undefined ? base.contextLength : entry.context_length,
    maxOutputTokens:
      entry.max_output_tokens === undefined ? base.maxOutputTokens : entry.max_output_tokens,
    inputModalities: entry.input_modalities ?? base.inputModalities,
    outputModalities: entry.output_modalities ?? base.outputModalities,
    supported: entry.supported ?? base.supported,
    aliases: entry.aliases ?? base.aliases,
    ...(entry.same_as === undefined ? {} : { sameAs: entry.same_as }),
  };
}

function wiresFor(model: Model, file: ModelsFile): readonly Wire[] {
  if (model.wires.length > 0) return model.wires;
  return (
    file.providers.find(({ id }) => id === model.provider)?.wires ??
    wiresOf(model.provider, model.name)
  );
}
