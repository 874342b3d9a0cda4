// Latency, throughput and uptime of each provider's models over the last half hour, as this process saw them. Calls with
// callers' own provider keys are excluded, because their rate limits are not the gateway's, and so are calls of accounts
// with little or no paid credit: they cost next to nothing, so they must not change a provider's ranking for others.

import { MINUTE_MS, SECOND_MS } from "../../base/time.ts";
import { providerResult } from "../../usage/provider-failures.ts";
import type { Outcome, UsageRecord } from "../../usage/usage.ts";

const WINDOW_MS = 30 * MINUTE_MS;
const SAMPLES_PER_METRIC_MAX = 64;
const ENDPOINTS_MAX = 5_000;
/** With fewer calls, a provider is not reported as degraded. */
const MIN_CALLS = 5;
const DEGRADED_UPTIME = 0.95;

export interface RecentHealth {
  /** Median milliseconds to the first byte of a stream. */
  readonly latencyMs: number | undefined;
  /** Median milliseconds to a complete reply that was not streamed. */
  readonly replyMs: number | undefined;
  /** Median output tokens per second. */
  readonly throughput: number | undefined;
  /** The fraction of calls that succeeded, from 0 to 1. */
  readonly uptime: number | undefined;
  readonly isDegraded: boolean;
}

export interface AttemptSample {
  readonly provider: string;
  readonly model: string;
  readonly status: number;
  readonly ms: number;
  readonly stream: boolean;
  readonly now: number;
}

interface CompletionSample {
  readonly provider: string;
  readonly model: string;
  readonly outputTokens: number;
  readonly ms: number;
  readonly now: number;
}

export interface ProviderStatistics {
  readonly recordAttempt: (sample: AttemptSample) => void;
  readonly recordCompletion: (sample: CompletionSample) => void;
  readonly health: (provider: string, model: string, now: number) => RecentHealth;
}

interface Sample {
  readonly at: number;
  readonly value: number;
}

interface EndpointSamples {
  readonly firstByteMs: Sample[];
  readonly replyMs: Sample[];
  readonly throughput: Sample[];
  /** 1 for a call that succeeded, 0 for one that failed. */
  readonly successes: Sample[];
}

const UNKNOWN_HEALTH: RecentHealth = {
  latencyMs: undefined,
  replyMs: undefined,
  throughput: undefined,
  uptime: undefined,
  isDegraded: false,
};

export function createProviderStatistics(): ProviderStatistics {
  const endpoints = new Map<string, EndpointSamples>();
  const endpointOf = (provider: string, model: string): EndpointSamples => {
    const name = `${provider} ${model}`;
    const existing = endpoints.get(name);
    if (existing !== undefined) return existing;
    if (endpoints.size >= ENDPOINTS_MAX) endpoints.clear();
    const created = { firstByteMs: [], replyMs: [], throughput: [], successes: [] };
    endpoints.set(name, created);
    return created;
  };
  return {
    recordAttempt: ({ provider, model, status, ms, stream, now }) => {
      const result = providerResult(status);
      if (result === undefined) return;
      const success = result === "success" ? 1 : 0;
      const endpoint = endpointOf(provider, model);
      addSample(endpoint.successes, now, success);
      if (success === 1) addSample(stream ? endpoint.firstByteMs : endpoint.replyMs, now, ms);
    },
    recordCompletion: ({ provider, model, outputTokens, ms, now }) => {
      if (outputTokens > 0 && ms > 0)
        addSample(endpointOf(provider, model).throughput, now, (outputTokens * SECOND_MS) / ms);
    },
    health: (provider, model, now) => {
      const endpoint = endpoints.get(`${provider} ${model}`);
      return endpoint === undefined ? UNKNOWN_HEALTH : healthOf(endpoint, now - WINDOW_MS);
    },
  };
}

/** Records the throughput of a completed call, or a failure that occurred after the reply began. */
const PROVIDER_FAILURES: ReadonlySet<Outcome> = new Set([
  "upstream_error",
  "upstream_timeout",
  "empty_reply",
]);

export function recordOutcome(
  statistics: ProviderStatistics,
  record: UsageRecord,
  now: number,
): void {
  if (record.byok || record.status !== 200) return;
  const { provider, model, stream, outputTokens, latencyMs, firstTokenMs } = record;
  if (record.outcome === "completed")
    statistics.recordCompletion({
      provider,
      model,
      outputTokens,
      ms: latencyMs - (firstTokenMs ?? 0),
      now,
    });
  else if (PROVIDER_FAILURES.has(record.outcome))
    statistics.recordAttempt({ provider, model, status: 502, ms: latencyMs, stream, now });
}

function addSample(samples: Sample[], at: number, value: number): void {
  samples.push({ at, value });
  if (samples.length > SAMPLES_PER_METRIC_MAX) samples.shift();
}

function healthOf(endpoint: EndpointSamples, since: number): RecentHealth {
  const calls = recentValues(endpoint.successes, since);
  const uptime =
    calls.length === 0 ? undefined : calls.reduce((sum, value) => sum + value, 0) / calls.length;
  return {
    latencyMs: median(recentValues(endpoint.firstByteMs, since)),
    replyMs: median(recentValues(endpoint.replyMs, since)),
    throughput: median(recentValues(endpoint.throughput, since)),
    uptime,
    isDegraded: uptime !== undefined && calls.length >= MIN_CALLS && uptime < DEGRADED_UPTIME,
  };
}

function recentValues(samples: readonly Sample[], since: number): number[] {
  return samples.filter(({ at }) => at > since).map(({ value }) => value);
}

function median(values: number[]): number | undefined {
  return values.sort((left, right) => left - right)[Math.floor((values.length - 1) / 2)];
}
