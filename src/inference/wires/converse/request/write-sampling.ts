import type { CanonicalRequest } from "../../../canonical/request.ts";
import { type Loss, addFieldLoss } from "../../../canonical/loss.ts";
import type { JsonObject } from "../../../../base/json.ts";
import type { Target } from "../../../canonical/wire.ts";
import { familyOf } from "./model-family.ts";

const TOP_P_MIN_THINKING = 0.95;

export interface WrittenSampling {
  /** Of `inferenceConfig`. */
  readonly inferenceConfig: JsonObject;
  /** Of `additionalModelRequestFields`. */
  readonly additionalFields: JsonObject | undefined;
}

type SamplingField = "temperature" | "topP" | "topK";

export function writeSampling(
  request: CanonicalRequest,
  target: Target,
  thinks: boolean,
  losses: Loss[],
): WrittenSampling {
  const settable = target.abilities?.sampling !== false;
  const refused = settable
    ? "This model takes it only without thinking."
    : "This model takes no such setting.";
  const keep = (field: SamplingField, taken: boolean): number | undefined => {
    const value = request[field];
    if (value === undefined || taken) return value;
    if (field === "topK" || value !== 1) addFieldLoss(losses, request, field, refused);
    return undefined;
  };
  const hot = (request.temperature ?? 0) > 1;
  if (hot) addFieldLoss(losses, request, "temperature", "This provider's temperature ends at 1.");
  const topK = keep("topK", settable && !thinks);
  return {
    inferenceConfig: {
      temperature: hot ? undefined : keep("temperature", settable && !thinks),
      topP: keep("topP", settable && (!thinks || (request.topP ?? 0) >= TOP_P_MIN_THINKING)),
      stopSequences: writeStops(request, losses),
    },
    additionalFields: topK === undefined ? undefined : writeTopK(topK, request, target, losses),
  };
}

function writeStops(request: CanonicalRequest, losses: Loss[]): readonly string[] | undefined {
  const kept = request.stop?.filter((one) => one.trim() !== "");
  if (kept?.length !== request.stop?.length)
    addFieldLoss(
      losses,
      request,
      "stop",
      "This provider takes no stop sequence of white space alone.",
    );
  return kept === undefined || kept.length === 0 ? undefined : kept;
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
    case "gpt-oss":
    case "other":
      addFieldLoss(losses, request, "topK", "This model has no top_k.");
      return undefined;
  }
}
