import { addFieldLoss, type Loss } from "../../canonical/canonical-losses.ts";
import type { CanonicalRequest } from "../../canonical/canonical-request.ts";
import type { Target } from "../../canonical/wire-interfaces.ts";
import { clampTemperature, dropSecondSampling } from "../../claude-sampling.ts";
import type { JsonObject } from "../../json-fields.ts";
import { nonBlankStops } from "../../stop-sequences.ts";
import { familyOf } from "./converse-model-family.ts";

const TOP_P_MIN_THINKING = 0.95;

export interface WrittenSampling {
  /** Fields of `inferenceConfig`. */
  readonly inferenceConfig: JsonObject;
  /** Fields of `additionalModelRequestFields`. */
  readonly additionalFields: JsonObject | undefined;
}

type SamplingField = "temperature" | "topP" | "topK";

export function writeSampling(
  request: CanonicalRequest,
  target: Target,
  isThinking: boolean,
  losses: Loss[],
): WrittenSampling {
  const supportsSampling = target.abilities?.sampling !== false;
  const reason = supportsSampling
    ? "This model supports it only with reasoning off."
    : "This model does not support this parameter.";
  const keepIf = (isSupported: boolean, field: SamplingField): number | undefined => {
    const value = request[field];
    if (value === undefined || isSupported) return value;
    if (field === "topK" || value !== 1) addFieldLoss(losses, request, field, reason);
    return undefined;
  };
  const topK = keepIf(supportsSampling && !isThinking, "topK");
  return {
    inferenceConfig: {
      temperature: clampTemperature(
        keepIf(supportsSampling && !isThinking, "temperature"),
        request,
        losses,
      ),
      topP: dropSecondSampling(
        keepIf(
          supportsSampling && (!isThinking || (request.topP ?? 0) >= TOP_P_MIN_THINKING),
          "topP",
        ),
        request,
        target,
        losses,
      ),
      stopSequences: nonBlankStops(request, losses),
    },
    additionalFields: topK === undefined ? undefined : writeTopK(topK, request, target, losses),
  };
}

function writeTopK(
  topK: number,
  request: CanonicalRequest,
  target: Target,
  losses: Loss[],
): JsonObject | undefined {
  switch (familyOf(target)) {
    case "claude":
    case "mistral":
      return { top_k: topK };
    case "nova":
      return { inferenceConfig: { topK } };
    case "other":
      addFieldLoss(losses, request, "topK", "This model does not support `top_k`.");
      return undefined;
  }
}
