// What a payment processor is to this room. However money comes in, it comes in as facts, and `payments.ts` is the one
// door for them.

export type FactKind =
  | "paid"
  | "refunded"
  | "refund_failed"
  | "disputed"
  | "dispute_closed"
  | "voided";

/** Something that a processor says has happened. There is one for each processor, reference and kind. */
export interface PaymentFact {
  readonly processor: string;
  /** The processor's own name for it: of the payment, of the refund, of the dispute. */
  readonly ref: string;
  readonly kind: FactKind;
  /** The reference of the payment that it is about; a payment's own. */
  readonly payment: string;
  readonly invoiceId: string;
  /** All that was paid, given back or disputed; of a closed dispute what came back: nothing where it was lost. */
  readonly amountCents: number;
  /** The tax within what was paid. */
  readonly taxCents: number;
  readonly currency: string;
  readonly at: number;
}

/** What somebody is asked to pay. */
export interface CheckoutRequest {
  readonly invoiceId: string;
  readonly accountId: string;
  readonly amountCents: number;
  readonly feeCents: number;
  readonly payUrl: string;
}

export interface HostedPage {
  readonly ref: string;
  readonly url: string;
}

/** How a page at a processor stands: it can be paid at, the money is under way, it is paid, or it is dead. */
export interface PageState {
  readonly state: "open" | "processing" | "done" | "expired";
  readonly url: string | undefined;
  /** All that has happened so far, causes first. */
  readonly facts: readonly PaymentFact[];
}

/** Whose payment method is to be saved, and where its owner comes back to. */
export interface SetupRequest {
  /** The same id gives the same page, however often it is asked for. */
  readonly id: string;
  readonly accountId: string;
  readonly returnUrl: string;
}

export interface SetupPage extends HostedPage {
  /** The processor's name for the payer. */
  readonly customer: string;
}

/** How a page at which a method is saved stands. */
export type SetupState =
  | { readonly state: "open"; readonly url: string | undefined }
  | { readonly state: "expired" }
  | { readonly state: "saved"; readonly ref: string; readonly label: string };

/** A saved method, and what it is charged for. */
export interface ChargeRequest {
  readonly id: string;
  readonly invoiceId: string;
  readonly amountCents: number;
  readonly feeCents: number;
  readonly customer: string;
  readonly method: string;
  readonly createdAt: number;
  readonly now: number;
}

export type DeclineReason = "declined" | "authentication_required" | "method_gone";

export type ChargeResult =
  | {
      readonly state: "done" | "processing";
      readonly ref: string;
      readonly facts: readonly PaymentFact[];
    }
  | { readonly state: "refused"; readonly reason: DeclineReason };

/** Where payment methods are kept, to be charged while nobody is there. */
export interface PaymentMethods {
  readonly createSetupPage: (request: SetupRequest) => Promise<SetupPage>;
  readonly fetchSetup: (ref: string) => Promise<SetupState>;
  /** The same charge is made once, however often it is asked for. Throws where nobody knows what became of it. */
  readonly charge: (charge: ChargeRequest) => Promise<ChargeResult>;
  /** What became of a charge that was asked for before; undefined where it was never made. */
  readonly findCharge: (charge: ChargeRequest) => Promise<ChargeResult | undefined>;
  readonly detach: (method: string) => Promise<void>;
}

/** A processor with a page of its own for people to pay at. */
export interface HostedProcessor {
  readonly kind: "hosted";
  readonly id: string;
  readonly name: string;
  /** It works out the tax while somebody pays. */
  readonly calculatesTax: boolean;
  /** Where its page may be, for the policy of the page that leads there. */
  readonly formTargets: readonly string[];
  /** The same order and attempt give the same page, however often it is asked for. */
  readonly createPage: (request: CheckoutRequest, attempt: number) => Promise<HostedPage>;
  readonly fetchPage: (ref: string) => Promise<PageState>;
  /** Closes a page, so that nobody can pay at it; does nothing where it is not open any more. */
  readonly cancelPage: (ref: string) => Promise<void>;
  /** The page that a webhook is about; undefined where it is about nothing of ours. Throws where it is forged. */
  readonly parseWebhook?: (
    bodyText: string,
    signature: string,
    now: number,
  ) => Promise<string | undefined>;
  readonly paymentMethods?: PaymentMethods;
}

export type PaymentProcessor =
  | HostedProcessor
  /** The operator says what was paid, with `postern admin mark-paid`. */
  | { readonly kind: "manual"; readonly id: "manual"; readonly instructions: string | undefined }
  /** Two buttons and cards that are none, on loopback only. */
  | {
      readonly kind: "development";
      readonly id: "development";
      readonly paymentMethods: PaymentMethods;
    };

/** Undefined where a processor can charge nobody by itself, as with bank transfers. */
export function paymentMethodsOf(processor: PaymentProcessor): PaymentMethods | undefined {
  return processor.kind === "manual" ? undefined : processor.paymentMethods;
}
