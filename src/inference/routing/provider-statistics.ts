// How the providers have been doing lately, for each of their models: time to the first byte, speed of output, and how many
// calls they answered. Kept in this process alone, for half an hour. Calls on callers' own keys are left out: their
// limits are not the gateway's, and nobody may spoil a provider's name for others.

import { MINUTE_MS } from "../../base/time.ts";
import type { UsageRecord } from "../../usage/usage.ts";

const WINDOW_MS = 30 * MINUTE_MS;
const SAMPLES_PER_METRIC_MAX = 64;
const ENDPOINTS_MAX = 5_000;
/** Too few calls say nothing about a provider. */
const MIN_CALLS = 5;
const DEGRADED_UPTIME = 0.95;

export interface ProviderHealth {
  /** Milliseconds to the first byte of a stream, the median. */
  readonly latencyMs: number | undefined;
  /** Milliseconds to the whole of a reply that was not streamed, the median. */
  readonly replyMs: number | undefined;
  /** Output tokens a second, the median. */
  readonly throughput: number | undefined;
  /** The share of calls that were answered, from 0 to 1. */
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

export interface CompletionSample {
  readonly provider: string;
  readonly model: string;
  readonly outputTokens: number;
  readonly ms: number;
  readonly now: number;
}

export interface ProviderStatistics {
  readonly recordAttempt: (recordAttempt: AttemptSample) => void;
  readonly recordCompletion: (recordCompletion: CompletionSample) => void;
  readonly health: (provider: string, model: string, now: number) => ProviderHealth;
}

interface Sample {
  readonly at: number;
  readonly value: number;
}

interface EndpointSamples {
  readonly firstByteMs: Sample[];
  readonly replyMs: Sample[];
  readonly throughput: Sample[];
  /** 1 for a call that was answered, 0 for one that failed. */
  readonly successes: Sample[];
}

const UNKNOWN_HEALTH: ProviderHealth = {
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
    const known = endpoints.get(name);
    if (known !== undefined) return known;
    if (endpoints.size >= ENDPOINTS_MAX) endpoints.clear();
    const made = { firstByteMs: [], replyMs: [], throughput: [], successes: [] };
    endpoints.set(name, made);
    return made;
  };
  return {
    recordAttempt: ({ provider, model, status, ms, stream, now }) => {
      const success = successOf(status);
      if (success === undefined) return;
      const endpoint = endpointOf(provider, model);
      addSample(endpoint.successes, now, success);
      if (success === 1) addSample(stream ? endpoint.firstByteMs : endpoint.replyMs, now, ms);
    },
    recordCompletion: ({ provider, model, outputTokens, ms, now }) => {
      if (outputTokens > 0 && ms > 0)
        addSample(endpointOf(provider, model).throughput, now, (outputTokens * 1_000) / ms);
    },
    health: (provider, model, now) => {
      const endpoint = endpoints.get(`${provider} ${model}`);
      return endpoint === undefined ? UNKNOWN_HEALTH : healthOf(endpoint, now - WINDOW_MS);
    },
  };
}

/** What the end of a call tells: how fast the output came, or that it broke on the way. */
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
  else if (record.outcome !== "client_aborted" && record.outcome !== "shut_down")
    statistics.recordAttempt({ provider, model, status: 502, ms: latencyMs, stream, now });
}

// What is the caller's own fault, or the caller's own leaving, says nothing about the provider.
function successOf(status: number): 0 | 1 | undefined {
  if (status < 300) return 1;
  return status >= 500 || [401, 402, 403, 408, 429].includes(status) ? 0 : undefined;
}

function addSample(samples: Sample[], at: number, value: number): void {
  samples.push({ at, value });
  if (samples.length > SAMPLES_PER_METRIC_MAX) samples.shift();
}

function healthOf(endpoint: EndpointSamples, since: number): ProviderHealth {
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
