// Ids sort by creation time, so a list is paginated by its ids alone.

const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz";
const POOL_BYTES = 8_192;
const RANDOM_BYTES = 16;
const TIME_CHARACTERS = 10;

export const ID_PREFIXES = [
  "acct",
  "key",
  "claim",
  "req",
  "inv",
  "pk",
  "usr",
  "tr",
  "pt",
  "evt",
  "whk",
  "dev",
  "grant",
  "dlv",
  "eml",
  "aud",
  "ses",
  "inst",
  "resp",
  "tup",
  "pmt",
  "quo",
  "inc",
  "iup",
  "batch",
  "pbatch",
  "file",
  "sso",
  "scu",
  "scg",
  "slv",
  "scr",
] as const;
export type IdPrefix = (typeof ID_PREFIXES)[number];

const pool = new Uint8Array(POOL_BYTES);
let poolOffset = POOL_BYTES;
const idCharacters = Buffer.alloc(RANDOM_BYTES);

/** The last two characters count the milliseconds of about a second, in which the others stay the same. */
const LOW_MS = 1_024;
let cachedHigh = -1;
let cachedHighText = "";

/** A prefix, ten characters of time and sixteen random ones (80 bits). */
export function newId(prefix: IdPrefix, now: number): string {
  const high = Math.floor(now / LOW_MS);
  if (high !== cachedHigh) {
    cachedHighText = encodeTime(now).slice(0, -2);
    cachedHigh = high;
  }
  const low = now - high * LOW_MS;
  const from = takeRandom(RANDOM_BYTES);
  for (let index = 0; index < RANDOM_BYTES; index++)
    idCharacters[index] = ALPHABET.charCodeAt((pool[from + index] ?? 0) & 31);
  const time = cachedHighText + ALPHABET.charAt(low >> 5) + ALPHABET.charAt(low & 31);
  return `${prefix}_${time}${idCharacters.toString("latin1")}`;
}

/** An id that sorts after `last`, even in the same millisecond or after the clock stepped back. */
export function newIdAfter(prefix: IdPrefix, now: number, last: string): string {
  return newId(prefix, isId(prefix, last) ? Math.max(now, decodeTime(prefix, last) + 1) : now);
}

/** Sorts before every id of this time or later. */
export function minIdAt(prefix: IdPrefix, at: number): string {
  return `${prefix}_${encodeTime(Math.max(0, at))}`;
}

/** The time in an id; undefined for text that is not an id. Cursors may be shorter than ids. */
export function idTime(prefix: IdPrefix, id: string): number | undefined {
  const isTimed = id.startsWith(`${prefix}_`) && id.length >= prefix.length + 1 + TIME_CHARACTERS;
  const time = isTimed ? decodeTime(prefix, id) : Number.NaN;
  return Number.isSafeInteger(time) && time >= 0 ? time : undefined;
}

function decodeTime(prefix: IdPrefix, id: string): number {
  const from = prefix.length + 1;
  let time = 0;
  for (const letter of id.slice(from, from + TIME_CHARACTERS))
    time = time * ALPHABET.length + ALPHABET.indexOf(letter);
  return time;
}

function encodeTime(now: number): string {
  let time = "";
  let rest = now;
  for (let index = 0; index < TIME_CHARACTERS; index++) {
    time = ALPHABET.charAt(rest % 32) + time;
    rest = Math.floor(rest / 32);
  }
  return time;
}

/** Checks only the format: a cheap test before a database lookup. */
export function isId(prefix: IdPrefix, text: string): boolean {
  return (
    text.length === prefix.length + 27 &&
    text.startsWith(`${prefix}_`) &&
    /^[0-9a-z]{26}$/.test(text.slice(-26))
  );
}

// Returns an offset into `pool`. Random bytes are read in blocks, so that one system call serves hundreds of ids.
function takeRandom(count: number): number {
  if (poolOffset + count > POOL_BYTES) {
    crypto.getRandomValues(pool);
    poolOffset = 0;
  }
  poolOffset += count;
  return poolOffset - count;
}
