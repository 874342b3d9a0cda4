// Reads a signed Tempo transaction (type 0x76) and checks that it pays a challenge. Only the chain verifies its signature.

import { keccak_256 } from "@noble/hashes/sha3";
import { equalsIgnoreCase } from "../x402/x402-messages.ts";
import { decodeRlp, type RlpItem } from "./rlp.ts";

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
