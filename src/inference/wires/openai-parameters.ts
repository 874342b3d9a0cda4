// Request parameters that Chat Completions and Responses have in the same form.
import { type JsonObject, mustBeString, optionalObject } from "../../base/json.ts";
import { addFieldLoss, addToleratedLoss, fieldPath, type Loss } from "../canonical/loss.ts";
import { budgetToEffort, clampEffort } from "../canonical/reasoning.ts";
import type { CanonicalRequest, Effort, RequestField } from "../canonical/request.ts";
import type { Target } from "../canonical/wire.ts";

export function readMetadata(value: unknown): Readonly<Record<string, string>> | undefined {
  const object = optionalObject(value, "metadata");
  if (object === undefined || Object.keys(object).length === 0) return undefined;
  const metadata: Record<string, string> = {};
  for (const key in object) metadata[key] = mustBeString(object[key], `metadata.${key}`);
  return metadata;
}

/** Fields that only OpenAI accepts, by name; a loss at other providers unless they are false. */
export function writeOpenaiFields(
  names: readonly (readonly [RequestField, string])[],
  request: CanonicalRequest,
  { abilities }: Target,
  losses: Loss[],
): JsonObject {
  const fields: Record<string, unknown> = {};
  for (const [field, name] of names) {
    const value = request[field];
    if (value === undefined) continue;
    if (abilities?.openaiFields !== false) fields[name] = value;
    else if (value !== false)
      addFieldLoss(losses, request, field, "This provider does not support this parameter.");
  }
  return fields;
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
