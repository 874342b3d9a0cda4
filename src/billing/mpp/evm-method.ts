// The method `evm` with credentials of type `authorization`: the same EIP-3009 transfer that x402 settles, with the
// challenge's hash as its nonce. It is stored and settled as an x402 payment, so one transfer sent both ways is taken once.

import { keccak_256 } from "@noble/hashes/sha3";
import { z } from "zod";
import { decodeJson } from "../../base/canonical-json.ts";
import { invalid } from "../../base/fault.ts";
import { type Payable, totalCentsOf } from "../payments/payment-protocol.ts";
import {
  expiresAtOf,
  paymentRequirementsFor,
  type SignedPayment,
  SignedTransfer,
} from "../x402/x402-messages.ts";
import { acceptSignedPayment, type X402Deps } from "../x402/x402-payments.ts";
import { type PaymentChallenge, expiresAt } from "./challenge.ts";
import type { MachinePaymentMethod } from "./mpp-protocol.ts";

const NETWORK_PREFIX = "eip155:";

const Payload = z.object({
  type: z.literal("authorization"),
  ...SignedTransfer.shape.authorization.shape,
  signature: SignedTransfer.shape.signature,
});

/** The request of a challenge that this gateway issued. */
const Request = z.object({
  amount: z.string(),
  currency: z.string(),
  recipient: z.string(),
  methodDetails: z.object({ chainId: z.number() }),
});

export function createEvmMethod(x402: X402Deps): MachinePaymentMethod {
  return {
    name: "evm",
    requestFor: (payable) => requestFor(x402, payable),
    accept: async (payable, { challenge, payload, refusal }) => {
      const signed = signedPaymentOf(x402, challenge, payload);
      const reason = refusal ?? bindingError(challenge, signed);
      const result = await acceptSignedPayment(x402, payable, signed, reason);
      return result.kind === "paid"
        ? { kind: "paid", reference: result.settleResponse.transaction, at: result.at }
        : { kind: "refused", reason: result.reason };
    },
  };
}

function requestFor({ paymentTerms }: X402Deps, payable: Payable) {
  const { amount, asset, payTo } = paymentRequirementsFor(paymentTerms, totalCentsOf(payable));
  return {
    amount,
    currency: asset,
    recipient: payTo,
    methodDetails: {
      chainId: Number(paymentTerms.network.slice(NETWORK_PREFIX.length)),
      credentialTypes: ["authorization"],
      decimals: paymentTerms.token.decimals,
    },
  };
}

function signedPaymentOf(
  { paymentTerms }: X402Deps,
  challenge: PaymentChallenge,
  payload: unknown,
): SignedPayment {
  const parsed = Payload.safeParse(payload);
  if (!parsed.success) {
    const field = parsed.error.issues[0]?.path.map(String).join(".") ?? "";
    throw invalid(
      "authorization",
      `The credential's payload must be an EIP-3009 authorization${field === "" ? "" : `: \`${field}\` is missing or invalid`}.`,
    );
  }
  const { signature, type: _type, ...authorization } = parsed.data;
  const { amount, currency, recipient, methodDetails } = Request.parse(
    decodeJson(challenge.request),
  );
  const requirements = paymentRequirementsFor(paymentTerms, 0);
  return {
    x402Version: 2,
    accepted: {
      ...requirements,
      network: `${NETWORK_PREFIX}${methodDetails.chainId}`,
      amount,
      asset: currency,
      payTo: recipient,
    },
    payload: { signature, authorization },
  };
}

/** Why the transfer was not signed for this challenge. */
function bindingError(challenge: PaymentChallenge, signed: SignedPayment): string | undefined {
  if (signed.payload.authorization.nonce !== challengeHash(challenge))
    return "the nonce is not the hash of the challenge";
  if (expiresAtOf(signed) > expiresAt(challenge))
    return "the authorization is valid for longer than the challenge";
  return undefined;
}

function challengeHash({ id, realm }: PaymentChallenge): string {
  return `0x${Buffer.from(keccak_256(Buffer.from(id + realm))).toString("hex")}`;
}
