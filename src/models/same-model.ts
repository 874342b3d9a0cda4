// Which models of different providers are the same weights. Each model has a family: its name without what a provider
// added to it. The families of a catalog are worked out once, when somebody asks.

import { cardAt } from "./card.ts";
import type { Catalog, Model } from "./catalog.ts";
import { DECLARED, MAKERS, MOVING, NAME_RULES } from "./tables/same-models.ts";

interface Families {
  /** By the id of a model. */
  readonly of: ReadonlyMap<string, string>;
  readonly members: ReadonlyMap<string, readonly Model[]>;
}

/** The blend of prices by which models are compared: agents read about three tokens for each that they write. */
const INPUT_PARTS = 3n;

const known = new WeakMap<Catalog, Families>();

/** The model at every provider that has it, one each: itself first, then its maker's, then the cheaper before the dearer. */
export function sameModels(catalog: Catalog, model: Model, now: number): readonly Model[] {
  const families = familiesOf(catalog);
  const family = families.of.get(model.id);
  const members = family === undefined ? [] : (families.members.get(family) ?? []);
  return onePerProvider([model, ...inOrder(members, now)]);
}

/** The models that a name without a provider means, at each provider that has it; none where nobody has it. */
export function modelsNamed(catalog: Catalog, name: string, now: number): readonly Model[] {
  const members = familiesOf(catalog).members.get(nameLeft("", name)) ?? [];
  return onePerProvider(inOrder(members, now));
}

/** List prices of a model in one number, in pico-USD; undefined where it has none. */
export function blendedPrice(model: Model, now: number): bigint | undefined {
  const base = cardAt(model.prices, now)?.base;
  return base?.input === undefined ? undefined : base.input * INPUT_PARTS + (base.output ?? 0n);
}

function familiesOf(catalog: Catalog): Families {
  const ready = known.get(catalog);
  if (ready !== undefined) return ready;
  const of = new Map<string, string>();
  const members = new Map<string, Model[]>();
  const named = new Set(catalog.models.flatMap(({ sameAs }) => sameAs?.toLowerCase() ?? []));
  for (const model of catalog.models) {
    const family = familyOf(catalog, model, named);
    if (family === undefined) continue;
    of.set(model.id, family);
    const others = members.get(family);
    if (others === undefined) members.set(family, [model]);
    else others.push(model);
  }
  const families = { of, members };
  known.set(catalog, families);
  return families;
}

// A model that the operator declares is nobody's twin unless the operator says so.
function familyOf(catalog: Catalog, model: Model, named: ReadonlySet<string>): string | undefined {
  const { id, name, sameAs } = model;
  if (sameAs !== undefined) return declaredFamily(catalog, sameAs);
  if (isApart(catalog, model)) return named.has(id.toLowerCase()) ? id.toLowerCase() : undefined;
  return MOVING.test(name) ? undefined : ownFamily(catalog, model);
}

function declaredFamily(catalog: Catalog, sameAs: string): string {
  const other = catalog.byName.get(sameAs.toLowerCase());
  return other === undefined ? nameLeft("", sameAs) : ownFamily(catalog, other);
}

function ownFamily(catalog: Catalog, model: Model): string {
  const { id, provider, name } = model;
  return isApart(catalog, model) ? id.toLowerCase() : (DECLARED[id] ?? nameLeft(provider, name));
}

function isApart(catalog: Catalog, { provider, simulated }: Model): boolean {
  return simulated || catalog.providers.some(({ id }) => id === provider);
}

function nameLeft(provider: string, name: string): string {
  let left = name;
  for (const rule of NAME_RULES)
    if (rule.providers.length === 0 || rule.providers.includes(provider))
      left = left.replace(rule.find, rule.put);
  return left.toLowerCase();
}

function inOrder(models: readonly Model[], now: number): readonly Model[] {
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
