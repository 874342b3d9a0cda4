// How much output recent calls of each model had in this process, which decides the first part of a rolling hold: nearly all
// replies fit it, and never need another.

/** The first part before there are enough calls, and what a hold is raised by. */
export const TRANCHE_TOKENS = 4_096;
/** Below the least, every stream would be raised at once; above the most, few would run on a small balance. */
const FIRST_TOKENS_MIN = 2_048;
const FIRST_TOKENS_MAX = 8_192;
const CALLS = 256;
const CALLS_MIN = 128;
const QUANTILE = 0.99;
/** Computed anew after so many calls: it takes a sort. */
const UPDATE_CALLS = 32;
const MODELS_MAX = 2_000;

export interface RecentOutputs {
  readonly record: (modelId: string, outputTokens: number) => void;
  /** The first part of the output that a stream of the model holds. */
  readonly firstTokens: (modelId: string) => number;
}

interface Window {
  readonly tokens: Uint32Array;
  /** The number of all calls, also of those that are no longer in the window. */
  count: number;
  first: number;
}

export function createRecentOutputs(): RecentOutputs {
  const windows = new Map<string, Window>();
  return {
    record: (modelId, outputTokens) => {
      let window = windows.get(modelId);
      if (window === undefined) {
        if (windows.size >= MODELS_MAX) return;
        window = { tokens: new Uint32Array(CALLS), count: 0, first: TRANCHE_TOKENS };
        windows.set(modelId, window);
      }
      window.tokens[window.count % CALLS] = outputTokens;
      window.count += 1;
      if (window.count >= CALLS_MIN && window.count % UPDATE_CALLS === 0)
        window.first = boundedQuantile(window);
    },
    firstTokens: (modelId) => windows.get(modelId)?.first ?? TRANCHE_TOKENS,
  };
}

function boundedQuantile({ tokens, count }: Window): number {
  const sorted = tokens.slice(0, Math.min(count, CALLS)).sort();
  const value = sorted[Math.ceil(QUANTILE * sorted.length) - 1] ?? TRANCHE_TOKENS;
  return Math.min(FIRST_TOKENS_MAX, Math.max(FIRST_TOKENS_MIN, value));
}
