// The data policy of a model at its provider, and whether it satisfies a caller's rules. Unknown satisfies none.

import type { DataRules } from "../base/data-rules.ts";
import type { Model } from "./catalog.ts";
import { DATA_POLICIES, type DataPolicyRow } from "./tables/data-policies.ts";

export type DataPolicy = Pick<
  DataPolicyRow,
  "retentionDays" | "training" | "region" | "checked"
> & { readonly source: string | null };

const UNKNOWN: DataPolicy = {
  retentionDays: null,
  training: null,
  region: null,
  source: null,
  checked: null,
};

export function dataPolicyOf(
  { provider, name }: Pick<Model, "provider" | "name">,
  zdrProviders?: ReadonlySet<string>,
): DataPolicy {
  const published =
    DATA_POLICIES.find((row) => row.provider === provider && (row.models?.test(name) ?? true)) ??
    UNKNOWN;
  const { retentionDays, training, region, source, checked } = published;
  const stated = { retentionDays, training, region, source, checked };
  return zdrProviders?.has(provider) === true
    ? { ...stated, retentionDays: 0, training: false, source: "the operator's agreement" }
    : stated;
}

/** The first rule that the policy does not satisfy. */
export function brokenRule(
  { retentionDays, training, region }: DataPolicy,
  rules: DataRules,
): keyof DataRules | undefined {
  if (rules.zdr === true && retentionDays !== 0) return "zdr";
  // What is not stored cannot be trained on.
  if (rules.data_collection === "deny" && training !== false && retentionDays !== 0)
    return "data_collection";
  return rules.region !== undefined && region !== rules.region ? "region" : undefined;
}
