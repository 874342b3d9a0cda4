// Some providers restrict the format of tool-call ids. An id that does not fit is encoded reversibly; one that is too long
// to encode is replaced by a digest, which is the same each time.

export type CallIdFormat = "any" | "token64" | "alphanumeric9";

const TOKEN64 = /^[A-Za-z0-9_-]{1,64}$/;
const ALPHANUMERIC9 = /^[A-Za-z0-9]{9}$/;
const ENCODED_PREFIX = "pstx_";
const DIGEST_PREFIX = "psth_";
const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** The id in the format `^[A-Za-z0-9_-]{1,64}$`; unchanged if it has that format. */
export function encodeCallId(id: string): string {
  if (TOKEN64.test(id) && !id.startsWith(ENCODED_PREFIX)) return id;
  const encoded = ENCODED_PREFIX + Buffer.from(id).toString("base64url");
  return encoded.length <= 64
    ? encoded
    : `${DIGEST_PREFIX}${shortDigest(id, 0)}${shortDigest(id, 1)}`;
}

export function decodeCallId(id: string): string {
  if (!id.startsWith(ENCODED_PREFIX)) return id;
  const decoded = Buffer.from(id.slice(ENCODED_PREFIX.length), "base64url").toString();
  return encodeCallId(decoded) === id ? decoded : id;
}

/** An id for a call that has none: derived from the reply's id, so that ids are unique over a conversation. */
export function mintCallId(replyId: string, index: number): string {
  return `call_${replyId.replaceAll(/[^A-Za-z0-9]/g, "").slice(-24)}_${index}`;
}

export interface CallIds {
  /** The id to write for the next call of the conversation. A reused id is replaced by a new one. */
  forCall(id: string): string;
  /** The id to write for the result of the latest call with this id. */
  forResult(id: string): string;
}

export function createCallIds(format: CallIdFormat): CallIds {
  const idsByOriginal = new Map<string, string>();
  const usedIds = new Set<string>();
  // Otherwise, n calls with one id would take n² steps.
  const nextAttempts = new Map<string, number>();
  const forCall = (id: string) => {
    let fitted = formatCallId(id, format, 0);
    if (usedIds.has(fitted)) {
      let attempt = nextAttempts.get(id) ?? 1;
      do fitted = formatCallId(`${id}_${attempt}`, format, attempt++);
      while (usedIds.has(fitted));
      nextAttempts.set(id, attempt);
    }
    usedIds.add(fitted);
    idsByOriginal.set(id, fitted);
    return fitted;
  };
  return { forCall, forResult: (id) => idsByOriginal.get(id) ?? formatCallId(id, format, 0) };
}

function formatCallId(id: string, format: CallIdFormat, salt: number): string {
  if (format === "any") return id;
  if (format === "token64") return encodeCallId(id);
  return ALPHANUMERIC9.test(id) ? id : shortDigest(id, salt);
}

/** Nine characters from two FNV-1a hashes. Not secure; callers check for collisions within a request. */
export function shortDigest(text: string, salt = 0): string {
  let low = 0x811c9dc5 ^ salt;
  let high = 0xcbf29ce4 ^ salt;
  for (let at = 0; at < text.length; at++) {
    low = Math.imul(low ^ text.charCodeAt(at), 0x01000193);
    high = Math.imul(high ^ text.charCodeAt(at), 0x01000199) ^ (low >>> 15);
  }
  let number = (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0);
  let out = "";
  for (let digit = 0; digit < 9; digit++) {
    out += ALPHABET.charAt(Number(number % 62n));
    number /= 62n;
  }
  return out;
}
