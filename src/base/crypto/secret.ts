// Secrets, random tokens and constant-time comparison. A `Secret` prints as `[secret]`; only `reveal()` returns its
// value.

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

export interface Secret {
  reveal(): string;
  toString(): string;
  toJSON(): string;
}

const HIDDEN = "[secret]";

export function secret(value: string): Secret {
  const hide = (): string => HIDDEN;
  return Object.freeze({
    reveal: () => value,
    toString: hide,
    toJSON: hide,
    [Symbol.for("nodejs.util.inspect.custom")]: hide,
  });
}

/** Uniform base62 characters from the system's random source; 43 characters carry 256 bits. */
export function randomBase62(length: number): string {
  let text = "";
  while (text.length < length) {
    for (const byte of crypto.getRandomValues(new Uint8Array(length))) {
      // 248 is the largest multiple of 62 in a byte; larger values would bias the remainder.
      if (byte < 248 && text.length < length) text += BASE62.charAt(byte % 62);
    }
  }
  return text;
}

export function randomDigits(length: number): string {
  let text = "";
  while (text.length < length) {
    for (const byte of crypto.getRandomValues(new Uint8Array(length))) {
      if (byte < 250 && text.length < length) text += String(byte % 10);
    }
  }
  return text;
}

/** RFC 8628, section 6.1: no vowels, so that no words arise, and no letters that look alike in capitals and digits. */
const CONSONANTS = "BCDFGHJKLMNPQRSTVWXZ";

export function randomConsonants(length: number): string {
  let text = "";
  while (text.length < length) {
    for (const byte of crypto.getRandomValues(new Uint8Array(length))) {
      // 240 is the largest multiple of 20 in a byte.
      if (byte < 240 && text.length < length) text += CONSONANTS.charAt(byte % 20);
    }
  }
  return text;
}

/** Constant-time comparison. */
export function timingSafeEqualText(a: string, b: string): boolean {
  const left = new TextEncoder().encode(a);
  const right = new TextEncoder().encode(b);
  let difference = left.length ^ right.length;
  for (let index = 0; index < left.length; index++)
    difference |= (left[index] ?? 0) ^ (right[index % Math.max(1, right.length)] ?? 0);
  return difference === 0;
}

export function toBase62(value: number, length: number): string {
  let text = "";
  for (let rest = value; text.length < length; rest = Math.floor(rest / 62))
    text = BASE62.charAt(rest % 62) + text;
  return text;
}
