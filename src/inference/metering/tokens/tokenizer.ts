// Counts the tokens of a text with OpenAI's tokenizers. Only a call that ends without the provider's usage needs them, so a
// tokenizer is loaded by the first of these calls and not before: it takes about half a second and 80 MB.

import { memoize } from "../../../base/memoize.ts";

export type Encoding = "o200k_base" | "cl100k_base";

/** The tokenizers of model families, by the name of the model. */
const ENCODINGS: readonly (readonly [model: RegExp, encoding: Encoding])[] = [
  [/(^|\/)(gpt-4o|gpt-4\.[1-9]|gpt-[5-9]|chatgpt-|gpt-audio|gpt-oss|o[134](-|$))/, "o200k_base"],
  [/(^|\/)(gpt-4(-|$)|gpt-3\.5|gpt-35)/, "cl100k_base"],
  // The bundled simulator, whose calls cost nothing.
  [/^sim\//, "o200k_base"],
];

/** Undefined for a family whose tokenizer has no package: then only the provider's usage tells the count. */
export function encodingOf(model: string): Encoding | undefined {
  return ENCODINGS.find(([pattern]) => pattern.test(model))?.[1];
}

/** Resolves to the count. The event loop runs in between, because a text may have a million characters. */
export type CountTokens = (text: string) => Promise<number>;

export const loadTokenizer = memoize(async (encoding: Encoding): Promise<CountTokens> => {
  const tokenizer =
    encoding === "o200k_base"
      ? await import("gpt-tokenizer/encoding/o200k_base")
      : await import("gpt-tokenizer/encoding/cl100k_base");
  // By default it keeps 100,000 pieces of the texts.
  tokenizer.setMergeCacheSize(0);
  return (text) => countPieces(text, (piece) => tokenizer.countTokens(piece, PLAIN_TEXT));
});

/** A model's output may spell a special token. */
const PLAIN_TEXT = { disallowedSpecial: new Set<string>() };

/** The time that the tokenizer takes grows with the square of a run without a space, such as base64. */
const PIECE_MAX_CHARS = 512;
const PIECES_PER_TURN = 64;

async function countPieces(text: string, count: (piece: string) => number): Promise<number> {
  let tokens = 0;
  let pieces = 0;
  for (let start = 0; start < text.length;) {
    const end = pieceEnd(text, start);
    tokens += count(text.slice(start, end));
    // A cut within a run can only add a token. The count must not exceed the provider's.
    if (end < text.length && text[end] !== " ") tokens -= 1;
    start = end;
    if (++pieces % PIECES_PER_TURN === 0) await new Promise((resolve) => setImmediate(resolve));
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
