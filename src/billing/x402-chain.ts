// The chain itself, read through a node, for payments whose outcome the facilitator cannot tell. A nonce that is used
// proves nothing: its owner can use it up by cancelling, or on another transfer. What proves a payment is the token's own
// two lines about it, one directly after the other: this authorization was used, and so much went to this payee.

import { z } from "zod";
import type { Secret } from "../base/secret.ts";
import { ask } from "./x402-ask.ts";
import { isSame, type SignedPayment } from "./x402-terms.ts";

/** keccak-256 of `AuthorizationUsed(address,bytes32)` and of `Transfer(address,address,uint256)`. */
const AUTHORIZATION_USED = "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5";
const TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";

const ANSWER_MS = 10_000;
/** A transaction of many calls has a long receipt. */
const ANSWER_MAX_BYTES = 8 * 1_048_576;
/** Nodes answer about ten thousand blocks at once, and no more. */
const BLOCKS_AT_ONCE = 9_000n;
const LOOKS_MAX = 40;
/** The chain's clock and ours need not agree. */
const SKEW_MS = 60_000;

export interface Chain {
  /** Looks back to the time since which a payment may be there; throws where it cannot see as far. */
  readonly find: (payment: SignedPayment, since: number) => Promise<Found>;
}

export type Found =
  | { readonly kind: "paid"; readonly transaction: string }
  /** Not so far, by the chain's own clock. */
  | { readonly kind: "absent"; readonly at: number };

const quantity = z
  .string()
  .regex(/^0x[0-9a-fA-F]+$/)
  .transform((text) => BigInt(text));
const Block = z.object({ number: quantity, timestamp: quantity });
const LogLine = z.object({
  address: z.string(),
  topics: z.array(z.string()),
  data: z.string(),
  logIndex: quantity,
  transactionHash: z.string().regex(/^0x[0-9a-fA-F]{64}$/),
});
const Answered = z.object({ result: z.unknown() });
const MinedReceipt = z.object({ status: quantity, logs: z.array(LogLine) });

export function openChain(rpcUrl: Secret): Chain {
  return {
    find: async (payment, since) => {
      await demandChain(rpcUrl, payment.accepted.network);
      const latest = await blockAt(rpcUrl, "latest");
      let last = latest.number;
      for (let looks = 0; looks < LOOKS_MAX; looks++) {
        const first = last > BLOCKS_AT_ONCE ? last - BLOCKS_AT_ONCE : 0n;
        for (const line of await usesOf(rpcUrl, payment, [first, last]))
          if (await paidBy(rpcUrl, payment, line))
            return { kind: "paid", transaction: line.transactionHash.toLowerCase() };
        const { at } = await blockAt(rpcUrl, hex(first));
        if (first === 0n || at < since - SKEW_MS) return { kind: "absent", at: latest.at };
        last = first;
      }
      throw new Error("the payment is too long ago to be looked for");
    },
  };
}

/** On another chain nothing would be found, and that would be believed. */
async function demandChain(rpcUrl: Secret, network: string): Promise<void> {
  const id = quantity.parse(await call(rpcUrl, "eth_chainId", []));
  if (`eip155:${id}` !== network) throw new Error(`the node is of the chain ${id}`);
}

async function blockAt(
  rpcUrl: Secret,
  name: string,
): Promise<{ readonly number: bigint; readonly at: number }> {
  const block = Block.parse(await call(rpcUrl, "eth_getBlockByNumber", [name, false]));
  return { number: block.number, at: Number(block.timestamp) * 1_000 };
}

async function usesOf(
  rpcUrl: Secret,
  { accepted, payload }: SignedPayment,
  [first, last]: readonly [bigint, bigint],
): Promise<readonly z.infer<typeof LogLine>[]> {
  const { from, nonce } = payload.authorization;
  const filter = {
    address: accepted.asset,
    topics: [AUTHORIZATION_USED, wordOf(from), nonce],
    fromBlock: hex(first),
    toBlock: hex(last),
  };
  return z.array(LogLine).parse(await call(rpcUrl, "eth_getLogs", [filter]));
}

async function paidBy(
  rpcUrl: Secret,
  { accepted, payload }: SignedPayment,
  used: z.infer<typeof LogLine>,
): Promise<boolean> {
  const { from, to, value } = payload.authorization;
  const receipt = MinedReceipt.parse(
    await call(rpcUrl, "eth_getTransactionReceipt", [used.transactionHash]),
  );
  const next = receipt.logs.find(({ logIndex }) => logIndex === used.logIndex + 1n);
  if (receipt.status !== 1n || next === undefined) return false;
  const [kind = "", sender = "", taker = ""] = next.topics;
  return (
    isSame(next.address, accepted.asset) &&
    isSame(kind, TRANSFER) &&
    isSame(sender, wordOf(from)) &&
    isSame(taker, wordOf(to)) &&
    BigInt(next.data) === BigInt(value)
  );
}

async function call(rpcUrl: Secret, method: string, params: readonly unknown[]): Promise<unknown> {
  const { status, body } = await ask(rpcUrl.reveal(), {
    body: { jsonrpc: "2.0", id: 1, method, params },
    timeoutMs: ANSWER_MS,
    answerMaxBytes: ANSWER_MAX_BYTES,
  });
  const answer = Answered.safeParse(body);
  if (answer.data?.result === undefined) throw new Error(`${method} was answered with ${status}`);
  return answer.data.result;
}

function hex(number: bigint): string {
  return `0x${number.toString(16)}`;
}

/** An address as a topic is 32 bytes long. */
function wordOf(address: string): string {
  return `0x${address.slice(2).toLowerCase().padStart(64, "0")}`;
}
