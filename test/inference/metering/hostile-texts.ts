// Texts of random characters, the same in each run, with the number of their tokens.

/** Words of these letters with a length between `min` and `max`, or characters of a range of code points. */
type Characters =
  | { readonly letters: string; readonly min: number; readonly max: number }
  | { readonly from: number; readonly to: number };

const LOWER = "abcdefghijklmnopqrstuvwxyz";
const words = (letters: string, min: number, max = min): Characters => ({ letters, min, max });
const range = (from: number, to: number): Characters => ({ from, to });

export const HOSTILE_TEXTS: readonly (readonly [
  name: string,
  characters: Characters,
  tokens: number,
])[] = [
  ["words of 1 to 3 letters", words(LOWER, 1, 3), 802],
  ["words of 4 letters", words(LOWER, 4), 1356],
  ["words of 5 letters", words(LOWER, 5), 1689],
  ["words of 8 letters", words(LOWER, 8), 2593],
  ["words of 16 letters", words(LOWER, 16), 5084],
  ["words of 17 to 40 letters", words(LOWER, 17, 40), 9101],
  ["rare letters", words("qzxjkv", 4), 1685],
  ["frequent letters", words("etaoinshrdlu", 4, 12), 2162],
  ["syllables", words("taeiounrs", 3, 9), 1571],
  ["capitals", words(LOWER.toUpperCase(), 3, 6), 1620],
  ["both cases", words(LOWER + LOWER.toUpperCase(), 6), 2360],
  ["base64", words(`${LOWER}${LOWER.toUpperCase()}0123456789+/`, 40), 16603],
  ["hexadecimal", words("0123456789abcdef", 32), 11523],
  ["punctuation", words("!#$%&()*+,-./:;<=>?@[]^_{|}~", 3), 1403],
  ["control characters", range(0x1, 0x9), 600],
  ["C1 controls", range(0x80, 0xa0), 1094],
  ["accented letters", range(0xc0, 0x180), 769],
  ["phonetic letters", range(0x250, 0x2b0), 1153],
  ["combining marks", range(0x300, 0x370), 1135],
  ["Greek", range(0x391, 0x3ca), 592],
  ["Cyrillic", range(0x410, 0x450), 536],
  ["historic Cyrillic", range(0x480, 0x530), 1079],
  ["Armenian", range(0x531, 0x557), 702],
  ["Hebrew", range(0x5d0, 0x5eb), 440],
  ["Arabic", range(0x620, 0x650), 574],
  ["Syriac", range(0x710, 0x74b), 1200],
  ["Devanagari", range(0x904, 0x94d), 659],
  ["Tamil", range(0xb85, 0xbcd), 871],
  ["Thai", range(0xe01, 0xe3b), 644],
  ["Tibetan", range(0xf40, 0xfb0), 1198],
  ["Ethiopic", range(0x1200, 0x1380), 1200],
  ["Cherokee", range(0x13a0, 0x13f6), 1800],
  ["arrows and symbols", range(0x2190, 0x2600), 1297],
  ["Braille", range(0x2800, 0x2900), 1778],
  ["kana", range(0x3041, 0x3100), 728],
  ["rare Chinese", range(0x3400, 0x4dbf), 1782],
  ["Chinese", range(0x4e00, 0x9fff), 1151],
  ["Yi", range(0xa000, 0xa48d), 1793],
  ["Hangul", range(0xac00, 0xd7a4), 1349],
  ["private use", range(0xe000, 0xf8ff), 1748],
  ["full width", range(0xff01, 0xffef), 1031],
  ["emoji", range(0x1f300, 0x1f650), 1319],
  ["cuneiform", range(0x12000, 0x123ff), 2392],
  ["Chinese beyond the BMP", range(0x20000, 0x2a6df), 2383],
  ["tags", range(0xe0020, 0xe007f), 2190],
];

const ITEMS = 600;

export function randomText(characters: Characters): string {
  let state = 7;
  const below = (limit: number): number => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fff_ffff;
    return (state >>> 8) % limit;
  };
  const item = (): string => {
    if ("from" in characters)
      return String.fromCodePoint(characters.from + below(characters.to - characters.from));
    const { letters, min, max } = characters;
    const length = min + below(max - min + 1);
    return `${Array.from({ length }, () => letters[below(letters.length)]).join("")} `;
  };
  return Array.from({ length: ITEMS }, item).join("");
}
