// The scalar fields of Converse requests.

import { addFieldLoss } from "../../canonical/canonical-losses.ts";
import type { RequestField } from "../../canonical/canonical-request.ts";
import { claudeSampling, MISSING_AT_CLAUDE, nonBlankStops } from "../../claude-parameters.ts";
import type { JsonObject } from "../../json-fields.ts";
import {
  missing,
  type ScalarField,
  tierOf,
  tolerated,
  type WriteContext,
  written,
} from "../../scalar-fields.ts";
import { familyOf } from "./converse-model-family.ts";

const NO_USER = tolerated("This provider does not accept an end-user ID.");
const TIER = tierOf({
  auto: undefined,
  default: { type: "default" },
  flex: { type: "flex" },
  priority: { type: "priority" },
  reserved: { type: "reserved" },
});

export const CONVERSE_FIELDS: readonly ScalarField[] = [
  ...MISSING_AT_CLAUDE,
  missing("user", NO_USER),
  missing("safetyIdentifier", NO_USER),
  written("topK", "additionalModelRequestFields", topKOfFamily),
  written("temperature", "inferenceConfig.temperature", claudeSampling),
  written("topP", "inferenceConfig.topP", claudeSampling),
  written("stop", "inferenceConfig.stopSequences", nonBlankStops),
  written("metadata", "requestMetadata"),
  written("serviceTier", "serviceTier", TIER),
];

function topKOfFamily(
  value: number,
  context: WriteContext,
  field: RequestField,
): JsonObject | undefined {
  const topK = claudeSampling(value, context, field);
  if (topK === undefined) return undefined;
  const { request, target, losses } = context;
  switch (familyOf(target)) {
    case "claude":
    case "mistral":
      return { top_k: topK };
    case "nova":
      return { inferenceConfig: { topK } };
    case "other":
      return addFieldLoss(losses, request, field, "This model does not support `top_k`.");
  }
}
