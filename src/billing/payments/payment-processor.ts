// The interface of payment processors. Each reports payments as facts, which payment-facts.ts applies.

export type FactKind = "paid" | "refunded" | "refund_failed" | "disputed" | "dispute_closed";

/** An event that a processor reports. Unique by processor, reference and kind. */
export interface PaymentFact {
  readonly processor: string;
  /** The processor's id of the payment, refund or dispute. */
  readonly ref: string;
  readonly kind: FactKind;
  /** The reference of the payment that the fact is about; for a payment, its own. */
  readonly payment: string;
  readonly invoiceId: string;
  /** The total paid, refunded or disputed. For a closed dispute, what came back: 0 if it was lost. */
  readonly amountCents: number;
  /** The tax included in a payment. */
  readonly taxCents: number;
  readonly currency: string;
  readonly at: number;
}

export interface CheckoutRequest {
  readonly invoiceId: string;
  readonly accountId: string;
  readonly credits: number;
  readonly totalCents: number;
  readonly payUrl: string;
}

export interface HostedPage {
  readonly ref: string;
  readonly url: string;
}

/** `processing`: the payer has paid, but the money has not arrived yet. `expired`: the page can no longer be paid. */
export interface PageState {
  readonly state: "open" | "processing" | "done" | "expired";
  readonly url: string | undefined;
  /** All facts so far; a payment comes before its refunds and disputes. */
  readonly facts: readonly PaymentFact[];
}

/** A request to save a payment method. */
export interface SetupRequest {
  /** Idempotency key: the same id returns the same page. */
  readonly id: string;
  readonly accountId: string;
  readonly returnUrl: string;
}

export interface SetupPage extends HostedPage {
  /** The processor's id of the payer. */
  readonly customer: string;
}

/** The state of a page where a method is saved. */
export type SetupState =
  | { readonly state: "open"; readonly url: string | undefined }
  | { readonly state: "expired" }
  | { readonly state: "saved"; readonly ref: string; readonly label: string };

/** A charge of a saved method for an invoice. */
export interface ChargeRequest {
  readonly id: string;
  readonly invoiceId: string;
  readonly credits: number;
  readonly totalCents: number;
  readonly customer: string;
  readonly method: string;
  readonly createdAt: number;
  readonly now: number;
}

export type RefusalReason = "declined" | "authentication_required" | "method_gone";

export type ChargeResult =
  | {
      readonly state: "done" | "processing";
      readonly ref: string;
      readonly facts: readonly PaymentFact[];
    }
  | { readonly state: "refused"; readonly reason: RefusalReason }
  /** The processor refused the gateway's request, which is not the payer's fault: a setting or a permission is wrong. */
  | { readonly state: "refused"; readonly reason: "processor_refused"; readonly cause: unknown };

/** Saved payment methods, charged without the payer (off session). */
export interface PaymentMethods {
  readonly createSetupPage: (request: SetupRequest) => Promise<SetupPage>;
  readonly fetchSetup: (ref: string) => Promise<SetupState>;
  /** Idempotent by the request's id. Throws if the outcome is unknown. */
  readonly charge: (charge: ChargeRequest) => Promise<ChargeResult>;
  /** Finds the result of an earlier charge; undefined if it was never made. */
  readonly findCharge: (charge: ChargeRequest) => Promise<ChargeResult | undefined>;
  readonly detach: (method: string) => Promise<void>;
}

/** A charge of a token that a payer granted for one payment. */
export interface TokenCharge {
  readonly id: string;
  readonly invoiceId: string;
  readonly totalCents: number;
  readonly token: string;
}

export type TokenChargeResult =
  | { readonly state: "done"; readonly ref: string; readonly facts: readonly PaymentFact[] }
  /** Accepted, but the money has not arrived yet. */
  | { readonly state: "processing"; readonly ref: string }
  /** `cause` is set if it may be a mistake of the operator. */
  | { readonly state: "refused"; readonly reason: string; readonly cause?: unknown };

/** Shared payment tokens, which agents pay with. */
export interface SharedTokens {
  /** The seller's id, for which payers issue tokens. */
  readonly networkId: string;
  /** Idempotent by the charge's id. Throws if the outcome is unknown. */
  readonly charge: (charge: TokenCharge) => Promise<TokenChargeResult>;
  /** Finds the result of an earlier charge. A charge of the last hour may not be found yet. */
  readonly findCharge: (id: string) => Promise<TokenChargeResult | undefined>;
}

/** A processor with its own checkout page. */
export interface HostedProcessor {
  readonly kind: "hosted";
  readonly id: string;
  readonly name: string;
  /** The processor calculates tax during checkout. */
  readonly calculatesTax: boolean;
  /** The origins of its pages, for the CSP `form-action` of the page that leads there. */
  readonly formTargets: readonly string[];
  /** Idempotent: the same invoice and attempt return the same page. */
  readonly createPage: (request: CheckoutRequest, attempt: number) => Promise<HostedPage>;
  readonly fetchPage: (ref: string) => Promise<PageState>;
  /** Closes a page, so that it can no longer be paid. Does nothing if it is not open. */
  readonly cancelPage: (ref: string) => Promise<void>;
  /** Returns the page that a webhook names; undefined if it is not this gateway's. Throws on a wrong signature. */
  readonly parseWebhook?: (
    bodyText: string,
    signature: string,
    now: number,
  ) => Promise<string | undefined>;
  readonly paymentMethods?: PaymentMethods;
  readonly sharedTokens?: SharedTokens;
}

export type PaymentProcessor =
  | HostedProcessor
  /** Bank transfers, which the operator confirms with `postern admin mark-paid`. */
  | { readonly kind: "manual"; readonly id: "manual"; readonly instructions: string | undefined }
  /** Simulated payments and test cards, on loopback only. */
  | {
      readonly kind: "development";
      readonly id: "development";
      readonly paymentMethods: PaymentMethods;
    };

/** Undefined if the processor cannot charge saved methods, such as bank transfer. */
export function paymentMethodsOf(processor: PaymentProcessor): PaymentMethods | undefined {
  return processor.kind === "manual" ? undefined : processor.paymentMethods;
}
