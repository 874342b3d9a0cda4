// The legs of a call: the candidates with what each may cost. What is held is the dearest of those that may have to be
// paid for; what is charged is the leg that answered.

import { Fault } from "../base/fault.ts";
import type { Catalog } from "../models/catalog.ts";
import type { Ask } from "./ask.ts";
import type { Candidate } from "./candidates.ts";
import { type Quote, quoteOf } from "./quote.ts";

export interface Leg {
  readonly candidate: Candidate;
  readonly quote: Quote;
}

export function legsOf(
  ask: Ask,
  candidates: readonly [Candidate, ...Candidate[]],
  parts: { readonly catalog: Catalog; readonly now: number },
): readonly [Leg, ...Leg[]] {
  let refusal: Fault | undefined;
  const legs: Leg[] = [];
  for (const candidate of candidates) {
    try {
      const { model, credential } = candidate;
      const { provider, byok } = credential;
      legs.push({ candidate, quote: quoteOf(ask, model, provider, { ...parts, byok }) });
    } catch (error) {
      // What has no price at one provider may have one at the next.
      if (!(error instanceof Fault)) throw error;
      refusal ??= error;
    }
  }
  if (!isSome(legs)) throw refusal ?? new Error("a call without a leg");
  return legs;
}

function isSome(legs: readonly Leg[]): legs is readonly [Leg, ...Leg[]] {
  return legs.length > 0;
}

/** What is to be held for these legs: enough for any of them. */
export function dearestOf(legs: readonly [Leg, ...Leg[]]): Quote {
  const [{ quote: first }, ...others] = legs;
  if (others.length === 0) return first;
  let dearest = first;
  let least = first.minimum ?? first.amount;
  for (const { quote } of others) {
    if (quote.amount > dearest.amount) dearest = quote;
    const minimum = quote.minimum ?? quote.amount;
    if (minimum > least) least = minimum;
  }
  const isOpen = legs.some(({ quote }) => quote.minimum !== undefined);
  return { ...dearest, minimum: isOpen && least < dearest.amount ? least : dearest.minimum };
}

/** A provider's failure that another provider, or another account there, might not have. The caller's own fault is not one. */
export function mayFallOver(fault: Fault): boolean {
  return fault.status === 429 || fault.status >= 500 || isMissing(fault);
}

// Some say 400 where a model is not there: OpenAI on its Responses wire, Mistral, Bedrock.
function isMissing({ code, status, options, publicMessage }: Fault): boolean {
  if (code === "model_not_found") return true;
  return (
    status === 400 &&
    (/^(model_not_found|invalid_model)$/.test(String(options.fields?.["provider_code"])) ||
      publicMessage.includes("model identifier is invalid"))
  );
}
