// Log probabilities of a reply's tokens. They only depend on the position of the token.

import type { JsonObject } from "../json-readers.ts";
import { countTokens, cutToPieces } from "./tokens.ts";

export interface ScoredToken {
  readonly token: string;
  readonly logprob: number;
  /** The most likely tokens at this position, the chosen one first. */
  readonly top: readonly { readonly token: string; readonly logprob: number }[];
}

const OTHER_TOKENS = ["…", "?", "!", "-"];

export function scoreTokens(text: string, topCount: number): ScoredToken[] {
  return cutToPieces(text, countTokens(text)).map((token, index) => {
    const logprob = -(index % 8) / 16;
    const others = OTHER_TOKENS.map((other, rank) => ({ token: other, logprob: -2 - rank }));
    const top = topCount > 0 ? [{ token, logprob }, ...others].slice(0, topCount) : [];
    return { token, logprob, top };
  });
}

/** The form of both of OpenAI's APIs. */
export function openAiLogprobs(text: string, topCount: number): JsonObject[] {
  return scoreTokens(text, topCount).map(({ token, logprob, top }) => ({
    token,
    logprob,
    bytes: bytesOf(token),
    top_logprobs: top.map((one) => ({
      token: one.token,
      logprob: one.logprob,
      bytes: bytesOf(one.token),
    })),
  }));
}

function bytesOf(token: string): number[] {
  return [...new TextEncoder().encode(token)];
}
