// The features of a Gemini model by its generation, which its name contains, if the catalog does not list them.

import type { Target } from "../../canonical/wire-interfaces.ts";

const LATEST_GENERATION = 3;

/** 2.5 for gemini-2.5-flash, the latest for `gemini-flash-latest`, 0 for models of other families (Gemma). */
function generationOf(model: string): number {
  const version = /gemini-(\d+(?:\.\d+)?)/.exec(model)?.[1];
  if (version !== undefined) return Number(version);
  return model.includes("gemini") ? LATEST_GENERATION : 0;
}

/** How reasoning is configured: by level from generation 3, by token budget in 2.5, not at all before. */
export function reasoningControl({ abilities, model }: Target): "effort" | "budget" | "none" {
  if (abilities?.reasoning !== undefined) return abilities.reasoning;
  const generation = generationOf(model);
  if (generation >= LATEST_GENERATION) return "effort";
  return generation >= 2.5 ? "budget" : "none";
}

/** From generation 3, calls have ids and signatures, texts a signature after their end, tool results hold media, and JSON output works with tools. */
export function isGenerationThreeOrLater({ model }: Pick<Target, "model">): boolean {
  return generationOf(model) >= LATEST_GENERATION;
}
