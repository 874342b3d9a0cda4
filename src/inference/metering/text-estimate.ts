// Estimates the tokens of a text: as many as OpenAI's tokenizers count or somewhat more, also for adversarial text.

const LETTERS_PER_TOKEN = 4;
const CAPITALS_PER_TOKEN = 3;
/** No word is longer; such a run is an identifier or encoded data. */
const WORD_MAX_LETTERS = 16;
const RANDOM_LETTERS_PER_TOKEN = 1.7;
/** Several tokenizers split numbers into digits. */
const TOKENS_PER_DIGIT = 1;
const REPEATED_PER_TOKEN = 4;

/**
 * The letters that follow each letter from a to z in 97% of pairs, counted in 6 MB of English text and code. Tokenizers split
 * words at most of the others.
 */
const COMMON_PAIRS =
  "bcdgilmnprstuvwxy aeijloruy acehiklortu abdeiorsuy abcdefgilmnopqrstvwxy aefiortu aehinorsu aeiortu abcdefglmnoprstv es eis adeilostuy abeimopsu acdefgiklnopstuvy bcdfgiklmnoprstuvw aeiloprstu u acdefgiklmnorstuvy acehiopstuy acehiloprstuwxy bcdeilmnprst aeio aehinors pt mnopst -";
const LETTERS = 26;
const isCommonPair = new Uint8Array(LETTERS * LETTERS);
for (const [first, followers] of COMMON_PAIRS.split(" ").entries())
  for (const second of followers.replace("-", ""))
    isCommonPair[first * LETTERS + second.charCodeAt(0) - 97] = 1;

/** Tokens per UTF-16 unit from each code on, for random letters of a script. Words of a language have fewer. */
const SCRIPTS: readonly (readonly [from: number, tokens: number])[] = [
  [0x80, 2],
  [0xc0, 1.3],
  [0x180, 2],
  [0x391, 1.1],
  [0x3ca, 2],
  [0x410, 0.95],
  [0x450, 2],
  [0x5d0, 0.8],
  [0x5eb, 2],
  [0x620, 1.1],
  [0x650, 2],
  [0x8_00, 3],
  [0x9_00, 1.6],
  [0xe_00, 1.5],
  [0xe_80, 3],
  [0x20_00, 1.8],
  [0x20_70, 2.2],
  [0x26_00, 3],
  [0x30_00, 1.4],
  [0x31_00, 3],
  [0x4e_00, 2],
  [0xa0_00, 3],
  [0xac_00, 2.3],
  [0xd7_a4, 3],
  // Each half of a surrogate pair.
  [0xd8_00, 2],
  [0xe0_00, 3],
  [0xff_00, 2],
];

export function estimateTextTokens(text: string): number {
  let tokens = 0;
  let at = 0;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    const start = at;
    at += 1;
    if (isLower(code) || isUpper(code)) {
      const isCapitals = isUpper(code) && isUpper(text.charCodeAt(at));
      while (isCapitals ? isUpper(text.charCodeAt(at)) : isLower(text.charCodeAt(at))) at += 1;
      tokens += wordTokens(text, start, at, isCapitals);
    } else if (code >= 48 && code <= 57) tokens += TOKENS_PER_DIGIT;
    else if (code >= 0x80) tokens += scriptTokens(code);
    else if (code < 32 && !isWhitespace(code)) tokens += 1;
    else {
      while (text.charCodeAt(at) === code) at += 1;
      // A single space belongs to the word after it.
      if (code !== 32 || at - start > 1) tokens += Math.ceil((at - start) / REPEATED_PER_TOKEN);
    }
  }
  return tokens;
}

function wordTokens(text: string, start: number, end: number, isCapitals: boolean): number {
  const letters = end - start;
  if (letters > WORD_MAX_LETTERS) return Math.ceil(letters / RANDOM_LETTERS_PER_TOKEN);
  let rarePairs = 0;
  for (let at = start + 1; at < end; at++) {
    const pair = letterAt(text, at - 1) * LETTERS + letterAt(text, at);
    if (isCommonPair[pair] === 0) rarePairs += 1;
  }
  return rarePairs + Math.ceil(letters / (isCapitals ? CAPITALS_PER_TOKEN : LETTERS_PER_TOKEN));
}

/** 0 for a and A. */
function letterAt(text: string, at: number): number {
  return (text.charCodeAt(at) | 0x20) - 97;
}

function scriptTokens(code: number): number {
  let tokens = 0;
  for (const [from, perUnit] of SCRIPTS) {
    if (code < from) break;
    tokens = perUnit;
  }
  return tokens;
}

function isWhitespace(code: number): boolean {
  return code === 9 || code === 10 || code === 13;
}

function isLower(code: number): boolean {
  return code >= 97 && code <= 122;
}

function isUpper(code: number): boolean {
  return code >= 65 && code <= 90;
}
