// POST /v1/billing/invoice/{id}/mpp: pays an invoice with Machine Payments.

import type { Route } from "../../http/route.ts";
import type { BillingDeps } from "../billing-deps.ts";
import { payInvoiceRoute } from "../payments/pay-invoice-route.ts";
import type { PaymentProtocol } from "../payments/payment-protocol.ts";

const MPP_PATH = "/v1/billing/invoice/{id}/mpp";

export interface MppRouteDeps {
  readonly billing: BillingDeps;
  /** Absent if no method of Machine Payments is enabled. */
  readonly mpp?: PaymentProtocol | undefined;
}

export function mppRoutes({ billing, mpp }: MppRouteDeps): readonly Route[] {
  if (mpp === undefined) return [];
  return [
    payInvoiceRoute(billing, mpp, {
      path: MPP_PATH,
      id: "payInvoiceWithMpp",
      summary: "Pay an invoice with Machine Payments",
      description:
        "The first call returns `402` with `Payment` challenges in the header `WWW-Authenticate`. The same call with the header `Authorization: Payment` pays; send the API key as `x-api-key`. An MPP client does both. A credential is charged once, however often you send it. After a `503` the outcome may be unknown: send the same header again.",
      responseHeaders: {
        "payment-receipt": "The receipt: base64url-encoded JSON, as the Payment scheme specifies.",
      },
      header: "WWW-Authenticate",
    }),
  ];
}
