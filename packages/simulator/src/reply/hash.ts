// Deterministic ids and numbers, so that the same request gets the same reply. Not cryptographically secure.

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const HEX = "0123456789abcdef";

/** A 53-bit hash (cyrb53). */
export function hashText(text: string, seed = 0): number {
  let high = 0xdeadbeef ^ seed;
  let low = 0x41c6ce57 ^ seed;
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    high = Math.imul(high ^ code, 2_654_435_761);
    low = Math.imul(low ^ code, 1_597_334_677);
  }
  high =
    Math.imul(high ^ (high >>> 16), 2_246_822_507) ^ Math.imul(low ^ (low >>> 13), 3_266_489_909);
  low =
    Math.imul(low ^ (low >>> 16), 2_246_822_507) ^ Math.imul(high ^ (high >>> 13), 3_266_489_909);
  return 4_294_967_296 * (2_097_151 & low) + (high >>> 0);
}

/** A seeded generator of numbers from 0 to 2³²−1 (mulberry32). */
export function randomNumbers(seed: number): () => number {
  let state = (seed ^ (seed / 4_294_967_296)) >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return (mixed ^ (mixed >>> 14)) >>> 0;
  };
}

export function base62From(seed: number, length: number): string {
  return charactersFrom(seed, length, BASE62);
}

export function hexFrom(seed: number, length: number): string {
  return charactersFrom(seed, length, HEX);
}

/** Random base64 in place of a provider's signature or encrypted text. */
export function opaqueTextFrom(seed: number, length: number): string {
  return btoa(charactersFrom(seed, Math.ceil((length * 3) / 4), BASE62)).slice(0, length);
}

function charactersFrom(seed: number, length: number, alphabet: string): string {
  const next = randomNumbers(seed);
  let text = "";
  for (let index = 0; index < length; index++) text += alphabet.charAt(next() % alphabet.length);
  return text;
}
