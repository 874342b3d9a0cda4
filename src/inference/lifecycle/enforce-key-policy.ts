// Enforces the policy of a key on a call: models, providers, price and tokens per minute. The ledger enforces requests per
// minute and concurrent calls together with the hold.

import { Fault } from "../../base/fault.ts";
import { MINUTE_MS } from "../../base/time.ts";
import { type KeyPolicy, matchesGlob } from "../../http/key-policy.ts";
import type { Caller } from "../../http/route.ts";
import { cardAt, picoPerToken } from "../../models/price-card.ts";
import type { Candidate, Candidates } from "../routing/candidates.ts";

/** The candidates that the key may call. Throws `forbidden` if there are none. */
export function allowedCandidates(
  candidates: Candidates,
  { policy }: Caller,
  now: number,
): Candidates {
  if (policy === undefined) return candidates;
  let refusal: Refusal | undefined;
  const allowed = candidates.filter((candidate) => {
    const found = refusalOf(policy, candidate, now);
    refusal ??= found;
    return found === undefined;
  });
  const [first, ...others] = allowed;
  if (first !== undefined) return [first, ...others];
  const { field, message } = refusal ?? { field: "allowed_models", message: "" };
  throw new Fault("forbidden", `key policy: ${field}`, {
    message: `${message} Use another model or another key, or ask the owner of the account to change \`${field}\` of this key.`,
    param: "model",
    fields: { policy: field },
  });
}

interface Refusal {
  readonly field: string;
  readonly message: string;
}

function refusalOf(
  { models, providers, maxPriceUsd }: KeyPolicy,
  { model, credential }: Candidate,
  now: number,
): Refusal | undefined {
  const { id, prices } = model;
  const isNamed = matchesGlob(models, id);
  if (models !== undefined && !isNamed)
    return {
      field: "allowed_models",
      message: `This key may only call models that match ${listOf(models)}, and ${id} does not.`,
    };
  if (providers !== undefined && !matchesGlob(providers, credential.provider.id))
    return {
      field: "allowed_providers",
      message: `This key may only call providers that match ${listOf(providers)}, and ${credential.provider.id} does not.`,
    };
  if (maxPriceUsd === undefined) return undefined;
  const { input = 0n, output = 0n } = cardAt(prices, now)?.base ?? {};
  const max = picoPerToken(maxPriceUsd);
  if (input <= max && output <= max) return undefined;
  return {
    field: "max_price_per_million_usd",
    message: `This key may only call models whose list price is at most $${maxPriceUsd} per million input tokens and per million output tokens, and ${id} costs more.`,
  };
}

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
