// Client of a node of the Tempo network: simulates a transfer, sends a transaction and finds its outcome. Blocks are final
// when they are made, so a receipt is proof.

import type { Secret } from "../../base/crypto/secret.ts";
import { Fault } from "../../base/fault.ts";
import { MINUTE_MS } from "../../base/time.ts";
import {
  addressTopic,
  callRpc,
  fetchBlock,
  requireNetwork,
  TransactionReceipt,
  tryRpc,
} from "../x402/rpc-node.ts";
import { equalsIgnoreCase } from "../x402/x402-messages.ts";
import type { MemoTransfer } from "./tempo-transaction.ts";

/** keccak-256 of `TransferWithMemo(address,address,uint256,bytes32)`. */
const TRANSFER_WITH_MEMO_TOPIC =
  "0x57bc7354aa85aed339e000bccffabbc529466af35f0772c8f8ee1145927de7f0";
/** The code of EIP-3's reverted calls. */
const REVERTED = 3;
/** A node behind a load balancer may know the time before it knows the block of a transaction. */
const NODE_LAG_MAX_MS = MINUTE_MS;
/** Errors after which the transaction may be included nevertheless. */
const UNCLEAR_ERRORS = /already|known|nonce|seen|limit|busy|timeout|unavailable|internal|^$/i;

export interface SentTransfer extends MemoTransfer {
  /** The signed transaction, hex digits. */
  readonly bytes: string;
  readonly hash: string;
  readonly token: string;
  /** The time after which the chain does not include it. */
  readonly expiresAt: number;
}

type ChainOutcome =
  | { readonly kind: "paid" }
  /** Not paid, and it can no longer be paid. */
  | { readonly kind: "refused"; readonly reason: string }
  | { readonly kind: "pending" };

export interface TempoNode {
  /** Why the transfer would fail now; undefined if it would not. */
  readonly simulate: (
    transfer: { readonly token: string; readonly data: string },
    payer: string,
  ) => Promise<string | undefined>;
  /** Idempotent. Returns why the node rejected the transaction for good; undefined if it may be included. */
  readonly send: (bytes: string) => Promise<string | undefined>;
  readonly findOutcome: (transfer: SentTransfer) => Promise<ChainOutcome>;
}

export function createTempoNode(rpcUrl: Secret, network: string): TempoNode {
  return {
    simulate: async ({ token, data }, payer) => {
      const call = { from: payer, to: token, data: `0x${data}` };
      const outcome = await simulateCall(rpcUrl, network, call).catch((cause: unknown) => {
        throw unavailable(cause);
      });
      if (outcome.kind === "result") return undefined;
      if (outcome.code === REVERTED) return `the transfer fails: ${outcome.message}`;
      throw unavailable(new Error(`eth_call failed: ${outcome.message}`));
    },
    send: async (bytes) => {
      const outcome = await tryRpc(rpcUrl, "eth_sendRawTransaction", [`0x${bytes}`]);
      return outcome.kind === "result" || UNCLEAR_ERRORS.test(outcome.message)
        ? undefined
        : `the network rejected the transaction: ${outcome.message}`;
    },
    findOutcome: async (transfer) => {
      await requireNetwork(rpcUrl, network);
      // Reads the time before the receipt: if the chain is past the expiry and has no receipt, the transaction came too late.
      const { at } = await fetchBlock(rpcUrl, "latest");
      const receipt = TransactionReceipt.nullable().parse(
        await callRpc(rpcUrl, "eth_getTransactionReceipt", [transfer.hash]),
      );
      if (receipt === null)
        return at > transfer.expiresAt + NODE_LAG_MAX_MS
          ? { kind: "refused", reason: "the network did not include the transaction in time" }
          : { kind: "pending" };
      return receipt.status === 1n && receipt.logs.some((entry) => isTransfer(entry, transfer))
        ? { kind: "paid" }
        : { kind: "refused", reason: "the transaction failed on the chain" };
    },
  };
}

async function simulateCall(rpcUrl: Secret, network: string, call: object) {
  await requireNetwork(rpcUrl, network);
  return await tryRpc(rpcUrl, "eth_call", [call, "latest"]);
}

type LogEntry = TransactionReceipt["logs"][number];

function isTransfer(
  { address, topics, data }: LogEntry,
  { token, recipient, amount, memo }: SentTransfer,
): boolean {
  const [kind = "", , to = "", topic = ""] = topics;
  return (
    equalsIgnoreCase(address, token) &&
    equalsIgnoreCase(kind, TRANSFER_WITH_MEMO_TOPIC) &&
    equalsIgnoreCase(to, addressTopic(recipient)) &&
    equalsIgnoreCase(topic, `0x${memo}`) &&
    BigInt(data) === amount
  );
}

function unavailable(cause: unknown): Fault {
  return new Fault("overloaded", "Tempo node unavailable", {
    message:
      "The payment could not be checked, because the node of the Tempo network is not available. Nothing was charged. Send the same request again in a moment.",
    retryAfterSeconds: 5,
    cause,
  });
}
