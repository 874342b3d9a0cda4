// What each model supports, for the wires that write requests to it.

import { type Abilities, findAbilities } from "@postern/wires";
import type { Model } from "../../models/catalog.ts";
import { PROVIDERS } from "../providers/providers.ts";

const BUILT_IN_PROVIDERS: ReadonlySet<string> = new Set(PROVIDERS.map(({ id }) => id));

/** By model of a catalog: several stages of a call ask for them. */
const known = new WeakMap<Model, Abilities>();

export function abilitiesOf(model: Model): Abilities {
  const cached = known.get(model);
  if (cached !== undefined) return cached;
  const { provider, name, wires, supported } = model;
  const isDeclared = !BUILT_IN_PROVIDERS.has(provider);
  const found = findAbilities({ provider, name, wires, supported, isDeclared });
  known.set(model, found);
  return found;
}
