// The interface of the protocols of agent payments: x402 and Machine Payments.

import type { Actor } from "../../activity/audit.ts";
import type { NextStep } from "../../base/fault.ts";
import { priceOf } from "../invoices/cents.ts";
import type { Invoice } from "../invoices/invoices.ts";

export interface InvoiceDraft {
  readonly credits: number;
  /** The key whose call is paid for; the gateway itself if it is absent. */
  readonly actor?: Actor | undefined;
}

/** What a payment buys: an existing invoice, or a draft that is created once the payment is verified. */
export interface Payable {
  readonly accountId: string;
  readonly invoice: Invoice | InvoiceDraft;
}

export type ResponseHeaders = Readonly<Record<string, string>>;

export type ProtocolResult =
  | {
      readonly kind: "paid";
      /** On every response to the payment. */
      readonly headers: ResponseHeaders;
      /** Only on a response with status 2xx. */
      readonly successHeaders: ResponseHeaders;
    }
  /** No money was moved. */
  | { readonly kind: "refused"; readonly reason: string; readonly headers: ResponseHeaders };

export interface PaymentResource {
  readonly path: string;
  readonly description: string;
}

export interface PaymentProtocol {
  /** The payment that a request contains; undefined if it contains none of this protocol. */
  readonly paymentIn: (headers: Headers) => string | undefined;
  /** Headers that say how to pay; undefined if this protocol cannot pay the amount. */
  readonly challenge: (
    payable: Payable,
    resource: PaymentResource,
    error: string | undefined,
  ) => ResponseHeaders | undefined;
  /** Idempotent: a payment is settled and credited once. Throws while its outcome is unknown. */
  readonly accept: (payable: Payable, payment: string) => Promise<ProtocolResult>;
  /** Tells an agent how to pay for the request to `path`. */
  readonly nextStep: (path: string, bought: string) => NextStep;
}

export function totalCentsOf({ invoice }: Payable): number {
  return "id" in invoice ? invoice.totalCents : priceOf(invoice.credits);
}
