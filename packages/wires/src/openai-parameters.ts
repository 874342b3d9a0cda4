import {
  addFieldLoss,
  addToleratedLoss,
  fieldPath,
  type Loss,
} from "./canonical/canonical-losses.ts";
import type { CanonicalRequest, Effort } from "./canonical/canonical-request.ts";
import { budgetToEffort, clampEffort } from "./canonical/reasoning-blobs.ts";
import type { Abilities, Target } from "./canonical/wire-interfaces.ts";
// Request parameters that Chat Completions and Responses have in the same form.
import { type JsonObject, mustBeString, optionalObject } from "./json-fields.ts";

export function readMetadata(value: unknown): Readonly<Record<string, string>> | undefined {
  const object = optionalObject(value, "metadata");
  if (object === undefined || Object.keys(object).length === 0) return undefined;
  const metadata: Record<string, string> = {};
  for (const key in object) metadata[key] = mustBeString(object[key], `metadata.${key}`);
  return metadata;
}

export function writeCacheKey(
  request: CanonicalRequest,
  { abilities }: Target,
  losses: Loss[],
): string | undefined {
  const { cache, cacheKey } = request;
  const reason = "This provider caches automatically.";
  if (cache !== undefined) addToleratedLoss(losses, fieldPath(request, "cache"), reason);
  if (abilities?.openaiFields !== false) return cacheKey;
  if (cacheKey !== undefined) addToleratedLoss(losses, fieldPath(request, "cacheKey"), reason);
  return undefined;
}

/** Whether the model takes `temperature` and `top_p` with the effort that is sent. */
export function canSample(
  { sampling = true, reasonsOnRequest }: Abilities,
  effort: Effort | undefined,
): boolean {
  if (sampling !== "without_reasoning") return sampling;
  return effort === "none" || (effort === undefined && reasonsOnRequest === true);
}

/** `temperature` and `top_p`, if the model takes them. The value 1 is every model's default and no loss. */
export function writeRandomness(
  request: CanonicalRequest,
  target: Target,
  effort: Effort | undefined,
  losses: Loss[],
): JsonObject {
  const { temperature, topP } = request;
  if (canSample(target.abilities ?? {}, effort)) return { temperature, top_p: topP };
  const reason =
    target.abilities?.sampling === "without_reasoning"
      ? "This model supports it only with the effort `none`."
      : "This model does not support this parameter.";
  for (const field of ["temperature", "topP"] as const)
    if ((request[field] ?? 1) !== 1) addFieldLoss(losses, request, field, reason);
  return {};
}

/** The effort to send for the caller's effort or budget. */
export function writeEffort(
  request: CanonicalRequest,
  { abilities = {} }: Target,
  losses: Loss[],
): Effort | undefined {
  const { effort, budgetTokens, mode } = request.reasoning ?? {};
  const budgetEffort = budgetTokens === undefined ? undefined : budgetToEffort(budgetTokens);
  const wanted = mode === "off" ? "none" : (effort ?? budgetEffort);
  if (wanted === undefined) return undefined;
  if (abilities.reasoning === "none") {
    if (wanted !== "none")
      addFieldLoss(losses, request, "reasoning", "This model's reasoning cannot be configured.");
    return undefined;
  }
  const used = clampEffort(wanted, abilities.efforts);
  if (used !== wanted) {
    const reason = `This model does not support the effort ${wanted}; ${used} is used instead.`;
    addToleratedLoss(losses, fieldPath(request, "reasoning"), reason);
  }
  return used;
}
