// The simulator's tokenizer: a token is four bytes of UTF-8; the last may be shorter. Text is cut only between characters.

const BYTES_PER_TOKEN = 4;

export function countTokens(text: string): number {
  return Math.ceil(utf8Length(text) / BYTES_PER_TOKEN);
}

/** The longest prefix of at most `tokens` tokens. */
export function cutToTokens(text: string, tokens: number): string {
  const maxBytes = tokens * BYTES_PER_TOKEN;
  if (text.length * 3 <= maxBytes) return text;
  let bytes = 0;
  let end = 0;
  for (const character of text) {
    bytes += utf8Length(character);
    if (bytes > maxBytes) return text.slice(0, end);
    end += character.length;
  }
  return text;
}

/** Cuts a text into `count` pieces of about equal length, or fewer if it has fewer characters. */
export function cutToPieces(text: string, count: number): string[] {
  if (text === "") return [];
  const pieces: string[] = [];
  const wanted = Math.max(1, Math.min(count, text.length));
  let start = 0;
  for (let index = 1; index <= wanted; index++) {
    let end = Math.round((text.length * index) / wanted);
    // Do not split a surrogate pair.
    if (isLowSurrogate(text.charCodeAt(end)) && end < text.length) end += 1;
    if (end > start) pieces.push(text.slice(start, end));
    start = Math.max(start, end);
  }
  return pieces;
}

const FILLER_WORDS = ["the", "sim", "can", "say", "any", "sum", "and", "all", "you", "ask", "for"];

/** A text of exactly `tokens` tokens: each three-letter word with its space is one. */
export function fillerText(tokens: number): string {
  const sentence = `${FILLER_WORDS.join(" ")} `;
  return sentence
    .repeat(Math.ceil(tokens / FILLER_WORDS.length))
    .slice(0, tokens * BYTES_PER_TOKEN);
}

function utf8Length(text: string): number {
  let bytes = text.length;
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code < 0x80) continue;
    // Each surrogate counts two bytes, so a pair counts the four bytes of its character.
    bytes += code < 0x800 || (code >= 0xd800 && code <= 0xdfff) ? 1 : 2;
  }
  return bytes;
}

function isLowSurrogate(code: number): boolean {
  return code >= 0xdc00 && code <= 0xdfff;
}
