// POST /v1/billing/invoice/{id}/x402: pays an invoice from an agent's wallet.

import type { Route } from "../../http/route.ts";
import { payInvoiceRoute } from "../payments/pay-invoice-route.ts";
import { X402_PATH, type X402Deps } from "./x402-payments.ts";
import { createX402Protocol } from "./x402-protocol.ts";

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
