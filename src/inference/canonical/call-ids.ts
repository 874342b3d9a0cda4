// Tool-call ids have a grammar at some providers. Every id that does not fit is encoded so that it can be decoded again
// when the caller brings it back; one that is too long for that is replaced by a digest of itself, the same each time.

export type CallIdFormat = "any" | "token64" | "alphanumeric9";

const TOKEN64 = /^[A-Za-z0-9_-]{1,64}$/;
const ALPHANUMERIC9 = /^[A-Za-z0-9]{9}$/;
const ENCODED_PREFIX = "pstx_";
const DIGEST_PREFIX = "psth_";
const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** The id in the form `^[A-Za-z0-9_-]{1,64}$`; itself where it has that form already. */
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

/** An id for a call that the provider did not name: of the reply's id, so that ids stay apart over a conversation. */
export function mintCallId(replyId: string, index: number): string {
  return `call_${replyId.replaceAll(/[^A-Za-z0-9]/g, "").slice(-24)}_${index}`;
}

export interface CallIds {
  /** The id to write for a call, in the order of the conversation. A reused id gets one of its own. */
  forCall(id: string): string;
  /** The id to write for the result of the latest call of that id. */
  forResult(id: string): string;
}

export function createCallIds(format: CallIdFormat): CallIds {
  const idsByOriginal = new Map<string, string>();
  const usedIds = new Set<string>();
  const forCall = (id: string) => {
    let fitted = formatCallId(id, format, 0);
    for (let attempt = 1; usedIds.has(fitted); attempt++)
      fitted = formatCallId(`${id}_${attempt}`, format, attempt);
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

/** Nine characters from two FNV-1a hashes. No secret depends on it, and a collision within a request is seen by who asks. */
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
