// Finds models of different providers that are the same weights. Such models share a family: the model's name without what
// a provider adds to it. The families of a catalog are computed on first use and cached.

import type { Catalog, Model } from "./catalog.ts";
import { cardAt } from "./price-card.ts";
import { FAMILY_BY_ID, MAKERS, FLOATING_NAMES, NAME_RULES } from "./tables/same-models.ts";

interface Families {
  /** By the id of a model. */
  readonly byModelId: ReadonlyMap<string, string>;
  readonly members: ReadonlyMap<string, readonly Model[]>;
}

/** Models are compared by a blended price: agents read about three tokens for each one generated. */
const INPUT_WEIGHT = 3n;

const familyCache = new WeakMap<Catalog, Families>();

/** The same model at every provider, one each: the given one first, then its maker's, then by price. */
export function sameModels(catalog: Catalog, model: Model, now: number): readonly Model[] {
  const families = familiesOf(catalog);
  const family = families.byModelId.get(model.id);
  const members = family === undefined ? [] : (families.members.get(family) ?? []);
  return onePerProvider([model, ...sortByPreference(members, now)]);
}

/** The models that a name without a provider refers to, one per provider. */
export function modelsNamed(catalog: Catalog, name: string, now: number): readonly Model[] {
  const members = familiesOf(catalog).members.get(baseName("", name)) ?? [];
  return onePerProvider(sortByPreference(members, now));
}

/** Input and output list price combined, in pico-USD; undefined without an input price. */
export function blendedPrice(model: Model, now: number): bigint | undefined {
  const base = cardAt(model.prices, now)?.base;
  return base?.input === undefined ? undefined : base.input * INPUT_WEIGHT + (base.output ?? 0n);
}

function familiesOf(catalog: Catalog): Families {
  const cached = familyCache.get(catalog);
  if (cached !== undefined) return cached;
  const byModelId = new Map<string, string>();
  const members = new Map<string, Model[]>();
  const referencedNames = new Set(
    catalog.models.flatMap(({ sameAs }) => sameAs?.toLowerCase() ?? []),
  );
  for (const model of catalog.models) {
    const family = familyOf(catalog, model, referencedNames);
    if (family === undefined) continue;
    byModelId.set(model.id, family);
    const familyMembers = members.get(family);
    if (familyMembers === undefined) members.set(family, [model]);
    else familyMembers.push(model);
  }
  const families = { byModelId, members };
  familyCache.set(catalog, families);
  return families;
}

// An operator's own model shares a family only if the models file says so (`same_as`).
function familyOf(
  catalog: Catalog,
  model: Model,
  referencedNames: ReadonlySet<string>,
): string | undefined {
  const { id, name, sameAs } = model;
  if (sameAs !== undefined) return declaredFamily(catalog, sameAs);
  if (hasOwnFamily(catalog, model))
    return referencedNames.has(id.toLowerCase()) ? id.toLowerCase() : undefined;
  return FLOATING_NAMES.test(name) ? undefined : familyByName(catalog, model);
}

function declaredFamily(catalog: Catalog, sameAs: string): string {
  const other = catalog.byName.get(sameAs.toLowerCase());
  return other === undefined ? baseName("", sameAs) : familyByName(catalog, other);
}

function familyByName(catalog: Catalog, model: Model): string {
  const { id, provider, name } = model;
  return hasOwnFamily(catalog, model)
    ? id.toLowerCase()
    : (FAMILY_BY_ID[id] ?? baseName(provider, name));
}

function hasOwnFamily(catalog: Catalog, { provider, simulated }: Model): boolean {
  return simulated || catalog.providers.some(({ id }) => id === provider);
}

function baseName(provider: string, name: string): string {
  let result = name;
  for (const rule of NAME_RULES)
    if (rule.providers.length === 0 || rule.providers.includes(provider))
      result = result.replace(rule.pattern, rule.replacement);
  return result.toLowerCase();
}

function sortByPreference(models: readonly Model[], now: number): readonly Model[] {
  return models.toSorted((left, right) => {
    const makers = Number(isMaker(right)) - Number(isMaker(left));
    if (makers !== 0) return makers;
    const [leftPrice, rightPrice] = [blendedPrice(left, now), blendedPrice(right, now)];
    if (leftPrice !== rightPrice) return (leftPrice ?? 0n) < (rightPrice ?? 0n) ? -1 : 1;
    return left.id < right.id ? -1 : 1;
  });
}

function isMaker({ provider }: Model): boolean {
  return MAKERS.some((maker) => maker === provider);
}

function onePerProvider(models: readonly Model[]): readonly Model[] {
  const seen = new Set<string>();
  return models.filter(({ provider }) => !seen.has(provider) && seen.add(provider));
}
