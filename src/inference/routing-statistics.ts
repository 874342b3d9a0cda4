// How the providers have been doing lately, for each of their models: time to the first byte, speed of output, and how many
// calls they answered. Kept in this process alone, for half an hour. Calls on callers' own keys are left out: their
// limits are not the gateway's, and nobody may spoil a provider's name for others.

import type { UsageRecord } from "../usage/usage.ts";

const KEPT_MS = 30 * 60_000;
const SAMPLES_MAX = 64;
const ENDPOINTS_MAX = 5_000;
/** Too few calls say nothing about a provider. */
const CALLS_MIN = 5;
const DEGRADED_BELOW = 0.95;

export interface Health {
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

export interface Tried {
  readonly provider: string;
  readonly model: string;
  readonly status: number;
  readonly ms: number;
  readonly stream: boolean;
  readonly now: number;
}

export interface Finished {
  readonly provider: string;
  readonly model: string;
  readonly outputTokens: number;
  readonly ms: number;
  readonly now: number;
}

export interface Statistics {
  readonly tried: (tried: Tried) => void;
  readonly finished: (finished: Finished) => void;
  readonly health: (provider: string, model: string, now: number) => Health;
}

interface Sample {
  readonly at: number;
  readonly value: number;
}

interface Endpoint {
  readonly first: Sample[];
  readonly whole: Sample[];
  readonly speed: Sample[];
  /** 1 for a call that was answered, 0 for one that failed. */
  readonly calls: Sample[];
}

const UNKNOWN: Health = {
  latencyMs: undefined,
  replyMs: undefined,
  throughput: undefined,
  uptime: undefined,
  isDegraded: false,
};

export function createStatistics(): Statistics {
  const endpoints = new Map<string, Endpoint>();
  const endpointOf = (provider: string, model: string): Endpoint => {
    const name = `${provider} ${model}`;
    const known = endpoints.get(name);
    if (known !== undefined) return known;
    if (endpoints.size >= ENDPOINTS_MAX) endpoints.clear();
    const made = { first: [], whole: [], speed: [], calls: [] };
    endpoints.set(name, made);
    return made;
  };
  return {
    tried: ({ provider, model, status, ms, stream, now }) => {
      const verdict = verdictOn(status);
      if (verdict === undefined) return;
      const endpoint = endpointOf(provider, model);
      add(endpoint.calls, now, verdict);
      if (verdict === 1) add(stream ? endpoint.first : endpoint.whole, now, ms);
    },
    finished: ({ provider, model, outputTokens, ms, now }) => {
      if (outputTokens > 0 && ms > 0)
        add(endpointOf(provider, model).speed, now, (outputTokens * 1_000) / ms);
    },
    health: (provider, model, now) => {
      const endpoint = endpoints.get(`${provider} ${model}`);
      return endpoint === undefined ? UNKNOWN : healthOf(endpoint, now - KEPT_MS);
    },
  };
}

/** What the end of a call tells: how fast the output came, or that it broke on the way. */
export function noteOutcome(statistics: Statistics, record: UsageRecord, now: number): void {
  if (record.byok || record.status !== 200) return;
  const { provider, model, stream, outputTokens, latencyMs, firstTokenMs } = record;
  if (record.outcome === "completed")
    statistics.finished({
      provider,
      model,
      outputTokens,
      ms: latencyMs - (firstTokenMs ?? 0),
      now,
    });
  else if (record.outcome !== "client_aborted" && record.outcome !== "shut_down")
    statistics.tried({ provider, model, status: 502, ms: latencyMs, stream, now });
}

// What is the caller's own fault, or the caller's own leaving, says nothing about the provider.
function verdictOn(status: number): 0 | 1 | undefined {
  if (status < 300) return 1;
  return status >= 500 || [401, 402, 403, 408, 429].includes(status) ? 0 : undefined;
}

function add(samples: Sample[], at: number, value: number): void {
  samples.push({ at, value });
  if (samples.length > SAMPLES_MAX) samples.shift();
}

function healthOf(endpoint: Endpoint, since: number): Health {
  const calls = lately(endpoint.calls, since);
  const uptime =
    calls.length === 0 ? undefined : calls.reduce((sum, value) => sum + value, 0) / calls.length;
  return {
    latencyMs: median(lately(endpoint.first, since)),
    replyMs: median(lately(endpoint.whole, since)),
    throughput: median(lately(endpoint.speed, since)),
    uptime,
    isDegraded: uptime !== undefined && calls.length >= CALLS_MIN && uptime < DEGRADED_BELOW,
  };
}

function lately(samples: readonly Sample[], since: number): number[] {
  return samples.filter(({ at }) => at > since).map(({ value }) => value);
}

function median(values: number[]): number | undefined {
  return values.sort((left, right) => left - right)[Math.floor((values.length - 1) / 2)];
}
