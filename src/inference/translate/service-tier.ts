// Service tiers that a model has no price for. `flex` and `priority` only trade speed against price, so the call is sent without
// them, at the standard price, and the field is listed as dropped.

import { cardAt } from "../../models/price-card.ts";
import { isHintTier, isPriced } from "../../models/price.ts";
import type { PlanInput } from "./transport-plan.ts";

export const TIER_FIELD = "service_tier";

export function dropsTier({ request, candidate, now }: PlanInput): boolean {
  const { serviceTier } = request;
  if (serviceTier === undefined || candidate.credential.byok || !isHintTier(serviceTier))
    return false;
  const card = cardAt(candidate.model.prices, now);
  return card !== undefined && !isPriced(card, { serviceTier });
}
