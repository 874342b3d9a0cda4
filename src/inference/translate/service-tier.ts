// Service tiers that a model has no price for. `flex` and `priority` only trade speed against price, so the call is sent without
// them, at the standard price, and the field is listed as dropped.

import { API_TRAITS } from "@postern/wires";
import { cardAt } from "../../models/price-card.ts";
import { isHintTier, isPriced } from "../../models/price.ts";
import type { PlanInput } from "./transport-plan.ts";

/** The field of the tier, if the call is sent without it. */
export function droppedTier({ request, candidate, now }: PlanInput): readonly string[] {
  const { api, serviceTier } = request;
  if (serviceTier === undefined || candidate.credential.byok || !isHintTier(serviceTier)) return [];
  const card = cardAt(candidate.model.prices, now);
  const isDropped = card !== undefined && !isPriced(card, { serviceTier });
  return isDropped ? [API_TRAITS[api].serviceTierField] : [];
}
