// Model calls of 60 days with the rhythm of a small team: busy weekdays, quiet nights, a slow growth, some failures. The
// numbers come from a seeded generator, so that every run shows the same.

import { newId } from "../../../src/base/id.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../../src/base/time.ts";
import type { Outcome, ProviderAttempt, UsageRecord } from "../../../src/usage/usage.ts";

interface DemoModel {
  readonly id: string;
  readonly provider: string;
  readonly api: UsageRecord["api"];
  /** US dollars per million tokens: the list prices, which `/models` shows too. */
  readonly input: number;
  readonly cacheRead: number;
  readonly output: number;
  /** Part of all calls. */
  readonly share: number;
  readonly firstTokenMs: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
}

const MODELS: readonly DemoModel[] = [
  {
    id: "anthropic/claude-sonnet-5-5",
    provider: "anthropic",
    api: "messages",
    input: 2,
    cacheRead: 0.1,
    output: 10,
    share: 0.38,
    firstTokenMs: 640,
    inputTokens: 14_000,
    outputTokens: 620,
  },
  {
    id: "openai/gpt-5.4-mini",
    provider: "openai",
    api: "chat",
    input: 0.75,
    cacheRead: 0.075,
    output: 4.5,
    share: 0.3,
    firstTokenMs: 310,
    inputTokens: 3_200,
    outputTokens: 240,
  },
  {
    id: "openai/gpt-5.4",
    provider: "openai",
    api: "responses",
    input: 2.5,
    cacheRead: 0.25,
    output: 15,
    share: 0.14,
    firstTokenMs: 890,
    inputTokens: 9_000,
    outputTokens: 900,
  },
  {
    id: "google/gemini-2.5-flash",
    provider: "google",
    api: "chat",
    input: 0.3,
    cacheRead: 0.03,
    output: 2.5,
    share: 0.18,
    firstTokenMs: 260,
    inputTokens: 5_500,
    outputTokens: 380,
  },
];

const LABELS = ["team=search", "team=support", "job=nightly-eval"];
const DAYS = 60;
const CALLS_PER_WEEKDAY = 46;
const CALLS_PER_WEEKEND_DAY = 9;

export interface DemoUsageOptions {
  readonly accountId: string;
  /** Ids of keys, the busiest first. */
  readonly keyIds: readonly string[];
  readonly now: number;
  readonly seed: number;
  /** 1 is a small team. */
  readonly volume: number;
}

export function demoUsage(options: DemoUsageOptions): readonly UsageRecord[] {
  const random = seededRandom(options.seed);
  const records: UsageRecord[] = [];
  for (let day = DAYS; day >= 0; day--) {
    const start = options.now - (options.now % DAY_MS) - day * DAY_MS;
    const weekday = new Date(start).getUTCDay();
    const isWeekend = weekday === 0 || weekday === 6;
    const growth = 1 + (DAYS - day) / DAYS;
    const calls = Math.round(
      (isWeekend ? CALLS_PER_WEEKEND_DAY : CALLS_PER_WEEKDAY) *
        options.volume *
        growth *
        (0.7 + random() * 0.6),
    );
    for (let call = 0; call < calls; call++) {
      // The sum of two dice: most calls are around 14:00.
      const at = start + Math.floor((2 + (random() + random()) * 10.5) * HOUR_MS);
      if (at < options.now - MINUTE_MS) records.push(demoCall(options, at, random));
    }
  }
  return records.toSorted((one, other) => one.createdAt - other.createdAt);
}

/** A call whose first provider was overloaded, with everything that a call's page shows. */
export function detailedCall(options: DemoUsageOptions): UsageRecord {
  const call = demoCall(options, options.now - 40_000, seededRandom(15));
  return {
    ...call,
    api: "chat",
    outcome: "completed",
    status: 200,
    labels: ["job=nightly-eval", "team=search"],
    dropped: ["seed", "logit_bias"],
    traceId: "4bf92f3577b34da6a3ce929d0e0e4736",
    attempts: [
      { provider: "bedrock", model: call.model, status: 529, ms: 212 },
      { provider: call.provider, model: call.model, status: 200, ms: 1_804 },
    ],
  };
}

function demoCall(options: DemoUsageOptions, at: number, random: () => number): UsageRecord {
  const model = pick(MODELS, random);
  const scale = 0.25 + random() * random() * 3;
  const inputTokens = Math.round(model.inputTokens * scale);
  const cacheReadTokens = random() < 0.45 ? Math.floor(inputTokens * (0.5 + random() * 0.4)) : 0;
  const fate = fateOf(model, random());
  const isCharged = fate.outcome === "completed" || fate.outcome === "client_aborted";
  const outputTokens = isCharged ? Math.round(model.outputTokens * (0.2 + random() * 1.6)) : 0;
  const price = isCharged
    ? [
        priceLine("input", inputTokens - cacheReadTokens, model.input),
        priceLine("cache_read", cacheReadTokens, model.cacheRead),
        priceLine("output", outputTokens, model.output),
      ].filter(({ count }) => count > 0)
    : [];
  const firstTokenMs = Math.round(model.firstTokenMs * (0.6 + random() * random() * 3));
  const keyIndex = Math.min(
    options.keyIds.length - 1,
    Math.floor(random() * random() * options.keyIds.length),
  );
  const stream = random() < 0.7;
  return {
    id: newId("req", at),
    accountId: options.accountId,
    keyId: options.keyIds[keyIndex] ?? "",
    createdAt: at,
    model: model.id,
    provider: model.provider,
    api: model.api,
    stream,
    ...fate,
    inputTokens: isCharged ? inputTokens : 0,
    cacheReadTokens: isCharged ? cacheReadTokens : 0,
    cacheWriteTokens: 0,
    outputTokens,
    reasoningTokens: model.api === "responses" ? Math.floor(outputTokens * 0.4) : 0,
    price,
    cost: price.reduce((sum, { count, usd }) => sum + BigInt(Math.round(count * +usd * 1e9)), 0n),
    byok: false,
    exact: true,
    latencyMs: firstTokenMs + outputTokens * 9,
    firstTokenMs: stream && isCharged ? firstTokenMs : null,
    labels: random() < 0.5 ? [LABELS[Math.floor(random() * LABELS.length)] ?? ""] : [],
  };
}

interface Fate {
  readonly outcome: Outcome;
  readonly status: number;
  readonly attempts: readonly ProviderAttempt[];
}

/** What became of a call; most complete. */
function fateOf({ id, provider }: DemoModel, draw: number): Fate {
  const attempt = (status: number, ms: number): ProviderAttempt => ({
    provider,
    model: id,
    status,
    ms,
  });
  if (draw < 0.006)
    return { outcome: "upstream_timeout", status: 504, attempts: [attempt(0, 60_000)] };
  if (draw < 0.016)
    return {
      outcome: "upstream_error",
      status: 502,
      attempts: [attempt(529, 212), attempt(529, 340)],
    };
  if (draw < 0.03)
    return { outcome: "client_aborted", status: 200, attempts: [attempt(200, 1_900)] };
  return { outcome: "completed", status: 200, attempts: [attempt(200, 1_400)] };
}

function priceLine(meter: string, count: number, perMillion: number) {
  return { meter, count, usd: (perMillion / 1e6).toFixed(12).replace(/0+$/, "") };
}

function pick(models: readonly DemoModel[], random: () => number): DemoModel {
  let draw = random();
  return (
    models.find(({ share }) => (draw -= share) < 0) ??
    // The shares add up to one.
    (models[0] as DemoModel)
  );
}

/** mulberry32: small, and the same on every machine. */
function seededRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
