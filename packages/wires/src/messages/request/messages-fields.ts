// The scalar fields of Messages requests.

import { addFieldLoss } from "../../canonical/canonical-losses.ts";
import { claudeSampling, MISSING_AT_CLAUDE, nonBlankStops } from "../../claude-parameters.ts";
import { optionalOneOf, optionalString } from "../../json-fields.ts";
import {
  byRule,
  flag,
  integerFrom,
  knownFields,
  knownMembers,
  missing,
  numberFrom,
  scalar,
  type ScalarField,
  stopList,
  tierOf,
  TOKENS_MAX,
  type WriteContext,
  written,
} from "../../scalar-fields.ts";

const TIER = tierOf({ auto: "auto", default: "standard_only" });

export const MESSAGES_FIELDS: readonly ScalarField[] = [
  ...MISSING_AT_CLAUDE,
  missing("metadata"),
  scalar("parallelToolCalls", "tool_choice.disable_parallel_tool_use", notFlag, byRule),
  scalar("maxOutputTokens", "max_tokens", integerFrom(1, TOKENS_MAX), byRule),
  scalar("temperature", "temperature", numberFrom(0, 1), claudeSampling),
  scalar("topP", "top_p", numberFrom(0, 1), claudeSampling),
  scalar("topK", "top_k", integerFrom(0, 1_000_000), claudeSampling),
  scalar("stop", "stop_sequences", stopList, nonBlankStops),
  scalar("serviceTier", "service_tier", readTier, TIER),
  scalar("user", "metadata.user_id", optionalString),
  written("safetyIdentifier", "metadata.user_id", onlyUser),
];

export const KNOWN_MESSAGES_FIELDS = knownFields(
  MESSAGES_FIELDS,
  "model messages system stream tools tool_choice output_config output_format thinking cache_control",
);
export const METADATA_FIELDS = knownMembers(MESSAGES_FIELDS, "metadata");

function notFlag(value: unknown, path: string): boolean | undefined {
  const read = flag(value, path);
  return read === undefined ? undefined : !read;
}

function readTier(value: unknown, path: string): string | undefined {
  const tier = optionalOneOf(value, path, ["auto", "standard_only"]);
  return tier === "standard_only" ? "default" : tier;
}

/** In place of `user`. */
function onlyUser(id: string, { request, losses }: WriteContext): string | undefined {
  const { user } = request;
  const reason = "This provider accepts only one end-user ID, and `user` is set, too.";
  if (user !== undefined && user !== id) addFieldLoss(losses, request, "safetyIdentifier", reason);
  return user === undefined ? id : undefined;
}
