// The official x402 facilitator over HTTP, on a fake chain with an RPC node. The chain's token verifies signatures and
// keeps balances and used nonces. `FacilitatorFaults` lists the faults.

import { x402Facilitator } from "@x402/core/facilitator";
import { type FacilitatorEvmSigner, toFacilitatorEvmSigner } from "@x402/evm";
import { ExactEvmScheme } from "@x402/evm/exact/facilitator";
import { UptoEvmScheme } from "@x402/evm/upto/facilitator";
import {
  decodeFunctionData,
  encodeAbiParameters,
  encodeEventTopics,
  encodeFunctionData,
  encodeFunctionResult,
  type Hex,
  isAddressEqual,
  parseAbi,
  recoverTypedDataAddress,
  serializeSignature,
} from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";

const NETWORK = "eip155:84532";
const CHAIN_ID = 84_532;
const TOKEN = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
const DOMAIN = { name: "USDC", version: "2", chainId: CHAIN_ID, verifyingContract: TOKEN } as const;
const UNITS_PER_CENT = 10_000n;
const RECEIPT_WAIT_MS = 40;
const BLOCK_SECONDS = 2n;
/** Like real nodes, limits the range of `eth_getLogs`. */
const BLOCK_RANGE_MAX = 10_000n;

const TOKEN_ABI = parseAbi([
  "event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce)",
  "event Transfer(address indexed from, address indexed to, uint256 value)",
  "function balanceOf(address account) view returns (uint256)",
  "function name() view returns (string)",
  "function version() view returns (string)",
  "function authorizationState(address authorizer, bytes32 nonce) view returns (bool)",
  "function allowance(address owner, address spender) view returns (uint256)",
  "function PERMIT2() view returns (address)",
]);

const PERMIT2 = "0x000000000022D473030F116dDEE9F6B43aC78BA3";
const UPTO_PROXY = "0x4020A4f3b7b90ccA423B9fabCc0CE57C6C240002";

const PROXY_ABI = parseAbi([
  "struct TokenPermissions { address token; uint256 amount; }",
  "struct PermitTransferFrom { TokenPermissions permitted; uint256 nonce; uint256 deadline; }",
  "struct Witness { address to; address facilitator; uint256 validAfter; }",
  "function settle(PermitTransferFrom permit, uint256 amount, address owner, Witness witness, bytes signature)",
]);

/** A call of the proxy's `settle`, as the official facilitator makes it. */
type PermitCall = readonly [
  permit: {
    readonly permitted: { readonly token: Hex; readonly amount: bigint };
    readonly nonce: bigint;
    readonly deadline: bigint;
  },
  amount: bigint,
  owner: Hex,
  witness: { readonly to: Hex; readonly facilitator: Hex; readonly validAfter: bigint },
  signature: Hex,
];

const PERMIT_TYPES = {
  PermitWitnessTransferFrom: [
    { name: "permitted", type: "TokenPermissions" },
    { name: "spender", type: "address" },
    { name: "nonce", type: "uint256" },
    { name: "deadline", type: "uint256" },
    { name: "witness", type: "Witness" },
  ],
  TokenPermissions: [
    { name: "token", type: "address" },
    { name: "amount", type: "uint256" },
  ],
  Witness: [
    { name: "to", type: "address" },
    { name: "facilitator", type: "address" },
    { name: "validAfter", type: "uint256" },
  ],
} as const;

const AUTHORIZATION_TYPES = {
  TransferWithAuthorization: [
    { name: "from", type: "address" },
    { name: "to", type: "address" },
    { name: "value", type: "uint256" },
    { name: "validAfter", type: "uint256" },
    { name: "validBefore", type: "uint256" },
    { name: "nonce", type: "bytes32" },
  ],
} as const;

export interface Authorization {
  readonly from: Hex;
  readonly to: Hex;
  readonly value: bigint;
  readonly validAfter: bigint;
  readonly validBefore: bigint;
  readonly nonce: Hex;
}

export type Wallet = ReturnType<typeof privateKeyToAccount>;

export function newWallet(): Wallet {
  return privateKeyToAccount(generatePrivateKey());
}

export function signAuthorization(wallet: Wallet, message: Authorization): Promise<Hex> {
  return wallet.signTypedData({
    domain: DOMAIN,
    types: AUTHORIZATION_TYPES,
    primaryType: "TransferWithAuthorization",
    message,
  });
}

/** A transfer with its signature, as the token takes it. */
export interface SignedTransfer {
  readonly authorization: Authorization;
  readonly signature: Hex;
}

interface LogEntry {
  readonly address: Hex;
  readonly topics: readonly Hex[];
  readonly data: Hex;
  readonly logIndex: Hex;
  readonly transactionHash: Hex;
  readonly blockNumber: Hex;
}

interface MinedTransaction {
  /** The contract that is called. */
  readonly to: string;
  /** The call's data; not of `transferWithAuthorization`. */
  readonly input: string;
  readonly status: "success" | "reverted";
  readonly logs: readonly LogEntry[];
}

interface TestChain {
  /** In units of the token: millionths of a dollar. */
  readonly unitsOf: (address: string) => bigint;
  /** Lets Permit2 move the owner's tokens, as `approve` does. */
  readonly approve: (address: string, units?: bigint) => void;
  /** Uses a nonce at Permit2, as its owner can. */
  readonly cancelPermit: (address: Hex, nonce: bigint) => void;
  /** Moves tokens to another wallet. */
  readonly drain: (address: string) => void;
  /** Mines a transfer to the gateway that the owner sends itself, with any data; by an authorization if it has a nonce. */
  readonly send: (from: Hex, units: bigint, data: string, nonce?: Hex) => Hex;
  /** In cents. */
  readonly balanceOf: (address: string) => bigint;
  readonly fund: (address: string, cents: bigint) => void;
  /** Mines a transaction of several calls of the token, all of them or none. */
  readonly mine: (transfers: readonly SignedTransfer[]) => Promise<Hex>;
  /** Uses a nonce without a transfer, as its owner can. */
  readonly cancel: (address: string, nonce: string) => void;
  /** Moves the chain's clock. */
  readonly advance: (seconds: number) => void;
  readonly transfers: () => number;
}

type StepFault = "ok" | "down" | "slow" | "malformed";
export interface FacilitatorFaults {
  verify: StepFault;
  /**
   * `reply lost`: settles, but the reply is lost. `unconfirmed`: sends the transaction, which is mined, but does not see
   * it. `dropped`: the transaction is never mined. `twice`: handles every request twice. `wrong transaction`: reports
   * another settlement, moves nothing. `refuses`: refuses, moves nothing. `false failure`: settles, but reports a failure.
   */
  settle:
    | StepFault
    | "reply lost"
    | "unconfirmed"
    | "dropped"
    | "twice"
    | "wrong transaction"
    | "refuses"
    | "false failure";
  /** `wrong chain`: the node serves another chain. */
  node: "ok" | "down" | "wrong chain";
}

export interface TestFacilitator {
  readonly url: string;
  readonly payTo: string;
  readonly env: Readonly<Record<string, string>>;
  readonly rpcUrl: string;
  readonly chain: TestChain;
  readonly faults: FacilitatorFaults;
  /** The requests in order: `verify` or `settle`. */
  readonly calls: string[];
  /** The values of the `authorization` header. */
  readonly authorizationHeaders: Set<string | null>;
  /** The delay of the fault `slow`. */
  slowMs: number;
  /** Called when a request arrives, before it is handled. */
  onStep: (step: "verify" | "settle") => void | Promise<void>;
  readonly stop: () => Promise<void>;
}

export function startFacilitator(): TestFacilitator {
  const payTo = newWallet().address;
  const token = createTestToken(payTo);
  const faults: FacilitatorFaults = { verify: "ok", settle: "ok", node: "ok" };
  const signer = createSigner(token, faults);
  const facilitator = new x402Facilitator()
    .register(NETWORK, new ExactEvmScheme(signer))
    .register(NETWORK, new UptoEvmScheme(signer));
  const calls: string[] = [];
  const authorizationHeaders = new Set<string | null>();
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    development: false,
    fetch: async (request) => {
      const { pathname } = new URL(request.url);
      if (pathname === "/rpc") return await handleRpcRequest(token, faults, request);
      if (pathname === "/supported") return json(facilitator.getSupported());
      const step = pathname === "/verify" ? "verify" : "settle";
      calls.push(step);
      await testFacilitator.onStep(step);
      authorizationHeaders.add(request.headers.get("authorization"));
      return await handleFacilitatorRequest(
        facilitator,
        { faults, step, slowMs: testFacilitator.slowMs },
        request,
      );
    },
  });
  const url = `http://127.0.0.1:${server.port}`;
  const testFacilitator: TestFacilitator = {
    url,
    payTo,
    env: { X402_PAY_TO: payTo, X402_NETWORK: NETWORK, X402_FACILITATOR_URL: url },
    rpcUrl: `${url}/rpc`,
    chain: token.chain,
    faults,
    calls,
    authorizationHeaders,
    slowMs: 50,
    onStep: () => {},
    stop: () => server.stop(true),
  };
  return testFacilitator;
}

interface FaultContext {
  readonly faults: FacilitatorFaults;
  readonly step: "verify" | "settle";
  readonly slowMs: number;
}

async function handleFacilitatorRequest(
  facilitator: x402Facilitator,
  { faults, step, slowMs }: FaultContext,
  request: Request,
): Promise<Response> {
  const fault = faults[step];
  const { paymentPayload, paymentRequirements } = (await request.json()) as never as Record<
    "paymentPayload" | "paymentRequirements",
    never
  >;
  if (fault === "down") return new Response("no", { status: 503 });
  if (fault === "malformed") return new Response("<html>hello</html>");
  if (fault === "slow") await new Promise((resolve) => setTimeout(resolve, slowMs));
  if (step === "verify") return json(await facilitator.verify(paymentPayload, paymentRequirements));
  if (fault === "wrong transaction")
    return json({
      success: true,
      transaction: `0x${"ab".repeat(32)}`,
      network: "eip155:1",
      payer: newWallet().address,
    });
  if (fault === "refuses")
    return json({
      success: false,
      errorReason: "insufficient_funds",
      transaction: "",
      network: NETWORK,
    });
  if (fault === "twice") {
    const both = await Promise.all([
      facilitator.settle(paymentPayload, paymentRequirements),
      facilitator.settle(paymentPayload, paymentRequirements),
    ]);
    return json(both.find(({ success }) => success) ?? both[0]);
  }
  const settled = await facilitator.settle(paymentPayload, paymentRequirements);
  if (fault === "reply lost") return new Response("bad gateway", { status: 502 });
  if (fault === "false failure")
    return json({ ...settled, success: false, errorReason: "settle_failed", transaction: "" });
  return json(settled);
}

function json(value: unknown): Response {
  return Response.json(value);
}

interface TestToken {
  readonly chain: TestChain;
  readonly mined: Map<string, MinedTransaction>;
  readonly isUsed: (from: string, nonce: string) => boolean;
  readonly check: (transfer: SignedTransfer) => Promise<void>;
  readonly mine: (transfers: readonly SignedTransfer[]) => Promise<Hex>;
  /** Reverts as Permit2 and the proxy do. */
  readonly checkPermit: (call: PermitCall, sender: string) => Promise<void>;
  readonly minePermit: (call: PermitCall, sender: string) => Promise<Hex>;
  readonly allowanceOf: (owner: string) => bigint;
  readonly block: (name: string) => { readonly number: Hex; readonly timestamp: Hex };
}

function createTestToken(payTo: Hex): TestToken {
  const balances = new Map<string, bigint>();
  const used = new Set<string>();
  const mined = new Map<string, MinedTransaction>();
  let clockOffsetSeconds = 0;
  let sent = 0;
  const seconds = (): bigint => BigInt(Math.floor(Date.now() / 1_000) + clockOffsetSeconds);
  const balanceOf = (address: string): bigint => balances.get(address.toLowerCase()) ?? 0n;
  const nonceKey = (from: string, nonce: string): string => `${from} ${nonce}`.toLowerCase();
  const check = async ({ authorization, signature }: SignedTransfer): Promise<void> => {
    const { from, nonce, value, validAfter, validBefore } = authorization;
    if (seconds() <= validAfter) throw new Error("FiatTokenV2: authorization is not yet valid");
    if (seconds() >= validBefore) throw new Error("FiatTokenV2: authorization is expired");
    if (used.has(nonceKey(from, nonce)))
      throw new Error("FiatTokenV2: authorization is used or canceled");
    const signer = await recoverTypedDataAddress({
      domain: DOMAIN,
      types: AUTHORIZATION_TYPES,
      primaryType: "TransferWithAuthorization",
      message: authorization,
      signature,
    });
    if (!isAddressEqual(signer, from)) throw new Error("FiatTokenV2: invalid signature");
    if (balanceOf(from) < value) throw new Error("ERC20: transfer amount exceeds balance");
  };
  const mine = async (transfers: readonly SignedTransfer[]): Promise<Hex> => {
    const hash = hexOf(BigInt(++sent), 64);
    const logEntries: LogEntry[] = [];
    const rollbacks: (() => void)[] = [];
    try {
      for (const transfer of transfers) {
        await check(transfer);
        const { from, to, value, nonce } = transfer.authorization;
        // Checked again without an await before the change: the check above was asynchronous.
        if (used.has(nonceKey(from, nonce)) || balanceOf(from) < value)
          throw new Error("FiatTokenV2: authorization is used or canceled");
        used.add(nonceKey(from, nonce));
        balances.set(from.toLowerCase(), balanceOf(from) - value);
        balances.set(to.toLowerCase(), balanceOf(to) + value);
        rollbacks.push(() => {
          used.delete(nonceKey(from, nonce));
          balances.set(from.toLowerCase(), balanceOf(from) + value);
          balances.set(to.toLowerCase(), balanceOf(to) - value);
        });
        const logBase = {
          address: TOKEN,
          transactionHash: hash,
          blockNumber: hexOf(seconds() / BLOCK_SECONDS),
        } as const;
        logEntries.push({
          ...logBase,
          topics: topicsOf("AuthorizationUsed", { authorizer: from, nonce }),
          data: "0x",
          logIndex: hexOf(BigInt(logEntries.length)),
        });
        logEntries.push({
          ...logBase,
          topics: topicsOf("Transfer", { from, to }),
          data: encodeAbiParameters([{ type: "uint256" }], [value]),
          logIndex: hexOf(BigInt(logEntries.length)),
        });
      }
      mined.set(hash, { status: "success", logs: logEntries, to: TOKEN, input: "0x" });
    } catch (error) {
      for (const rollback of rollbacks.toReversed()) rollback();
      mined.set(hash, { status: "reverted", logs: [], to: TOKEN, input: "0x" });
      throw error;
    }
    return hash;
  };
  const mineTransfer = (
    [from, to]: readonly [Hex, Hex],
    units: bigint,
    transaction: Pick<MinedTransaction, "to" | "input">,
    nonce?: Hex,
  ): Hex => {
    balances.set(from.toLowerCase(), balanceOf(from) - units);
    balances.set(to.toLowerCase(), balanceOf(to) + units);
    const hash = hexOf(BigInt(++sent), 64);
    const blockNumber = hexOf(seconds() / BLOCK_SECONDS);
    const base = { address: TOKEN, transactionHash: hash, blockNumber } as const;
    const used = {
      ...base,
      topics: topicsOf("AuthorizationUsed", { authorizer: from, nonce }),
      data: "0x",
      logIndex: hexOf(0n),
    } as const;
    const log = {
      ...base,
      topics: topicsOf("Transfer", { from, to }),
      data: encodeAbiParameters([{ type: "uint256" }], [units]),
      logIndex: hexOf(1n),
    } as const;
    const logs = nonce === undefined ? [log] : [used, log];
    mined.set(hash, { status: "success", logs, ...transaction });
    return hash;
  };
  const allowances = new Map<string, bigint>();
  const allowanceOf = (owner: string): bigint => allowances.get(owner.toLowerCase()) ?? 0n;
  const permitKey = (owner: string, nonce: bigint): string => `permit2 ${owner} ${nonce}`;
  const requireMovable = ([{ permitted, nonce }, amount, owner]: PermitCall): void => {
    if (amount > permitted.amount) throw new Error("AmountExceedsPermitted()");
    if (used.has(permitKey(owner, nonce))) throw new Error("InvalidNonce()");
    if (balanceOf(owner) < amount || allowanceOf(owner) < amount)
      throw new Error("TRANSFER_FROM_FAILED");
  };
  const checkPermit = async (call: PermitCall, sender: string): Promise<void> => {
    const [{ permitted, nonce, deadline }, , owner, witness, signature] = call;
    if (!isAddressEqual(witness.facilitator, sender as Hex))
      throw new Error("UnauthorizedFacilitator()");
    if (seconds() < witness.validAfter) throw new Error("PaymentTooEarly()");
    if (seconds() > deadline) throw new Error("SignatureExpired()");
    if (!isAddressEqual(permitted.token, TOKEN)) throw new Error("TRANSFER_FROM_FAILED");
    const signerAddress = await recoverTypedDataAddress({
      domain: { name: "Permit2", chainId: CHAIN_ID, verifyingContract: PERMIT2 },
      types: PERMIT_TYPES,
      primaryType: "PermitWitnessTransferFrom",
      message: { permitted, spender: UPTO_PROXY, nonce, deadline, witness },
      signature,
    });
    if (!isAddressEqual(signerAddress, owner)) throw new Error("InvalidSigner()");
    requireMovable(call);
  };
  const minePermit = async (call: PermitCall, sender: string): Promise<Hex> => {
    await checkPermit(call, sender);
    const [{ nonce }, amount, owner, { to }] = call;
    // Checked again without an await before the change: the check above was asynchronous.
    requireMovable(call);
    used.add(permitKey(owner, nonce));
    const input = encodeFunctionData({ abi: PROXY_ABI, functionName: "settle", args: call });
    return mineTransfer([owner, to], amount, { to: UPTO_PROXY, input });
  };
  return {
    mined,
    checkPermit,
    minePermit,
    allowanceOf,
    check,
    mine,
    isUsed: (from, nonce) => used.has(nonceKey(from, nonce)),
    block: (name) => {
      const number = name === "latest" ? seconds() / BLOCK_SECONDS : BigInt(name);
      return { number: hexOf(number), timestamp: hexOf(number * BLOCK_SECONDS) };
    },
    chain: {
      unitsOf: balanceOf,
      approve: (address, units = 1n << 255n) => {
        allowances.set(address.toLowerCase(), units);
      },
      cancelPermit: (address, nonce) => used.add(permitKey(address, nonce)),
      drain: (address) => {
        balances.set(address.toLowerCase(), 0n);
      },
      send: (from, units, data, nonce) =>
        mineTransfer([from, payTo], units, { to: TOKEN, input: data }, nonce),
      balanceOf: (address) => balanceOf(address) / UNITS_PER_CENT,
      fund: (address, cents) => {
        balances.set(address.toLowerCase(), balanceOf(address) + cents * UNITS_PER_CENT);
      },
      mine,
      cancel: (address, nonce) => used.add(nonceKey(address, nonce)),
      advance: (secondsAhead) => {
        clockOffsetSeconds += secondsAhead;
      },
      transfers: () => [...mined.values()].reduce((sum, { logs }) => sum + logs.length / 2, 0),
    },
  };
}

/** Connects the official facilitator to the fake chain. */
function createSigner(token: TestToken, faults: FacilitatorFaults): FacilitatorEvmSigner {
  let droppedCount = 0;
  const { address } = newWallet();
  return toFacilitatorEvmSigner(
    {
      address,
      getCode: ({ address }) =>
        Promise.resolve(isAddressEqual(address, TOKEN) ? "0x60" : undefined),
      verifyTypedData: () => Promise.reject(new Error("contract wallets are not supported")),
      sendTransaction: () => Promise.reject(new Error("deployments are not supported")),
      readContract: async ({ functionName, args = [] }) => {
        if (functionName === "tryAggregate")
          return runMulticall(token, args[1] as readonly Multicall[]);
        if (functionName === "settle") {
          await token.checkPermit(args as never, address);
          return undefined;
        }
        if (functionName !== "transferWithAuthorization")
          throw new Error(`${functionName} is not supported`);
        await token.check(parseTransfer(args));
        return undefined;
      },
      writeContract: async ({ args, functionName }) => {
        if (functionName === "settle") {
          if (faults.settle !== "dropped") return await token.minePermit(args as never, address);
          await token.checkPermit(args as never, address);
          return hexOf(BigInt((droppedCount += 1)) << 128n, 64);
        }
        const transfer = parseTransfer(args);
        if (faults.settle !== "dropped") return await token.mine([transfer]);
        await token.check(transfer);
        return hexOf(BigInt((droppedCount += 1)) << 128n, 64);
      },
      waitForTransactionReceipt: async ({ hash }) => {
        const found = token.mined.get(hash);
        if (found === undefined || faults.settle === "unconfirmed") {
          await new Promise((resolve) => setTimeout(resolve, RECEIPT_WAIT_MS));
          throw new Error("Timed out while waiting for transaction");
        }
        // Safe because the official code reads a log's address, topics and data only.
        return { status: found.status, logs: found.logs as never };
      },
    },
    { confirmationTimeoutMs: RECEIPT_WAIT_MS },
  );
}

interface Multicall {
  readonly callData: Hex;
}

function runMulticall(token: TestToken, calls: readonly Multicall[]): unknown {
  return calls.map(({ callData }) => {
    const call = decodeFunctionData({ abi: TOKEN_ABI, data: callData });
    return { success: true, returnData: readTokenValue(token, call) };
  });
}

function readTokenValue(
  token: TestToken,
  call: ReturnType<typeof decodeFunctionData<typeof TOKEN_ABI>>,
): Hex {
  const { functionName } = call;
  switch (functionName) {
    case "balanceOf":
      return encodeFunctionResult({
        abi: TOKEN_ABI,
        functionName,
        result: token.chain.unitsOf(call.args[0]),
      });
    case "allowance":
      return encodeFunctionResult({
        abi: TOKEN_ABI,
        functionName,
        result: token.allowanceOf(call.args[0]),
      });
    case "PERMIT2":
      return encodeFunctionResult({ abi: TOKEN_ABI, functionName, result: PERMIT2 });
    case "authorizationState":
      return encodeFunctionResult({
        abi: TOKEN_ABI,
        functionName,
        result: token.isUsed(call.args[0], call.args[1]),
      });
    case "name":
    case "version":
      return encodeFunctionResult({ abi: TOKEN_ABI, functionName, result: DOMAIN[functionName] });
  }
}

function parseTransfer(args: readonly unknown[]): SignedTransfer {
  const [from, to, value, validAfter, validBefore, nonce, v, r, s] = args as readonly [
    Hex,
    Hex,
    bigint,
    bigint,
    bigint,
    Hex,
    bigint | number,
    Hex,
    Hex,
  ];
  return {
    authorization: { from, to, value, validAfter, validBefore, nonce },
    signature: serializeSignature({ r, s, v: BigInt(v) }),
  };
}

async function handleRpcRequest(
  token: TestToken,
  faults: FacilitatorFaults,
  request: Request,
): Promise<Response> {
  if (faults.node === "down") return new Response("no", { status: 503 });
  const { method, params } = (await request.json()) as {
    method: string;
    params: readonly unknown[];
  };
  return json({ jsonrpc: "2.0", id: 1, result: rpcResult({ token, faults }, method, params) });
}

function rpcResult(
  { token, faults }: { readonly token: TestToken; readonly faults: FacilitatorFaults },
  method: string,
  params: readonly unknown[],
): unknown {
  if (method === "eth_chainId") return hexOf(faults.node === "wrong chain" ? 1n : BigInt(CHAIN_ID));
  if (method === "eth_getBlockByNumber") return token.block(String(params[0]));
  if (method === "eth_getTransactionReceipt") {
    const found = token.mined.get(String(params[0]));
    if (found === undefined) return null;
    return { status: found.status === "success" ? "0x1" : "0x0", logs: found.logs };
  }
  if (method === "eth_call") {
    const { data } = params[0] as { data: Hex };
    return readTokenValue(token, decodeFunctionData({ abi: TOKEN_ABI, data }));
  }
  if (method === "eth_getTransactionByHash") return token.mined.get(String(params[0]));
  if (method !== "eth_getLogs") throw new Error(`${method} is not supported`);
  const { address, topics, fromBlock, toBlock } = params[0] as {
    address: Hex;
    topics: readonly string[];
    fromBlock: Hex;
    toBlock: Hex;
  };
  if (BigInt(toBlock) - BigInt(fromBlock) > BLOCK_RANGE_MAX) return undefined;
  return [...token.mined.values()]
    .flatMap(({ logs }) => logs)
    .filter(
      (log) =>
        isAddressEqual(log.address, address) &&
        topics.every((topic, index) => log.topics[index]?.toLowerCase() === topic.toLowerCase()) &&
        BigInt(log.blockNumber) >= BigInt(fromBlock) &&
        BigInt(log.blockNumber) <= BigInt(toBlock),
    );
}

function topicsOf(eventName: "AuthorizationUsed" | "Transfer", args: object): readonly Hex[] {
  return encodeEventTopics({ abi: TOKEN_ABI, eventName, args }).flat() as Hex[];
}

function hexOf(value: bigint, digits = 1): Hex {
  return `0x${value.toString(16).padStart(digits, "0")}`;
}
