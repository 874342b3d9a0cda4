// Candidates with their cost estimates. The hold covers the most expensive candidate; the charge is that of the candidate
// that answered.

import { Fault } from "../../base/fault.ts";
import type { Nano } from "../../base/money/money.ts";
import type { Catalog } from "../../models/catalog.ts";
import { type CostEstimate, estimateCost } from "../metering/cost-estimate.ts";
import type { ParsedRequest } from "../request/parse-request.ts";
import type { Candidate, Candidates } from "./candidates.ts";

export interface PricedCandidate {
  readonly candidate: Candidate;
  readonly estimate: CostEstimate;
}

export type PricedCandidates = readonly [PricedCandidate, ...PricedCandidate[]];

interface Unpriced {
  readonly request: ParsedRequest;
  readonly candidates: Candidates;
  readonly catalog: Catalog;
  readonly pricedAt: number;
  /** The provider of the first candidate runs the call as a part of one of its batches. */
  readonly isBatch?: boolean;
}

export function priceCandidates(routed: Unpriced): PricedCandidates {
  const { request, candidates, catalog, pricedAt: now, isBatch } = routed;
  let firstFault: Fault | undefined;
  const priced: PricedCandidate[] = [];
  for (const candidate of candidates) {
    try {
      const { model, credential } = candidate;
      const { provider, byok } = credential;
      const previous = priced.at(-1);
      // The gateway's keys at a provider have one price.
      const estimate =
        previous !== undefined && isPricedAs(candidate, previous.candidate)
          ? previous.estimate
          : estimateCost(request, model, provider, { catalog, now, byok, isBatch });
      priced.push({ candidate, estimate });
    } catch (error) {
      // A feature without a price at one provider may have one at the next.
      if (!(error instanceof Fault)) throw error;
      firstFault ??= error;
    }
  }
  if (!isNonEmpty(priced)) throw firstFault ?? new Error("no candidates to price");
  return priced;
}

function isPricedAs(one: Candidate, other: Candidate): boolean {
  return one.model === other.model && one.credential.byok === other.credential.byok;
}

function isNonEmpty(priced: readonly PricedCandidate[]): priced is PricedCandidates {
  return priced.length > 0;
}

/** The estimate to hold for these candidates: enough for any of them. */
export function mostExpensive(candidates: PricedCandidates): CostEstimate {
  const [{ estimate: first }, ...others] = candidates;
  if (others.length === 0) return first;
  let highest = first;
  let highestMinimum = first.minimum ?? first.amount;
  for (const { estimate } of others) {
    if (estimate.amount > highest.amount) highest = estimate;
    const minimum = estimate.minimum ?? estimate.amount;
    if (minimum > highestMinimum) highestMinimum = minimum;
  }
  const least = candidates.map(({ estimate }) => payingMinimumOf(estimate));
  const payingMinimum = least.reduce((most, one) => (one > most ? one : most));
  const hasMinimum = candidates.some(({ estimate }) => estimate.minimum !== undefined);
  return {
    ...highest,
    minimum: hasMinimum && highestMinimum < highest.amount ? highestMinimum : highest.minimum,
    payingMinimum,
  };
}

function payingMinimumOf({ payingMinimum, minimum, amount }: CostEstimate): Nano {
  return payingMinimum ?? minimum ?? amount;
}

/** True for failures that another provider or account might not have; false for errors in the caller's request. */
export function isFallbackable(fault: Fault): boolean {
  return fault.status === 429 || fault.status >= 500 || isModelMissing(fault);
}

// Some providers return 400 for a missing model: OpenAI on its Responses API, Mistral, Bedrock.
function isModelMissing({ code, status, options, publicMessage }: Fault): boolean {
  if (code === "model_not_found") return true;
  return (
    status === 400 &&
    (/^(model_not_found|invalid_model)$/.test(String(options.fields?.["provider_code"])) ||
      publicMessage.includes("model identifier is invalid"))
  );
}
