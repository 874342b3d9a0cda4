// Keeps a call from providers that may do more with its data than the request, its key, workspace or the operator allows. Without a provider
// that qualifies, the call is refused before anything is sent.

import { type DataRules, dataRulesOf, type OwnDataPolicy } from "../../base/data-rules.ts";
import { Fault } from "../../base/fault.ts";
import { isObject } from "../../base/json.ts";
import type { Caller } from "../../http/route.ts";
import type { Catalog, Model } from "../../models/catalog.ts";
import { brokenRule, dataPolicyOf } from "../../models/data-policy.ts";
import { sameModels } from "../../models/same-model.ts";
import type { ParsedRequest } from "../request/parse-request.ts";
import { gatewayToolsOf } from "../request/tool-bounds.ts";
import type { Candidate, Candidates } from "../routing/candidates.ts";
import { checkDataRules } from "../routing/routing-preferences.ts";

export interface DataPolicyDeps {
  readonly catalog: { readonly current: () => Catalog };
  readonly dataPolicy: OwnDataPolicy;
  readonly now: () => number;
}

/** Who set the rules: this decides the error and its next step. */
type Origin = "request" | "key" | "workspace" | "operator";

export function keepDataPolicy(
  candidates: Candidates,
  request: Pick<ParsedRequest, "json" | "fees" | "hasMcp">,
  caller: Caller,
  deps: DataPolicyDeps,
): Candidates {
  const { provider } = request.json;
  // Endpoints without other preferences have these, too.
  if (isObject(provider)) checkDataRules(provider);
  let kept = candidates;
  for (const [origin, rules] of rulesOf(request, caller, deps))
    if (rules !== undefined)
      kept = withoutGatewaySearch(keep(kept, { origin, rules }, deps), request, origin);
  return kept;
}

function rulesOf(
  { json }: Pick<ParsedRequest, "json">,
  { policy, dataPolicy }: Caller,
  { dataPolicy: own }: DataPolicyDeps,
): readonly (readonly [Origin, DataRules | undefined])[] {
  return [
    ["request", dataRulesOf(json["provider"])],
    ["key", policy?.dataPolicy],
    ["workspace", dataPolicy],
    ["operator", own.rules],
  ];
}

/** Whether the provider may run the call in a batch of its own. It stores batches, also where it agreed to store no calls. */
export function allowsBatch(
  model: Model,
  request: Pick<ParsedRequest, "json">,
  caller: Caller,
  deps: DataPolicyDeps,
): boolean {
  const stored = { ...dataPolicyOf(model), retentionDays: null };
  return rulesOf(request, caller, deps).every(
    ([, rules]) => rules === undefined || brokenRule(stored, rules) === undefined,
  );
}

/** The gateway sends searches to a search API of the operator's, and what that does with them is unknown. */
function withoutGatewaySearch(
  candidates: Candidates,
  request: Pick<ParsedRequest, "fees" | "hasMcp">,
  origin: Origin,
): Candidates {
  const [first, ...others] = candidates.filter(
    ({ model, credential }) => credential.byok || !gatewayToolsOf(request, model).search,
  );
  if (first !== undefined) return [first, ...others];
  const who = {
    request: "The request",
    key: "The key",
    workspace: "The workspace",
    operator: "This gateway",
  }[origin];
  const message = `${who} has a data policy, and the gateway would send the searches for ${candidates[0].model.id} to a search API whose policy is not known here. Remove the web search, or use a model whose provider searches.`;
  throw new Fault("invalid_request", "data policy: web search", { message, param: "tools" });
}

interface Restriction {
  readonly origin: Origin;
  readonly rules: DataRules;
}

function keep(candidates: Candidates, restriction: Restriction, deps: DataPolicyDeps): Candidates {
  const broken = candidates.map((one) => brokenBy(one, restriction.rules, deps));
  const [first, ...others] = candidates.filter((_, index) => broken[index] === undefined);
  if (first !== undefined) return [first, ...others];
  throw refusal(candidates[0].model, broken[0] ?? "zdr", restriction, deps);
}

/** An agreement of the operator covers its own accounts, and not those of callers. */
function brokenBy(
  { model, credential }: Candidate,
  rules: DataRules,
  { dataPolicy }: DataPolicyDeps,
): keyof DataRules | undefined {
  const policy = dataPolicyOf(model, credential.byok ? undefined : dataPolicy.zdrProviders);
  return brokenRule(policy, rules);
}

const MEANINGS: Readonly<Record<keyof DataRules, string>> = {
  zdr: "stores nothing after the reply",
  data_collection: "does not train on the data",
  region: "processes the data in this region",
};

function refusal(
  model: Model,
  rule: keyof DataRules,
  { origin, rules }: Restriction,
  deps: DataPolicyDeps,
): Fault {
  const field = origin === "request" ? `provider.${rule}` : "model";
  const allowed = {
    request: `\`provider.${rule}\` asks for a provider that ${MEANINGS[rule]}`,
    key: `The \`data_policy\` of this key allows only providers that ${plural(MEANINGS[rule])}`,
    workspace: `The \`data_policy\` of this workspace allows only providers that ${plural(MEANINGS[rule])}`,
    operator: `This gateway calls only providers that ${plural(MEANINGS[rule])}`,
  }[origin];
  const message = `${allowed}. ${model.provider} does not say so of ${model.id}, and unknown counts as no. ${qualifying(model, rules, deps)} What each provider says is in GET /v1/models/${model.id}/endpoints.`;
  return origin === "key" || origin === "workspace"
    ? new Fault("forbidden", `${origin} policy: data_policy`, {
        message,
        param: field,
        fields: { policy: "data_policy" },
      })
    : new Fault("invalid_request", `data policy: ${rule}`, { message, param: field });
}

function plural(meaning: string): string {
  return meaning
    .replace("stores", "store")
    .replace("does not", "do not")
    .replace("processes", "process");
}

const NAMED_MAX = 5;

/** What the caller can use instead: the same model elsewhere, or providers of other models. */
function qualifying(
  model: Model,
  rules: DataRules,
  { catalog, dataPolicy, now }: DataPolicyDeps,
): string {
  const all = catalog.current();
  const qualifies = (one: Model): boolean =>
    brokenRule(dataPolicyOf(one, dataPolicy.zdrProviders), rules) === undefined;
  const same = sameModels(all, model, now()).filter(qualifies);
  if (same.length > 0) return `The same model qualifies as ${namesOf(same.map(({ id }) => id))}.`;
  const providers = [...new Set(all.models.filter(qualifies).map(({ provider }) => provider))];
  return providers.length === 0
    ? "No provider in the catalog qualifies."
    : `Models of these providers qualify: ${namesOf(providers)}.`;
}

function namesOf(names: readonly string[]): string {
  return names.slice(0, NAMED_MAX).join(", ");
}
