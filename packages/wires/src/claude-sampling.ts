// Sampling parameters of providers that accept a smaller range, or only one of them.
import { addFieldLoss, type Loss } from "./canonical/canonical-losses.ts";
import type { CanonicalRequest } from "./canonical/canonical-request.ts";
import type { Target } from "./canonical/wire-interfaces.ts";

const TEMPERATURE_MAX = 1;

/** The greatest temperature that the provider accepts, if the caller's is above it. */
export function clampTemperature(
  temperature: number | undefined,
  request: CanonicalRequest,
  losses: Loss[],
): number | undefined {
  if (temperature === undefined || temperature <= TEMPERATURE_MAX) return temperature;
  const reason = `This provider's maximum temperature is ${TEMPERATURE_MAX}, which is used instead.`;
  addFieldLoss(losses, request, "temperature", reason);
  return TEMPERATURE_MAX;
}

/** Claude 4.1 to 4.6 reject a request with both parameters; the temperature is the one that callers set on purpose. */
export function dropSecondSampling(
  topP: number | undefined,
  request: CanonicalRequest,
  { abilities }: Target,
  losses: Loss[],
): number | undefined {
  if (topP === undefined || request.temperature === undefined) return topP;
  if (abilities?.singleSampling !== true) return topP;
  const reason = "This model accepts only one of `temperature` and `top_p`.";
  addFieldLoss(losses, request, "topP", reason);
  return undefined;
}
