// Reads a signed Tempo transaction (type 0x76) and checks that it pays a challenge. Only the chain verifies its signature.

import { keccak_256 } from "@noble/hashes/sha3";
import { equalsIgnoreCase } from "../x402/x402-messages.ts";

const TRANSACTION_TYPE = 0x76;
/** The type of a transaction that the sender has signed and whose fee payer has not. */
const FEE_PAYER_TYPE = 0x78;
/** Without and with a key authorization; the signature comes last. */
const FIELD_COUNTS = new Set([14, 15]);
/** `transferWithMemo(address,uint256,bytes32)`. */
const TRANSFER_SELECTOR = "95777d59";
const TRANSFER_DATA = new RegExp(`^${TRANSFER_SELECTOR}0{24}(.{40})(.{64})(.{64})$`);
/** `mpp` and the version of the memo, then 10 bytes of the realm, 10 of the client and 7 of the challenge. */
const MEMO_PREFIX = `${keccakHex("mpp").slice(0, 8)}01`;
/** The node refuses a transaction that ends sooner. */
const VALIDITY_MIN_MS = 4_000;

export interface TempoTransaction {
  /** Hex digits without `0x`. */
  readonly bytes: string;
  readonly hash: string;
  readonly chainId: bigint;
  readonly calls: readonly { readonly to: string; readonly value: bigint; readonly data: string }[];
  /** Unix seconds. */
  readonly validBefore: bigint | undefined;
  readonly validAfter: bigint;
  readonly isSponsored: boolean;
}

export interface TempoTerms {
  readonly chainId: bigint;
  readonly token: string;
  readonly payTo: string;
  /** In the token's smallest unit. */
  readonly amount: bigint;
  readonly challenge: { readonly id: string; readonly realm: string; readonly expiresAt: number };
}

/** The arguments of a transfer's call. */
export interface MemoTransfer {
  readonly recipient: string;
  readonly amount: bigint;
  readonly memo: string;
}

/** Undefined if these are not the bytes of a signed Tempo transaction. */
export function parseTransaction(hex: string): TempoTransaction | undefined {
  const bytes = Buffer.from(hex.slice(2), "hex");
  const [type] = bytes;
  if (type !== TRANSACTION_TYPE && type !== FEE_PAYER_TYPE) return undefined;
  const fields = listOf(decodeRlp(bytes.subarray(1)));
  if (fields === undefined || !FIELD_COUNTS.has(fields.length)) return undefined;
  const [chainId, , , , calls, , , , validBefore, validAfter, , feePayer] = fields;
  const parsedCalls = listOf(calls)?.map(parseCall);
  const numbers = [chainId, validBefore, validAfter].map(integerOf);
  const [chain, before, after] = numbers;
  if (chain === undefined || before === undefined || after === undefined) return undefined;
  if (parsedCalls === undefined || !parsedCalls.every((call) => call !== undefined))
    return undefined;
  return {
    bytes: bytes.toString("hex"),
    hash: `0x${Buffer.from(keccak_256(bytes)).toString("hex")}`,
    chainId: chain,
    calls: parsedCalls,
    validBefore: before === 0n ? undefined : before,
    validAfter: after,
    isSponsored: type === FEE_PAYER_TYPE || feePayer === undefined || feePayer.length > 0,
  };
}

/** Why the transaction does not pay the challenge; undefined if it does. */
export function mismatchReason(
  transaction: TempoTransaction,
  { chainId, token, payTo, amount, challenge }: TempoTerms,
  now: number,
): string | undefined {
  const { calls, validBefore, validAfter } = transaction;
  if (transaction.chainId !== chainId) return `the transaction is for chain ${transaction.chainId}`;
  if (transaction.isSponsored) return "the gateway does not pay the fee of the transaction";
  const [call, ...others] = calls;
  const transfer = call && transferOf(call.data);
  if (call === undefined || transfer === undefined || others.length > 0 || call.value !== 0n)
    return "the transaction must have one call, transferWithMemo";
  if (!equalsIgnoreCase(call.to, token)) return "the transfer is of another token";
  if (!equalsIgnoreCase(transfer.recipient, payTo)) return "the transfer is to another recipient";
  if (transfer.amount !== amount) return "the transfer is of another amount";
  if (!isBoundTo(transfer.memo, challenge)) return "the memo does not name the challenge";
  if (validBefore === undefined || expiresAtOf(validBefore) > challenge.expiresAt)
    return "the transaction is valid for longer than the challenge";
  if (expiresAtOf(validBefore) < now + VALIDITY_MIN_MS) return "the transaction has expired";
  if (validAfter * 1_000n > BigInt(now)) return "the transaction is not valid yet";
  return undefined;
}

export function transferOf(data: string): MemoTransfer | undefined {
  const [, recipient, amount, memo] = TRANSFER_DATA.exec(data) ?? [];
  if (recipient === undefined || amount === undefined || memo === undefined) return undefined;
  return { recipient: `0x${recipient}`, amount: BigInt(`0x${amount}`), memo };
}

function expiresAtOf(seconds: bigint): number {
  return Number(seconds) * 1_000;
}

/** The client may name itself in the bytes between realm and challenge. */
function isBoundTo(memo: string, { id, realm }: TempoTerms["challenge"]): boolean {
  const prefix = MEMO_PREFIX + keccakHex(realm).slice(0, 20);
  return memo.startsWith(prefix) && memo.endsWith(keccakHex(id).slice(0, 14));
}

function keccakHex(text: string): string {
  return Buffer.from(keccak_256(Buffer.from(text))).toString("hex");
}

function parseCall(item: RlpItem): TempoTransaction["calls"][number] | undefined {
  const [to, value, data, ...others] = listOf(item) ?? [];
  const amount = integerOf(value);
  if (amount === undefined || others.length > 0) return undefined;
  if (!(to instanceof Uint8Array) || !(data instanceof Uint8Array)) return undefined;
  return { to: `0x${hexOf(to)}`, value: amount, data: hexOf(data) };
}

function listOf(item: RlpItem | undefined): readonly RlpItem[] | undefined {
  return item === undefined || item instanceof Uint8Array ? undefined : item;
}

/** An integer of at most 256 bits. Zero is encoded as no bytes. */
function integerOf(item: RlpItem | undefined): bigint | undefined {
  if (!(item instanceof Uint8Array) || item.length > 32 || item[0] === 0) return undefined;
  return item.length === 0 ? 0n : BigInt(`0x${hexOf(item)}`);
}

function hexOf(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}

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
