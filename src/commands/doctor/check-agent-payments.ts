// `doctor` on x402 and Tempo: whether the facilitator and the nodes serve the configured chains.

import { z } from "zod";
import type { Secret } from "../../base/crypto/secret.ts";
import { isLoopbackHost } from "../../base/network/public-address.ts";
import { readBoundedText } from "../../base/streams/bounded-body.ts";
import { TEMPO_TESTNET } from "../../config/agent-payment-settings.ts";
import type { Config } from "../../config/config.ts";
import type { X402Config } from "../../config/x402-settings.ts";
import type { Finding } from "./finding.ts";

const CHECK = "x402";
const TIMEOUT_MS = 5_000;
const RESPONSE_MAX_BYTES = 1_048_576;
/** Chains whose tokens have no value. */
const TEST_NETWORKS = new Set(["eip155:84532", "eip155:11155111", "eip155:43113", "eip155:80002"]);

const Supported = z.object({
  kinds: z.array(z.object({ x402Version: z.number(), scheme: z.string(), network: z.string() })),
});
const ChainId = z.object({ result: z.string() });

/** No finding if x402 is off. */
export async function checkX402({ x402, development }: Config): Promise<readonly Finding[]> {
  if (x402 === undefined) return [];
  const [facilitator, node] = await Promise.all([checkFacilitator(x402), checkNode(x402)]);
  return [facilitator, node, ...checkPaymentSettings(x402, development)];
}

/** No finding if the method `tempo` is off. */
export async function checkTempo({ tempo, development }: Config): Promise<readonly Finding[]> {
  if (tempo === undefined) return [];
  const { chainId, rpcUrl, token } = tempo;
  const node = await checkChain(rpcUrl, {
    check: "tempo",
    network: `eip155:${chainId}`,
    setting: "TEMPO_RPC_URL",
  });
  const isRisk = chainId === TEMPO_TESTNET && !development;
  const message = `Tempo's test network: worthless ${token.name} would buy real credits`;
  const hint = "Set TEMPO_CHAIN_ID to 4217, or unset TEMPO_PAY_TO.";
  return [node, ...(isRisk ? [{ status: "warn", check: "tempo", message, hint } as const] : [])];
}

async function checkFacilitator(x402: X402Config): Promise<Finding> {
  const { facilitatorUrl, facilitatorKey, network, uptoRiskMax } = x402;
  const hint =
    "Set X402_FACILITATOR_URL to a facilitator that does, and X402_FACILITATOR_KEY if it needs one.";
  try {
    const response = await fetch(`${facilitatorUrl}/supported`, {
      redirect: "error",
      signal: AbortSignal.timeout(TIMEOUT_MS),
      ...(facilitatorKey === undefined
        ? {}
        : { headers: { authorization: `Bearer ${facilitatorKey.reveal()}` } }),
    });
    const { kinds } = Supported.parse(await readJson(response));
    const schemes = uptoRiskMax > 0n ? ["exact", "upto"] : ["exact"];
    const missing = schemes.filter(
      (scheme) =>
        !kinds.some(
          (kind) =>
            kind.x402Version === 2 &&
            kind.scheme === scheme &&
            (kind.network === network || kind.network === "eip155:*"),
        ),
    );
    return missing.length === 0
      ? { status: "ok", check: CHECK, message: `the facilitator settles payments on ${network}` }
      : fail(
          `the facilitator at ${new URL(facilitatorUrl).origin} does not settle payments${missing.includes("exact") ? "" : " of the scheme upto"} on ${network}`,
          hint,
        );
  } catch {
    return fail(
      `the facilitator at ${new URL(facilitatorUrl).origin} did not list what it settles`,
      hint,
    );
  }
}

async function checkNode({ rpcUrl, network }: X402Config): Promise<Finding> {
  if (rpcUrl === undefined)
    return {
      status: "note",
      check: CHECK,
      message: "without X402_RPC_URL, you must look up payments that the facilitator loses",
    };
  return await checkChain(rpcUrl, { check: CHECK, network, setting: "X402_RPC_URL" });
}

async function checkChain(
  rpcUrl: Secret,
  {
    check,
    network,
    setting,
  }: { readonly check: string; readonly network: string; readonly setting: string },
): Promise<Finding> {
  const hint = `Set ${setting} to a node of ${network}.`;
  try {
    const response = await fetch(rpcUrl.reveal(), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "eth_chainId", params: [] }),
      redirect: "error",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const id = BigInt(ChainId.parse(await readJson(response)).result);
    return `eip155:${id}` === network
      ? { status: "ok", check, message: `the node serves ${network}` }
      : fail(`the node serves eip155:${id}, but payments are on ${network}`, hint, check);
  } catch {
    return fail(`the node at ${setting} does not answer`, hint, check);
  }
}

function checkPaymentSettings(
  { network, facilitatorUrl }: X402Config,
  development: boolean,
): Finding[] {
  const findings: Finding[] = [];
  if (TEST_NETWORKS.has(network) && !development)
    findings.push({
      status: "warn",
      check: CHECK,
      message: `${network} is a test network: worthless tokens would buy real credits`,
      hint: "Set X402_NETWORK to eip155:8453, or unset X402_PAY_TO.",
    });
  if (facilitatorUrl.startsWith("http://") && !isLoopbackHost(new URL(facilitatorUrl).hostname))
    findings.push({
      status: "warn",
      check: CHECK,
      message:
        "the facilitator is called without TLS: an attacker in between could fake settlements",
      hint: "Give X402_FACILITATOR_URL an https:// address.",
    });
  return findings;
}

async function readJson(response: Response): Promise<unknown> {
  return JSON.parse(await readBoundedText(response.body, RESPONSE_MAX_BYTES));
}

function fail(message: string, hint: string, check = CHECK): Finding {
  return { status: "fail", check, message, hint };
}
