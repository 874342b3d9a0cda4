// Looks up payments on the chain through an RPC node, if the facilitator does not know their outcome. A used nonce alone
// proves nothing: the payer can cancel it or use it for another transfer. A payment is proved by two consecutive log
// entries of the token: `AuthorizationUsed` for payer and nonce, then the `Transfer` of the amount to the payee.

import { z } from "zod";
import type { Secret } from "../../base/crypto/secret.ts";
import { MINUTE_MS } from "../../base/time.ts";
import {
  addressTopic,
  callRpc,
  fetchBlock,
  LogEntry,
  requireNetwork,
  toHex,
  TransactionReceipt,
} from "./rpc-node.ts";
import { equalsIgnoreCase, type SignedPayment } from "./x402-messages.ts";

/** keccak-256 of `AuthorizationUsed(address,bytes32)` and of `Transfer(address,address,uint256)`. */
const AUTHORIZATION_USED_TOPIC =
  "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5";
const TRANSFER_TOPIC = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";

/** Many nodes limit `eth_getLogs` to 10,000 blocks. */
const BLOCKS_PER_QUERY = 9_000n;
const QUERIES_MAX = 40;
/** Tolerated difference between the chain's clock and this machine's. */
const CLOCK_SKEW_MS = MINUTE_MS;

export interface ChainClient {
  /** Searches back to `since`. Throws if the search does not reach that far. */
  readonly findPayment: (payment: SignedPayment, since: number) => Promise<ChainLookup>;
}

export type ChainLookup =
  | { readonly kind: "paid"; readonly transaction: string }
  /** Not found in the blocks up to `at`, by the chain's clock. */
  | { readonly kind: "absent"; readonly at: number };

export function createChainClient(rpcUrl: Secret): ChainClient {
  return {
    findPayment: async (payment, since) => {
      await requireNetwork(rpcUrl, payment.accepted.network);
      const latest = await fetchBlock(rpcUrl, "latest");
      let last = latest.number;
      for (let queries = 0; queries < QUERIES_MAX; queries++) {
        const first = last > BLOCKS_PER_QUERY ? last - BLOCKS_PER_QUERY : 0n;
        for (const entry of await fetchAuthorizationLogs(rpcUrl, payment, [first, last]))
          if (await isPaidBy(rpcUrl, payment, entry))
            return { kind: "paid", transaction: entry.transactionHash.toLowerCase() };
        const { at } = await fetchBlock(rpcUrl, toHex(first));
        if (first === 0n || at < since - CLOCK_SKEW_MS) return { kind: "absent", at: latest.at };
        last = first;
      }
      throw new Error("the payment is too old to be looked up");
    },
  };
}

async function fetchAuthorizationLogs(
  rpcUrl: Secret,
  { accepted, payload }: SignedPayment,
  [first, last]: readonly [bigint, bigint],
): Promise<readonly z.infer<typeof LogEntry>[]> {
  const { from, nonce } = payload.authorization;
  const filter = {
    address: accepted.asset,
    topics: [AUTHORIZATION_USED_TOPIC, addressTopic(from), nonce],
    fromBlock: toHex(first),
    toBlock: toHex(last),
  };
  return z.array(LogEntry).parse(await callRpc(rpcUrl, "eth_getLogs", [filter]));
}

async function isPaidBy(
  rpcUrl: Secret,
  { accepted, payload }: SignedPayment,
  used: z.infer<typeof LogEntry>,
): Promise<boolean> {
  const { from, to, value } = payload.authorization;
  const receipt = TransactionReceipt.parse(
    await callRpc(rpcUrl, "eth_getTransactionReceipt", [used.transactionHash]),
  );
  const next = receipt.logs.find(({ logIndex }) => logIndex === used.logIndex + 1n);
  if (receipt.status !== 1n || next === undefined) return false;
  const [kind = "", sender = "", recipient = ""] = next.topics;
  return (
    equalsIgnoreCase(next.address, accepted.asset) &&
    equalsIgnoreCase(kind, TRANSFER_TOPIC) &&
    equalsIgnoreCase(sender, addressTopic(from)) &&
    equalsIgnoreCase(recipient, addressTopic(to)) &&
    BigInt(next.data) === BigInt(value)
  );
}
