// x402 as one of the protocols in which an agent pays: its service, its headers, and the endpoint that pays an invoice.

import type { Secret } from "../../base/crypto/secret.ts";
import { X402_PATH } from "../../base/purchase-steps.ts";
import type { Route } from "../../http/route.ts";
import type { BillingDeps } from "../billing-deps.ts";
import { payInvoiceRoute } from "../payments/pay-invoice-route.ts";
import { type PaymentProtocol, totalCentsOf } from "../payments/payment-protocol.ts";
import { type ChainClient, createChainClient } from "./chain-client.ts";
import { createFacilitatorClient } from "./facilitator-client.ts";
import {
  type PaymentTerms,
  paymentRequiredHeader,
  paymentRequirementsFor,
  paymentResponseHeader,
} from "./x402-messages.ts";
import { type X402Deps, acceptPayment, pollX402 } from "./x402-payments.ts";

export interface X402Options extends PaymentTerms {
  readonly facilitatorUrl: string;
  readonly facilitatorKey?: Secret | undefined;
  /** An RPC node of the chain, to look up payments that the facilitator lost. */
  readonly rpcUrl?: Secret | undefined;
}

interface X402ServiceDeps {
  readonly billing: BillingDeps;
  readonly now: () => number;
  readonly baseUrl: string;
}

export interface X402Service {
  readonly deps: X402Deps;
  readonly poll: () => Promise<unknown>;
}

export function createX402(
  { network, token, payTo, ...options }: X402Options,
  { billing, now, baseUrl }: X402ServiceDeps,
): X402Service {
  const { facilitatorUrl: url, facilitatorKey: key, rpcUrl } = options;
  const deps: X402Deps = {
    billing,
    paymentTerms: { network, token, payTo },
    baseUrl,
    facilitator: createFacilitatorClient({ url, ...(key === undefined ? {} : { key }) }),
    chain: createOptionalChainClient(rpcUrl),
    now,
  };
  return { deps, poll: () => pollX402(deps) };
}

export function createOptionalChainClient(rpcUrl: Secret | undefined): ChainClient | undefined {
  return rpcUrl === undefined ? undefined : createChainClient(rpcUrl);
}

export function createX402Protocol(x402: X402Deps): PaymentProtocol {
  return {
    paymentIn: (headers) => headers.get("payment-signature") ?? undefined,
    challenge: (payable, { path, description }, error) => ({
      "payment-required": paymentRequiredHeader(
        paymentRequirementsFor(x402.paymentTerms, totalCentsOf(payable)),
        { url: x402.baseUrl + path, description },
        error ?? "PAYMENT-SIGNATURE header is required",
      ),
    }),
    accept: async (payable, payment) => {
      const result = await acceptPayment(x402, payable, payment);
      const { settleResponse } = result;
      const headers: Record<string, string> =
        settleResponse === undefined
          ? {}
          : { "payment-response": paymentResponseHeader(settleResponse) };
      return result.kind === "paid"
        ? { kind: "paid", headers, successHeaders: {} }
        : { kind: "refused", reason: result.reason, headers };
    },
    nextStep: (path, bought) => ({
      method: "POST",
      url: path,
      why: `Or pay with x402: sign the payment in the PAYMENT-REQUIRED header and repeat this request with the PAYMENT-SIGNATURE header. This buys ${bought}`,
    }),
  };
}

export interface X402RouteDeps {
  /** Absent if x402 is not enabled. */
  readonly x402?: X402Deps | undefined;
}

export function x402Routes({ x402 }: X402RouteDeps): readonly Route[] {
  if (x402 === undefined) return [];
  return [
    payInvoiceRoute(x402.billing, createX402Protocol(x402), {
      path: X402_PATH,
      id: "payInvoiceWithX402",
      summary: "Pay an invoice with x402",
      description:
        "The first call returns `402` with the header `PAYMENT-REQUIRED` (x402, version 2). The same call with the header `PAYMENT-SIGNATURE` pays from your wallet. An x402 client does both. A signed payment is settled once, however often you send it. After a `503` the outcome may be unknown: send the same header again.",
      responseHeaders: {
        "payment-response": "The settlement: base64-encoded JSON, as x402 specifies.",
      },
      header: "PAYMENT-REQUIRED",
    }),
  ];
}
