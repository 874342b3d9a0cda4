// Enforces the policy of a key on a call: models, providers, price and tokens per minute. The ledger enforces requests per
// minute and concurrent calls together with the hold.

import { WIRE_TRAITS } from "@postern/wires";
import { Fault } from "../../base/fault.ts";
import { isObject } from "../../base/json.ts";
import { usdText } from "../../base/money/money.ts";
import { MINUTE_MS } from "../../base/time.ts";
import { type KeyPolicy, matchesGlob } from "../../http/key-policy.ts";
import type { Caller } from "../../http/route.ts";
import { modelAt } from "../../models/catalog.ts";
import { highestUnitPrices, type UnitPriceBounds } from "../../models/price-bound.ts";
import { cardAt, picoPerToken } from "../../models/price-card.ts";
import type { PriceCard } from "../../models/price.ts";
import type { Api, ParsedRequest } from "../request/parse-request.ts";
import type { Candidate, Candidates } from "../routing/candidates.ts";
import {
  priceCandidates,
  type PricedCandidate,
  type PricedCandidates,
} from "../routing/priced-candidates.ts";
import type { CallInput, RoutedCall } from "./call.ts";

/** The candidates whose model and provider the key may call. Throws `forbidden` if there are none, or for another endpoint. */
export function allowedCandidates(
  candidates: Candidates,
  { api, caller: { policy } }: Pick<CallInput, "api" | "caller">,
): Candidates {
  if (policy === undefined) return candidates;
  requireEndpoint(policy, api);
  return allowed(candidates, (candidate) => refusalOf(policy, candidate));
}

/** Prices the candidates. Throws `forbidden` if the key may pay none of them, or may not call the models of their tools. */
export function priceAllowed(routed: RoutedCall): PricedCandidates {
  const priced = priceCandidates(routed);
  const { policy } = routed.input.caller;
  if (policy === undefined) return priced;
  return allowed(
    priced,
    (one) => namedModelRefusal(policy, one, routed) ?? priceRefusal(policy, one, routed),
  );
}

function requireEndpoint({ endpoints }: KeyPolicy, api: Api): void {
  if (endpoints === undefined || endpoints.includes(api)) return;
  throw new Fault("forbidden", "key policy: allowed_endpoints", {
    message: `This key may only call ${listOf(endpoints)}, and this endpoint is \`${api}\`. Use another key, or ask the owner of the account to change \`allowed_endpoints\` of this key.`,
    fields: { policy: "allowed_endpoints" },
  });
}

function allowed<T>(
  candidates: readonly T[],
  refusalOf: (candidate: T) => Refusal | undefined,
): readonly [T, ...T[]] {
  let refusal: Refusal | undefined;
  const kept = candidates.filter((candidate) => {
    const found = refusalOf(candidate);
    refusal ??= found;
    return found === undefined;
  });
  const [first, ...others] = kept;
  if (first !== undefined) return [first, ...others];
  const { field, message, param = "model" } = refusal ?? { field: "allowed_models", message: "" };
  throw new Fault("forbidden", `key policy: ${field}`, {
    message: `${message} Use another model or another key, or ask the owner of the account to change \`${field}\` of this key.`,
    param,
    fields: { policy: field },
    next: [{ method: "GET", url: "/v1/models", why: "List the models that this key may call." }],
  });
}

interface Refusal {
  readonly field: string;
  readonly message: string;
  /** `model` by default. */
  readonly param?: string;
}

function refusalOf(
  { models, providers }: KeyPolicy,
  { model: { id }, credential: { provider } }: Candidate,
): Refusal | undefined {
  if (models !== undefined && !matchesGlob(models, id)) return modelRefusal(models, id, "model");
  if (providers === undefined || matchesGlob(providers, provider.id)) return undefined;
  return {
    field: "allowed_providers",
    message: `This key may only call providers that match ${listOf(providers)}, and ${provider.id} does not.`,
  };
}

function modelRefusal(models: readonly string[], id: string, param: string): Refusal {
  return {
    field: "allowed_models",
    message: `This key may only call models that match ${listOf(models)}, and ${id} does not.`,
    param,
  };
}

/** Another model of the same provider that the request names, and that runs within the call. */
interface NamedModel {
  readonly name: string;
  readonly param: string;
}

function namedModels(
  { advisors, json }: ParsedRequest,
  { model }: Candidate,
): readonly NamedModel[] {
  return model.wires
    .flatMap((wire) => WIRE_TRAITS[wire].namedModelLists)
    .flatMap((list) =>
      list === "advisors"
        ? advisors.map(({ model: name, param }) => ({ name, param }))
        : modelsIn(json[list], list),
    )
    .filter(({ name }) => name !== "");
}

function modelsIn(list: unknown, param: string): readonly NamedModel[] {
  if (!Array.isArray(list)) return [];
  return list.flatMap((one: unknown, index): readonly NamedModel[] =>
    isObject(one) && typeof one["model"] === "string"
      ? [{ name: one["model"], param: `${param}[${index}].model` }]
      : [],
  );
}

function namedModelRefusal(
  { models, maxPriceUsd }: KeyPolicy,
  { candidate, estimate }: PricedCandidate,
  { request, catalog, pricedAt }: RoutedCall,
): Refusal | undefined {
  if (models === undefined && maxPriceUsd === undefined) return undefined;
  const { provider } = candidate.model;
  for (const { name, param } of namedModels(request, candidate)) {
    const found = modelAt(catalog, provider, name);
    const id = found?.id ?? `${provider}/${name}`;
    if (models !== undefined && !matchesGlob(models, id)) return modelRefusal(models, id, param);
    const card = found && cardAt(found.prices, pricedAt);
    if (maxPriceUsd === undefined || card === undefined) continue;
    const { inputTokens } = estimate;
    const refusal = priceRefusalOf(maxPriceUsd, id, boundsOf(request, { inputTokens }), [card]);
    if (refusal !== undefined) return { ...refusal, param };
  }
  return undefined;
}

function priceRefusal(
  { maxPriceUsd }: KeyPolicy,
  { candidate: { model }, estimate: { bounds, cards } }: PricedCandidate,
  { request }: RoutedCall,
): Refusal | undefined {
  if (maxPriceUsd === undefined) return undefined;
  return priceRefusalOf(maxPriceUsd, model.id, boundsOf(request, bounds), cards);
}

/** The type of an audio part, or the media type of a file. */
const AUDIO = /"input_audio"|\baudio\/[a-z]/;

function boundsOf(
  { text, json }: ParsedRequest,
  bounds: Omit<UnitPriceBounds, "hasAudioInput">,
): UnitPriceBounds {
  const region = json["inference_geo"];
  return {
    ...bounds,
    hasAudioInput: AUDIO.test(text),
    ...(typeof region === "string" && { region }),
  };
}

function priceRefusalOf(
  maxPriceUsd: string,
  id: string,
  bounds: UnitPriceBounds,
  cards: readonly PriceCard[],
): Refusal | undefined {
  const max = picoPerToken(maxPriceUsd);
  const { input, output, fee } = highestUnitPrices(bounds, cards);
  if (input <= max && output <= max && fee === undefined) return undefined;
  const perMillion = (pico: bigint): string => `$${usdText(pico * NANO_PER_MILLION_PICO)}`;
  const reason =
    fee === undefined || input > max || output > max
      ? `this call of ${id} can cost ${perMillion(input)} per million input and ${perMillion(output)} per million output tokens`
      : `this call of ${id} can have the fee \`${fee}\`, which is not a price per token`;
  return {
    field: "max_price_per_million_usd",
    message: `This key may only make calls whose list price is at most $${maxPriceUsd} per million input tokens and per million output tokens, and ${reason}.`,
  };
}

/** A million tokens at a pico-USD each, in nano-USD. */
const NANO_PER_MILLION_PICO = 1_000n;

function listOf(globs: readonly string[]): string {
  return globs.map((glob) => `\`${glob}\``).join(", ");
}

export interface TokenRateLimit {
  readonly rejectIfExceeded: (caller: Caller, now: number) => void;
  readonly add: (caller: Caller, tokens: number, now: number) => void;
}

const KEYS_MAX = 10_000;

/** Counts tokens per key and minute, in this process. Calls are counted when they end. */
export function createTokenCounts(): TokenRateLimit {
  const counts = new Map<string, { readonly minute: number; tokens: number }>();
  return {
    rejectIfExceeded: ({ keyId, policy }, now) => {
      const limit = policy?.tokensPerMinute;
      if (limit === undefined) return;
      const count = counts.get(keyId);
      if (count?.minute !== Math.floor(now / MINUTE_MS) || count.tokens < limit) return;
      throw new Fault("rate_limited", "key above its tokens per minute", {
        message: `This key may use ${limit} tokens per minute, and has used ${count.tokens} in this one. Try again in the next minute.`,
        retryAfterSeconds: (MINUTE_MS - (now % MINUTE_MS)) / 1_000,
      });
    },
    add: ({ keyId, policy }, tokens, now) => {
      if (policy?.tokensPerMinute === undefined) return;
      const minute = Math.floor(now / MINUTE_MS);
      const count = counts.get(keyId);
      if (count?.minute === minute) {
        count.tokens += tokens;
        return;
      }
      // The first entry is the oldest, so counts of earlier minutes are evicted first.
      counts.delete(keyId);
      if (counts.size >= KEYS_MAX) counts.delete(counts.keys().next().value ?? "");
      counts.set(keyId, { minute, tokens });
    },
  };
}
