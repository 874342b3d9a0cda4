// Pays for one call from a wallet, without an account, and compares the receipt with the settlement.
//   WALLET_KEY=0x… node bin/bun.js examples/pay-per-call.ts http://127.0.0.1:8787 sim/echo
// The wallet needs USDC on the gateway's chain, and an approval of Permit2 for it.

import { createPublicKey, verify } from "node:crypto";
import { env } from "node:process";
import { UptoEvmScheme } from "@x402/evm/upto/client";
import { decodePaymentResponseHeader, wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { privateKeyToAccount } from "viem/accounts";

const [url = "http://127.0.0.1:8787", model = "sim/echo"] = process.argv.slice(2);

const wallet = privateKeyToAccount(env["WALLET_KEY"] as `0x${string}`);
const client = new x402Client().register("eip155:*", new UptoEvmScheme(wallet));
const pay = wrapFetchWithPayment(fetch, client);

const response = await pay(`${url}/v1/chat/completions`, {
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ model, max_tokens: 50, messages: [{ role: "user", content: "Hello." }] }),
});
const reply = (await response.json()) as {
  readonly choices?: readonly { readonly message: { readonly content: string } }[];
};
if (!response.ok) throw new Error(`${response.status} ${JSON.stringify(reply)}`);
console.log(reply.choices?.[0]?.message.content);

const settlement = decodePaymentResponseHeader(response.headers.get("payment-response") ?? "");
const receipt = response.headers.get("x-postern-receipt") ?? "";
const [head = "", body = "", signature = ""] = receipt.split(".");
const { kid } = JSON.parse(Buffer.from(head, "base64url").toString());
const { keys } = (await (await fetch(`${url}/.well-known/jwks.json`)).json()) as {
  readonly keys: readonly { readonly kid: string; readonly kty: string; readonly x: string }[];
};
const jwk = keys.find((key) => key.kid === kid);
if (jwk === undefined) throw new Error("the receipt is not signed by this gateway");
const isSigned = verify(
  null,
  Buffer.from(`${head}.${body}`),
  createPublicKey({ key: { ...jwk }, format: "jwk" }),
  Buffer.from(signature, "base64url"),
);
const { cost_usd, fee_usd, payment } = JSON.parse(Buffer.from(body, "base64url").toString());
console.log(`signed for at most ${payment.ceiling}, paid ${settlement.amount} units of the token`);
console.log(`the call cost $${cost_usd}, the fee was $${fee_usd}`);
const isSame =
  payment.amount === settlement.amount && payment.transaction === settlement.transaction;
console.log(`the receipt is valid, and of this settlement: ${isSigned && isSame}`);
