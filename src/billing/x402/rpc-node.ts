// JSON-RPC calls to a node of an EVM chain.

import { z } from "zod";
import type { Secret } from "../../base/crypto/secret.ts";
import { isObject } from "../../base/json.ts";
import { postJson } from "./post-json.ts";

const RPC_TIMEOUT_MS = 10_000;
/** Receipts of transactions with many calls are long. */
const RESPONSE_MAX_BYTES = 8 * 1_048_576;
const REASON_MAX = 120;

const quantity = z
  .string()
  .regex(/^0x[0-9a-fA-F]+$/)
  .transform((text) => BigInt(text));
const Block = z.object({ number: quantity, timestamp: quantity });
export const LogEntry = z.object({
  address: z.string(),
  topics: z.array(z.string()),
  data: z.string(),
  logIndex: quantity,
  transactionHash: z.string().regex(/^0x[0-9a-fA-F]{64}$/),
});
export const TransactionReceipt = z.object({ status: quantity, logs: z.array(LogEntry) });
export type TransactionReceipt = z.infer<typeof TransactionReceipt>;

export type RpcOutcome =
  | { readonly kind: "result"; readonly result: unknown }
  /** The node rejected the request. The message is short and plain. */
  | { readonly kind: "error"; readonly code: number; readonly message: string };

/** A node of another chain would find nothing, which would count as "not paid". */
export async function requireNetwork(rpcUrl: Secret, network: string): Promise<void> {
  const id = quantity.parse(await callRpc(rpcUrl, "eth_chainId", []));
  if (`eip155:${id}` !== network) throw new Error(`the node belongs to chain ${id}`);
}

export async function fetchBlock(
  rpcUrl: Secret,
  name: string,
): Promise<{ readonly number: bigint; readonly at: number }> {
  const block = Block.parse(await callRpc(rpcUrl, "eth_getBlockByNumber", [name, false]));
  return { number: block.number, at: Number(block.timestamp) * 1_000 };
}

/** Throws if the node returns an error. */
export async function callRpc(
  rpcUrl: Secret,
  method: string,
  params: readonly unknown[],
): Promise<unknown> {
  const outcome = await tryRpc(rpcUrl, method, params);
  if (outcome.kind === "result") return outcome.result;
  throw new Error(`${method} failed: ${outcome.message}`);
}

/** Throws if the node does not respond. */
export async function tryRpc(
  rpcUrl: Secret,
  method: string,
  params: readonly unknown[],
): Promise<RpcOutcome> {
  const { status, body } = await postJson(rpcUrl.reveal(), {
    body: { jsonrpc: "2.0", id: 1, method, params },
    timeoutMs: RPC_TIMEOUT_MS,
    responseMaxBytes: RESPONSE_MAX_BYTES,
  });
  const response = isObject(body) ? body : {};
  if (response["result"] !== undefined) return { kind: "result", result: response["result"] };
  const error = response["error"];
  if (!isObject(error)) throw new Error(`${method} failed with status ${status}`);
  const { code, message } = error;
  return {
    kind: "error",
    code: typeof code === "number" ? code : 0,
    message: plainText(typeof message === "string" ? message : ""),
  };
}

export function toHex(number: bigint): string {
  return `0x${number.toString(16)}`;
}

/** Log topics are padded to 32 bytes. */
export function addressTopic(address: string): string {
  return `0x${address.slice(2).toLowerCase().padStart(64, "0")}`;
}

/** The message is stored and shown to callers. */
function plainText(message: string): string {
  return message
    .replaceAll(/[^\w .:,()-]/g, " ")
    .slice(0, REASON_MAX)
    .trim();
}
