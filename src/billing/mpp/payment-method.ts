// The interface of the methods of Machine Payments.

import type { Payable } from "../payments/payment-protocol.ts";
import type { PaymentCredential } from "./challenge.ts";

export type MethodResult =
  | { readonly kind: "paid"; readonly reference: string; readonly at: number }
  | { readonly kind: "refused"; readonly reason: string };

export interface NewCredential extends PaymentCredential {
  /** Why it must not be taken as a new payment. A payment that was taken before keeps its outcome. */
  readonly refusal: string | undefined;
}

export interface MachinePaymentMethod {
  readonly name: string;
  /** The `request` of a challenge; undefined if the method cannot pay this amount. */
  readonly requestFor: (payable: Payable) => Readonly<Record<string, unknown>> | undefined;
  /** Idempotent: a credential is charged once. Throws while its outcome is unknown. */
  readonly accept: (payable: Payable, credential: NewCredential) => Promise<MethodResult>;
}
