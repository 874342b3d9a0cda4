// The thread that counts tokens. It loads a tokenizer for the first text that needs it.

import { parentPort } from "node:worker_threads";
import { memoize } from "../../../base/memoize.ts";

export type Encoding = "o200k_base" | "cl100k_base";

export interface CountRequest {
  readonly id: number;
  readonly text: string;
  readonly encoding: Encoding;
}

export interface CountResult {
  readonly id: number;
  readonly tokens: number;
}

parentPort?.on("message", async ({ id, text, encoding }: CountRequest) => {
  const count = await loadTokenizer(encoding);
  parentPort?.postMessage({ id, tokens: countPieces(text, count) } satisfies CountResult);
});

const loadTokenizer = memoize(async (encoding: Encoding) => {
  const tokenizer =
    encoding === "o200k_base"
      ? await import("gpt-tokenizer/encoding/o200k_base")
      : await import("gpt-tokenizer/encoding/cl100k_base");
  // By default it keeps 100,000 pieces of the texts.
  tokenizer.setMergeCacheSize(0);
  return (text: string) => tokenizer.countTokens(text, PLAIN_TEXT);
});

/** A model's output may spell a special token. */
const PLAIN_TEXT = { disallowedSpecial: new Set<string>() };

/** The time that the tokenizer takes grows with the square of a run without a space, such as base64. */
const PIECE_MAX_CHARS = 512;

function countPieces(text: string, count: (piece: string) => number): number {
  let tokens = 0;
  for (let start = 0; start < text.length;) {
    const end = pieceEnd(text, start);
    tokens += count(text.slice(start, end));
    // A cut within a run can only add a token. The count must not exceed the provider's.
    if (end < text.length && text[end] !== " ") tokens -= 1;
    start = end;
  }
  return tokens;
}

/** Before the last single space: tokens begin with their space. */
function pieceEnd(text: string, start: number): number {
  const end = start + PIECE_MAX_CHARS;
  if (end >= text.length) return text.length;
  for (let at = end; at > start + PIECE_MAX_CHARS / 2; at--)
    if (text[at] === " " && isWordCharacter(text.charCodeAt(at + 1)) && text[at - 1] !== " ")
      return at;
  return isLowSurrogate(text.charCodeAt(end)) ? end - 1 : end;
}

function isWordCharacter(code: number): boolean {
  return (code >= 97 && code <= 122) || (code >= 65 && code <= 90);
}

function isLowSurrogate(code: number): boolean {
  return code >= 0xdc_00 && code <= 0xdf_ff;
}
