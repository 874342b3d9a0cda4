// The legs of a call: the candidates with what each may cost. What is held is the dearest of those that may have to be
// paid for; what is charged is the leg that answered.

import { Fault } from "../../base/fault.ts";
import type { Catalog } from "../../models/catalog.ts";
import type { ParsedRequest } from "../request/parse-request.ts";
import type { Candidate } from "./candidates.ts";
import { type CostEstimate, estimateCost } from "../metering/cost-estimate.ts";

export interface PricedCandidate {
  readonly candidate: Candidate;
  readonly estimate: CostEstimate;
}

export function priceCandidates(
  request: ParsedRequest,
  candidates: readonly [Candidate, ...Candidate[]],
  context: { readonly catalog: Catalog; readonly now: number },
): readonly [PricedCandidate, ...PricedCandidate[]] {
  let refusal: Fault | undefined;
  const priced: PricedCandidate[] = [];
  for (const candidate of candidates) {
    try {
      const { model, credential } = candidate;
      const { provider, byok } = credential;
      priced.push({
        candidate,
        estimate: estimateCost(request, model, provider, { ...context, byok }),
      });
    } catch (error) {
      // What has no price at one provider may have one at the next.
      if (!(error instanceof Fault)) throw error;
      refusal ??= error;
    }
  }
  if (!isNonEmpty(priced)) throw refusal ?? new Error("a call without a leg");
  return priced;
}

function isNonEmpty(
  priced: readonly PricedCandidate[],
): priced is readonly [PricedCandidate, ...PricedCandidate[]] {
  return priced.length > 0;
}

/** What is to be held for these legs: enough for any of them. */
export function mostExpensive(
  candidates: readonly [PricedCandidate, ...PricedCandidate[]],
): CostEstimate {
  const [{ estimate: first }, ...others] = candidates;
  if (others.length === 0) return first;
  let highest = first;
  let highestMinimum = first.minimum ?? first.amount;
  for (const { estimate } of others) {
    if (estimate.amount > highest.amount) highest = estimate;
    const minimum = estimate.minimum ?? estimate.amount;
    if (minimum > highestMinimum) highestMinimum = minimum;
  }
  const hasMinimum = candidates.some(({ estimate }) => estimate.minimum !== undefined);
  return {
    ...highest,
    minimum: hasMinimum && highestMinimum < highest.amount ? highestMinimum : highest.minimum,
  };
}

/** A provider's failure that another provider, or another account there, might not have. The caller's own fault is not one. */
export function isFallbackable(fault: Fault): boolean {
  return fault.status === 429 || fault.status >= 500 || isModelMissing(fault);
}

// Some say 400 where a model is not there: OpenAI on its Responses wire, Mistral, Bedrock.
function isModelMissing({ code, status, options, publicMessage }: Fault): boolean {
  if (code === "model_not_found") return true;
  return (
    status === 400 &&
    (/^(model_not_found|invalid_model)$/.test(String(options.fields?.["provider_code"])) ||
      publicMessage.includes("model identifier is invalid"))
  );
}
