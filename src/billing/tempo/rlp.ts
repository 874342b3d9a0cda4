// RLP, the encoding of Ethereum's transactions: bytes and lists of bytes.

/** Calls are three levels below the transaction. */
const DEPTH_MAX = 8;

export type RlpItem = Uint8Array | readonly RlpItem[];

/** Undefined unless the bytes are exactly one item in the canonical form. */
export function decodeRlp(bytes: Uint8Array): RlpItem | undefined {
  const decoded = decodeItem(bytes, 0);
  return decoded?.rest.length === 0 ? decoded.item : undefined;
}

interface Decoded {
  readonly item: RlpItem;
  readonly rest: Uint8Array;
}

function decodeItem(bytes: Uint8Array, depth: number): Decoded | undefined {
  const [first] = bytes;
  if (first === undefined || depth > DEPTH_MAX) return undefined;
  if (first < 0x80) return { item: bytes.subarray(0, 1), rest: bytes.subarray(1) };
  const isList = first >= 0xc0;
  const payload = readPayload(bytes, first - (isList ? 0xc0 : 0x80));
  if (payload === undefined) return undefined;
  const { content, rest } = payload;
  if (!isList) {
    const [only] = content;
    const isCanonical = content.length !== 1 || (only !== undefined && only >= 0x80);
    return isCanonical ? { item: content, rest } : undefined;
  }
  const items: RlpItem[] = [];
  let remaining = content;
  while (remaining.length > 0) {
    const decoded = decodeItem(remaining, depth + 1);
    if (decoded === undefined) return undefined;
    items.push(decoded.item);
    remaining = decoded.rest;
  }
  return { item: items, rest };
}

/** `size` is the length up to 55; above that, 55 plus the number of bytes that contain the length. */
function readPayload(
  bytes: Uint8Array,
  size: number,
): { readonly content: Uint8Array; readonly rest: Uint8Array } | undefined {
  const lengthBytes = Math.max(0, size - 55);
  const start = 1 + lengthBytes;
  let length = size;
  if (lengthBytes > 0) {
    // Four bytes of length are far more than a credential can have.
    if (lengthBytes > 4 || bytes[1] === 0) return undefined;
    length = bytes.subarray(1, start).reduce((sum, byte) => sum * 256 + byte, 0);
    if (length < 56) return undefined;
  }
  const end = start + length;
  return end > bytes.length
    ? undefined
    : { content: bytes.subarray(start, end), rest: bytes.subarray(end) };
}
