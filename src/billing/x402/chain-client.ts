// Looks up payments on the chain through an RPC node, if the facilitator does not know their outcome. A used nonce alone
// proves nothing: the payer can cancel it or use it for another transfer. A payment is proved by two consecutive log
// entries of the token: `AuthorizationUsed` for payer and nonce, then the `Transfer` of the amount to the payee.

import { z } from "zod";
import type { Secret } from "../../base/secret.ts";
import { MINUTE_MS } from "../../base/time.ts";
import { postJson } from "./post-json.ts";
import { equalsIgnoreCase, type SignedPayment } from "./protocol.ts";

/** keccak-256 of `AuthorizationUsed(address,bytes32)` and of `Transfer(address,address,uint256)`. */
const AUTHORIZATION_USED_TOPIC =
  "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5";
const TRANSFER_TOPIC = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";

const RPC_TIMEOUT_MS = 10_000;
/** Receipts of transactions with many calls are long. */
const RESPONSE_MAX_BYTES = 8 * 1_048_576;
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
  /** Not found up to `at`, by the chain's clock. */
  | { readonly kind: "absent"; readonly at: number };

const quantity = z
  .string()
  .regex(/^0x[0-9a-fA-F]+$/)
  .transform((text) => BigInt(text));
const Block = z.object({ number: quantity, timestamp: quantity });
const LogEntry = z.object({
  address: z.string(),
  topics: z.array(z.string()),
  data: z.string(),
  logIndex: quantity,
  transactionHash: z.string().regex(/^0x[0-9a-fA-F]{64}$/),
});
const RpcResponse = z.object({ result: z.unknown() });
const TransactionReceipt = z.object({ status: quantity, logs: z.array(LogEntry) });

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
        const { at } = await fetchBlock(rpcUrl, hex(first));
        if (first === 0n || at < since - CLOCK_SKEW_MS) return { kind: "absent", at: latest.at };
        last = first;
      }
      throw new Error("the payment is too old to be looked up");
    },
  };
}

/** A node of another chain would find nothing, which would count as "not paid". */
async function requireNetwork(rpcUrl: Secret, network: string): Promise<void> {
  const id = quantity.parse(await callRpc(rpcUrl, "eth_chainId", []));
  if (`eip155:${id}` !== network) throw new Error(`the node belongs to chain ${id}`);
}

async function fetchBlock(
  rpcUrl: Secret,
  name: string,
): Promise<{ readonly number: bigint; readonly at: number }> {
  const block = Block.parse(await callRpc(rpcUrl, "eth_getBlockByNumber", [name, false]));
  return { number: block.number, at: Number(block.timestamp) * 1_000 };
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
    fromBlock: hex(first),
    toBlock: hex(last),
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

async function callRpc(
  rpcUrl: Secret,
  method: string,
  params: readonly unknown[],
): Promise<unknown> {
  const { status, body } = await postJson(rpcUrl.reveal(), {
    body: { jsonrpc: "2.0", id: 1, method, params },
    timeoutMs: RPC_TIMEOUT_MS,
    responseMaxBytes: RESPONSE_MAX_BYTES,
  });
  const response = RpcResponse.safeParse(body);
  if (response.data?.result === undefined)
    throw new Error(`${method} failed with status ${status}`);
  return response.data.result;
}

function hex(number: bigint): string {
  return `0x${number.toString(16)}`;
}

/** Log topics are padded to 32 bytes. */
function addressTopic(address: string): string {
  return `0x${address.slice(2).toLowerCase().padStart(64, "0")}`;
}
