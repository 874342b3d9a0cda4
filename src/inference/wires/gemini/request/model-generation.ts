// What a model's name says where nothing else is known of it.
import type { Target } from "../../../canonical/wire.ts";

const LATEST_GENERATION = 3;

/** 2.5 for gemini-2.5-flash. `gemini-flash-latest` is of the newest; a model of another family (Gemma) is of none: 0. */
function generationOf(model: string): number {
  const named = /gemini-(\d+(?:\.\d+)?)/.exec(model)?.[1];
  if (named !== undefined) return Number(named);
  return model.includes("gemini") ? LATEST_GENERATION : 0;
}

/** How reasoning is asked for: a level since generation 3, a budget of tokens in 2.5, nothing before. */
export function reasoningControl({ abilities, model }: Target): "effort" | "budget" | "none" {
  if (abilities?.reasoning !== undefined) return abilities.reasoning;
  const generation = generationOf(model);
  if (generation >= LATEST_GENERATION) return "effort";
  return generation >= 2.5 ? "budget" : "none";
}

/** Calls have ids, a call of a step must carry a signature, results hold media, and JSON output goes with tools. */
export function isThirdGeneration({ model }: Target): boolean {
  return generationOf(model) >= LATEST_GENERATION;
}
