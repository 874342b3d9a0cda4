// Texts that one party gives and another is shown, such as the name of a key on the page of its claim. A mark of text
// direction can turn such a name, and what stands beside it, into something else.

const UNSAFE = /[\p{Cc}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

export const UNSAFE_TEXT_MESSAGE =
  "must not hold control characters, line breaks or marks of text direction";

export function isSafeText(text: string): boolean {
  return text.search(UNSAFE) < 0;
}

/** For a terminal, where nothing isolates a text that was stored before such ones were refused. */
export function replaceUnsafe(text: string): string {
  return text.replaceAll(UNSAFE, "\ufffd");
}
