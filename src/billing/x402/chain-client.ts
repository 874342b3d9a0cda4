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
import { type SignedCeiling, UPTO_PROXY } from "./upto-messages.ts";
import { equalsIgnoreCase, type SignedPayment } from "./x402-messages.ts";

/** keccak-256 of `AuthorizationUsed(address,bytes32)` and of `Transfer(address,address,uint256)`. */
const AUTHORIZATION_USED_TOPIC =
  "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5";
const TRANSFER_TOPIC = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";

/** Selector of `balanceOf(address)`. */
const BALANCE_OF = "0x70a08231";

/** Many nodes limit `eth_getLogs` to 10,000 blocks. */
const BLOCKS_PER_QUERY = 9_000n;
const QUERIES_MAX = 40;
/** Tolerated difference between the chain's clock and this machine's. */
const CLOCK_SKEW_MS = MINUTE_MS;

export interface ChainClient {
  /** Searches back to `since`. Throws if the search does not reach that far. */
  readonly findPayment: (payment: SignedPayment, since: number) => Promise<ChainLookup>;
  /** The same for a ceiling of which `units` were settled. */
  readonly findSettlement: (
    ceiling: SignedCeiling,
    units: bigint,
    since: number,
  ) => Promise<ChainLookup>;
  /** The payer's balance of the token, in its units. */
  readonly balanceOf: (ceiling: SignedCeiling) => Promise<bigint>;
}

export type ChainLookup =
  | {
      readonly kind: "paid";
      readonly transaction: string;
      /** How many payments the transaction makes that are equal to the one found. */
      readonly payments: number;
    }
  /** Not found in the blocks up to `at`, by the chain's clock. */
  | { readonly kind: "absent"; readonly at: number };

export function createChainClient(rpcUrl: Secret): ChainClient {
  return {
    findPayment: (payment, since) => {
      const { from, nonce } = payment.payload.authorization;
      const topics = [AUTHORIZATION_USED_TOPIC, addressTopic(from), nonce];
      const count = async (entry: Entry) => ((await isPaidBy(rpcUrl, payment, entry)) ? 1 : 0);
      return findLog(rpcUrl, { ...payment.accepted, topics, since, count });
    },
    findSettlement: (ceiling, units, since) => {
      const { from, witness } = ceiling.payload.permit2Authorization;
      const topics = [TRANSFER_TOPIC, addressTopic(from), addressTopic(witness.to)];
      const isFound = async (entry: Entry) =>
        BigInt(entry.data) === units && (await isSettledBy(rpcUrl, { ceiling, units }, entry));
      const count = async (entry: Entry) =>
        (await isFound(entry)) ? await countTransfers(rpcUrl, entry) : 0;
      return findLog(rpcUrl, { ...ceiling.accepted, topics, since, count });
    },
    balanceOf: async ({ accepted, payload }) => {
      await requireNetwork(rpcUrl, accepted.network);
      const account = addressTopic(payload.permit2Authorization.from).slice(2);
      return await readUint(rpcUrl, accepted.asset, BALANCE_OF + account);
    },
  };
}

type Entry = z.infer<typeof LogEntry>;

interface LogSearch {
  readonly network: string;
  /** The contract that logs. */
  readonly asset: string;
  readonly topics: readonly string[];
  readonly since: number;
  /** How many payments it proves. */
  readonly count: (entry: Entry) => Promise<number>;
}

async function findLog(
  rpcUrl: Secret,
  { network, asset: address, topics, since, count }: LogSearch,
): Promise<ChainLookup> {
  await requireNetwork(rpcUrl, network);
  const latest = await fetchBlock(rpcUrl, "latest");
  let last = latest.number;
  for (let queries = 0; queries < QUERIES_MAX; queries++) {
    const first = last > BLOCKS_PER_QUERY ? last - BLOCKS_PER_QUERY : 0n;
    const filter = { address, topics, fromBlock: toHex(first), toBlock: toHex(last) };
    const entries = z.array(LogEntry).parse(await callRpc(rpcUrl, "eth_getLogs", [filter]));
    for (const entry of entries) {
      const payments = await count(entry);
      if (payments > 0)
        return { kind: "paid", transaction: entry.transactionHash.toLowerCase(), payments };
    }
    const { at } = await fetchBlock(rpcUrl, toHex(first));
    if (first === 0n || at < since - CLOCK_SKEW_MS) return { kind: "absent", at: latest.at };
    last = first;
  }
  throw new Error("the payment is too old to be looked up");
}

const Transaction = z.object({ to: z.string().nullable(), input: z.string() });

/** Where the arguments begin in the input of `settle`, and in that of `settleWithPermit`, which has five words before them. */
const ARGUMENT_POSITIONS = [10, 10 + 5 * 64];

/**
 * Whether the transaction of the log entry settled this authorization. That its input has the nonce proves nothing: a wallet can
 * choose one that is a word of another settlement, such as its own address, and the rest of its input by a long signature.
 */
async function isSettledBy(
  rpcUrl: Secret,
  { ceiling, units }: { readonly ceiling: SignedCeiling; readonly units: bigint },
  { transactionHash }: Entry,
): Promise<boolean> {
  const sent = await callRpc(rpcUrl, "eth_getTransactionByHash", [transactionHash]);
  const { to, input } = Transaction.parse(sent);
  const { permitted, nonce, deadline, from } = ceiling.payload.permit2Authorization;
  const words = [permitted.token, permitted.amount, nonce, deadline, units, from]
    .map((word) => BigInt(word).toString(16).padStart(64, "0"))
    .join("");
  const data = input.toLowerCase();
  // A facilitator may call the proxy through a contract of its own.
  return equalsIgnoreCase(to ?? "", UPTO_PROXY)
    ? ARGUMENT_POSITIONS.some((position) => data.startsWith(words, position))
    : data.includes(words);
}

/** How many transfers like this one its transaction has. One that follows an `AuthorizationUsed` pays an invoice. */
async function countTransfers(rpcUrl: Secret, found: Entry): Promise<number> {
  const { logs } = await fetchReceipt(rpcUrl, found);
  const ofToken = logs.filter(({ address }) => equalsIgnoreCase(address, found.address));
  const authorizations = ofToken.filter(({ topics: [kind = ""] }) =>
    equalsIgnoreCase(kind, AUTHORIZATION_USED_TOPIC),
  );
  const authorized = new Set(authorizations.map(({ logIndex }) => logIndex + 1n));
  const fieldsOf = ({ topics, data }: Entry): string => [...topics, data].join(" ").toLowerCase();
  return ofToken.filter((log) => fieldsOf(log) === fieldsOf(found) && !authorized.has(log.logIndex))
    .length;
}

async function fetchReceipt(
  rpcUrl: Secret,
  { transactionHash }: Entry,
): Promise<TransactionReceipt> {
  const receipt = await callRpc(rpcUrl, "eth_getTransactionReceipt", [transactionHash]);
  return TransactionReceipt.parse(receipt);
}

async function readUint(rpcUrl: Secret, to: string, data: string): Promise<bigint> {
  const result = await callRpc(rpcUrl, "eth_call", [{ to, data }, "latest"]);
  return BigInt(
    z
      .string()
      .regex(/^0x[0-9a-fA-F]{1,64}$/)
      .parse(result),
  );
}

async function isPaidBy(
  rpcUrl: Secret,
  { accepted, payload }: SignedPayment,
  used: Entry,
): Promise<boolean> {
  const { from, to, value } = payload.authorization;
  const receipt = await fetchReceipt(rpcUrl, used);
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
