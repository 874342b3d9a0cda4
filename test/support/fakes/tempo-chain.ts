// A Tempo network of one node: anvil, which runs the network's own token contract and transaction type. The gateway
// reaches it through a proxy that can lose requests and replies.

import { existsSync } from "node:fs";
import path from "node:path";
import { createClient, http } from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { tempoModerato } from "viem/chains";
import { Actions } from "viem/tempo";
import { skipUnless } from "../skip.ts";

const CHAIN_ID = 42_431;
const TOKEN = "0x20c0000000000000000000000000000000000000";
const UNITS_PER_CENT = 10_000n;
/** The first account of anvil, which owns tokens. */
const RICH = privateKeyToAccount(
  "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
);
const PLATFORMS: Readonly<Record<string, string>> = {
  "linux-x64": "linux-amd64",
  "linux-arm64": "linux-arm64",
  "darwin-x64": "darwin-amd64",
  "darwin-arm64": "darwin-arm64",
};
const BINARY = path.resolve(
  import.meta.dir,
  `../../../node_modules/@foundry-rs/anvil-${PLATFORMS[`${process.platform}-${process.arch}`]}/bin/anvil`,
);

/** For `skipIf`: true where npm has no anvil. */
export function skipWithoutAnvil(): boolean {
  return skipUnless(
    existsSync(BINARY),
    "npm has no anvil for this platform; it runs Tempo's chain",
  );
}

type TempoFault = "ok" | "down" | "send lost" | "reply lost";
export type TempoWallet = ReturnType<typeof privateKeyToAccount>;

export interface TempoChain {
  /** The settings of a gateway that is paid on this chain. */
  readonly env: Readonly<Record<string, string>>;
  readonly payTo: string;
  readonly chainId: number;
  readonly token: string;
  fault: TempoFault;
  /** The methods that reached the proxy. */
  readonly calls: string[];
  /** A new wallet with this money, and a little for fees. */
  readonly newWallet: (cents: bigint) => Promise<TempoWallet>;
  readonly spend: (wallet: TempoWallet, cents: bigint) => Promise<void>;
  /** In cents; a fee is less than one. */
  readonly balanceOf: (address: string) => Promise<bigint>;
  readonly client: () => ReturnType<typeof createChainClient>;
  readonly pause: () => Promise<void>;
  /** Makes blocks again, with what was sent meanwhile. */
  readonly resume: () => Promise<void>;
  readonly advance: (seconds: number) => Promise<void>;
  readonly rpc: (method: string, params: readonly unknown[]) => Promise<unknown>;
  readonly stop: () => Promise<void>;
}

export async function startTempoChain(): Promise<TempoChain> {
  const node = Bun.spawn(
    [BINARY, "--network", "tempo", "--chain-id", String(CHAIN_ID), "--port", "0"],
    { stdout: "pipe", stderr: "inherit" },
  );
  const nodeUrl = await listeningUrl(node.stdout);
  const payTo = privateKeyToAccount(generatePrivateKey()).address;
  const rpc = (method: string, params: readonly unknown[]) => callNode(nodeUrl, method, params);
  const client = () => createChainClient(nodeUrl);
  const calls: string[] = [];
  const proxy = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: async (request) => {
      const body = await request.text();
      const { method } = JSON.parse(body) as { readonly method: string };
      calls.push(method);
      const isSend = method === "eth_sendRawTransaction";
      if (chain.fault === "down" || (chain.fault === "send lost" && isSend))
        return new Response("bad gateway", { status: 502 });
      const headers = { "content-type": "application/json" };
      const response = await fetch(nodeUrl, { method: "POST", headers, body });
      if (chain.fault === "reply lost") return new Response("bad gateway", { status: 502 });
      return new Response(await response.text(), { headers });
    },
  });
  const chain: TempoChain = {
    env: {
      TEMPO_PAY_TO: payTo,
      TEMPO_RPC_URL: `http://127.0.0.1:${proxy.port}`,
      TEMPO_CHAIN_ID: String(CHAIN_ID),
    },
    payTo,
    chainId: CHAIN_ID,
    token: TOKEN,
    fault: "ok",
    calls,
    newWallet: async (cents) => {
      const wallet = privateKeyToAccount(generatePrivateKey());
      const amount = cents * UNITS_PER_CENT + UNITS_PER_CENT - 1n;
      await Actions.token.transferSync(client(), { token: TOKEN, to: wallet.address, amount });
      return wallet;
    },
    spend: async (wallet, cents) => {
      const amount = cents * UNITS_PER_CENT;
      const transfer = {
        account: wallet,
        token: TOKEN,
        to: RICH.address,
        amount,
        feeToken: TOKEN,
      } as const;
      await Actions.token.transferSync(client(), transfer);
    },
    balanceOf: async (address) => {
      const account = address as `0x${string}`;
      const { amount } = await Actions.token.getBalance(client(), { token: TOKEN, account });
      return amount / UNITS_PER_CENT;
    },
    client,
    pause: async () => void (await rpc("evm_setAutomine", [false])),
    resume: async () => {
      await rpc("evm_setAutomine", [true]);
      await rpc("evm_mine", []);
    },
    advance: async (seconds) => {
      await rpc("evm_increaseTime", [seconds]);
      await rpc("evm_mine", []);
    },
    rpc,
    stop: async () => {
      await proxy.stop(true);
      node.kill();
      await node.exited;
    },
  };
  return chain;
}

function createChainClient(url: string) {
  return createClient({ account: RICH, chain: tempoModerato, transport: http(url) });
}

async function callNode(url: string, method: string, params: readonly unknown[]): Promise<unknown> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
  });
  const { result, error } = (await response.json()) as { result?: unknown; error?: unknown };
  if (error !== undefined) throw new Error(`${method}: ${JSON.stringify(error)}`);
  return result;
}

async function listeningUrl(stdout: ReadableStream<Uint8Array>): Promise<string> {
  const reader = stdout.getReader();
  const decoder = new TextDecoder();
  let printed = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Error(`anvil ended: ${printed}`);
    printed += decoder.decode(value);
    const address = /Listening on (\S+)/.exec(printed)?.[1];
    if (address !== undefined) {
      void drain(reader);
      return `http://${address}`;
    }
  }
}

/** A full pipe would stop the node. */
async function drain(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<void> {
  while (!(await reader.read().catch(() => ({ done: true }))).done);
}
