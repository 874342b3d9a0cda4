// Converse serves models of many vendors; parameters without a Converse field go in each vendor's own form.

import type { Effort } from "../../canonical/canonical-request.ts";
import type { Target } from "../../canonical/wire-interfaces.ts";
import type { JsonObject } from "../../json-fields.ts";

type ModelFamily = "claude" | "nova" | "mistral" | "other";

const FAMILY_NAMES: readonly (readonly [string, ModelFamily])[] = [
  ["claude", "claude"],
  ["nova", "nova"],
  ["mistral", "mistral"],
];
const MINOR_VERSION_MAX = 100;

/** How models other than Claude take an effort in `additionalModelRequestFields`. */
interface EffortField {
  readonly match: RegExp;
  readonly efforts: readonly Effort[];
  readonly write: (effort: Effort) => JsonObject;
  /** The model reasons only on request, and has no value for "off". */
  readonly isOffByDefault?: true;
}

const writeReasoning = (effort: Effort): JsonObject => ({ reasoning: { effort } });
const writeReasoningConfig = (effort: Effort): JsonObject => ({ reasoning_config: effort });

// Each needs two sources, which docs/site/providers.md names. Other models reject unknown fields, or ignore them.
const EFFORT_FIELDS: readonly EffortField[] = [
  {
    // Nova accepts no output limit at higher efforts.
    match: /nova-2/,
    efforts: ["low", "medium"],
    write: (effort) => ({ reasoningConfig: { type: "enabled", maxReasoningEffort: effort } }),
    isOffByDefault: true,
  },
  {
    match: /gpt-oss/,
    efforts: ["low", "medium", "high"],
    write: (effort) => ({ reasoning_effort: effort }),
  },
  {
    match: /openai\.gpt-5\.[0-5]/,
    efforts: ["none", "low", "medium", "high", "xhigh"],
    write: writeReasoning,
  },
  {
    match: /openai\.gpt-6-astra/,
    efforts: ["low", "medium", "high", "xhigh", "max"],
    write: writeReasoning,
  },
  {
    match: /openai\.gpt-/,
    efforts: ["none", "low", "medium", "high", "xhigh", "max"],
    write: writeReasoning,
  },
  {
    match: /deepseek\.v3/,
    efforts: ["low", "medium", "high"],
    write: writeReasoningConfig,
    isOffByDefault: true,
  },
  // They accept lower efforts, but do not reason with them.
  {
    match: /kimi-k2|glm-(4\.7|5(?!\.))/,
    efforts: ["high"],
    write: writeReasoningConfig,
    isOffByDefault: true,
  },
];

export function effortFieldOf({ model }: Target): EffortField | undefined {
  return EFFORT_FIELDS.find(({ match }) => match.test(model));
}

/** Kimi K3 answers with an internal error if a request has its earlier reasoning, according to its model card. */
export function takesEarlierReasoning({ model }: Target): boolean {
  return !model.includes("kimi-k3");
}

export function familyOf({ model }: Target): ModelFamily {
  return FAMILY_NAMES.find(([name]) => model.includes(name))?.[1] ?? "other";
}

/** How the model's reasoning is configured if the catalog does not say. Claude: by effort from 4.6, by budget from 3.7. */
export function reasoningControl(target: Target): "effort" | "budget" | "none" {
  if (target.abilities?.reasoning !== undefined) return target.abilities.reasoning;
  if (familyOf(target) !== "claude") return effortFieldOf(target) === undefined ? "none" : "effort";
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
