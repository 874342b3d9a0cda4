// Converse serves models of many vendors; parameters without a Converse field go in each vendor's own form.
import type { Target } from "../../../canonical/wire.ts";

export type ModelFamily = "claude" | "nova" | "gpt-oss" | "mistral" | "other";

const FAMILY_NAMES: readonly (readonly [string, ModelFamily])[] = [
  ["claude", "claude"],
  ["nova", "nova"],
  ["gpt-oss", "gpt-oss"],
  ["mistral", "mistral"],
];
const MINOR_VERSION_MAX = 100;

export function familyOf({ model }: Target): ModelFamily {
  return FAMILY_NAMES.find(([name]) => model.includes(name))?.[1] ?? "other";
}

/** How the model's reasoning is configured if the catalog does not say. Claude: by effort from 4.6, by budget from 3.7. */
export function reasoningControl(target: Target): "effort" | "budget" | "none" {
  if (target.abilities?.reasoning !== undefined) return target.abilities.reasoning;
  const family = familyOf(target);
  if (family === "gpt-oss") return "effort";
  if (family === "nova") return target.model.includes("nova-2") ? "effort" : "none";
  if (family !== "claude") return "none";
  const version = claudeVersion(target.model);
  if (version === undefined || version >= 4.6) return "effort";
  return version >= 3.7 ? "budget" : "none";
}

/** Whether the model takes `disable_parallel_tool_use`: Claude from 4.5. */
export function acceptsSingleCall(target: Target): boolean {
  if (familyOf(target) !== "claude") return false;
  const version = claudeVersion(target.model);
  return version === undefined || version >= 4.5;
}

// claude-3-7-sonnet-20250219, claude-sonnet-4-20250514, claude-opus-4-8: the date is not part of the version.
function claudeVersion(model: string): number | undefined {
  const found = /claude-(?:[a-z]+-)?(\d+)(?:-(\d+))?/.exec(model);
  if (found === null) return undefined;
  const minor = Number(found[2] ?? 0);
  return Number(found[1]) + (minor < MINOR_VERSION_MAX ? minor / 10 : 0);
}
