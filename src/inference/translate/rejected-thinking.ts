// Settings of Claude's thinking that a model rejects even on its own API. They are sent as written first, because a client recovers
// from the provider's own error; the adapted request follows a rejection, so that a call which changes only `model` is answered.

import { isObject, type JsonObject } from "../../base/json.ts";
import type { Model } from "../../models/catalog.ts";
import { abilitiesOf } from "./abilities.ts";
import type { AdaptedFields } from "./rewrite-request.ts";

/** How providers reject a setting of thinking. */
export const THINKING_REJECTED = /thinking/i;

/** Undefined if the model takes the field as it is. */
export function adaptThinking({ thinking }: JsonObject, model: Model): AdaptedFields | undefined {
  if (!isObject(thinking)) return undefined;
  const { type, budget_tokens: _budget, ...rest } = thinking;
  if (type !== "disabled" && type !== "enabled") return undefined;
  const { thinkingOff, thinkingBudget } = abilitiesOf(model);
  if (type === "enabled")
    return thinkingBudget === false
      ? {
          members: { thinking: JSON.stringify({ ...rest, type: "adaptive" }) },
          dropped: ["thinking.budget_tokens"],
        }
      : undefined;
  if (thinkingOff === undefined) return undefined;
  const text = thinkingOff === "never" ? undefined : JSON.stringify({ type: thinkingOff });
  return { members: { thinking: text }, dropped: ["thinking"] };
}
