// Text from one user that is shown to another, such as a key name on the claim page. Bidirectional control characters
// could make it, or the text next to it, read differently.

const UNSAFE = /[\p{Cc}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

export const UNSAFE_TEXT_MESSAGE =
  "must not contain control characters, line breaks or bidirectional control characters";

export function isSafeText(text: string): boolean {
  return text.search(UNSAFE) < 0;
}

/** For terminals, and for text that was stored before the check existed. */
export function replaceUnsafe(text: string): string {
  return text.replaceAll(UNSAFE, "\ufffd");
}
