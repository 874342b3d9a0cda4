// Machine Payments (MPP) as one of the protocols in which an agent pays: `WWW-Authenticate: Payment` challenges on a 402,
// `Authorization: Payment` credentials, the interface of its methods, and the endpoint that pays an invoice.

import { encodeJson } from "../../base/canonical-json.ts";
import { MPP_PATH } from "../../base/purchase-steps.ts";
import { isPaymentCredential } from "../../http/request/api-key-header.ts";
import type { Route } from "../../http/route.ts";
import type { BillingDeps } from "../billing-deps.ts";
import { payInvoiceRoute } from "../payments/pay-invoice-route.ts";
import type { Payable, PaymentProtocol, ProtocolResult } from "../payments/payment-protocol.ts";
import {
  type Challenger,
  type PaymentChallenge,
  type PaymentCredential,
  challengeHeader,
  createChallenge,
  expiresAt,
  foreignReason,
  parseCredential,
  receiptHeader,
} from "./challenge.ts";

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

export interface MppDeps {
  readonly challenger: Challenger;
  readonly methods: readonly MachinePaymentMethod[];
  readonly now: () => number;
}

export function createMppProtocol({ challenger, methods, now }: MppDeps): PaymentProtocol {
  return {
    paymentIn: (headers) => {
      const header = headers.get("authorization");
      return header !== null && isPaymentCredential(header) ? header : undefined;
    },
    challenge: (payable, { description }) => {
      const challenges = methods.flatMap((method) => {
        const request = method.requestFor(payable);
        if (request === undefined) return [];
        const { accountId } = payable;
        const terms = { method: method.name, request, accountId, now: now() };
        return [createChallenge(challenger, terms)];
      });
      return challenges.length === 0
        ? undefined
        : { "www-authenticate": challengeHeader(challenges, description) };
    },
    accept: async (payable, header) => {
      const credential = parseCredential(header);
      const { challenge } = credential;
      const foreign = foreignReason(challenger, challenge, payable.accountId);
      if (foreign !== undefined) return refused(foreign);
      const method = methods.find(({ name }) => name === challenge.method);
      if (method === undefined) return refused(`the method ${challenge.method} is not offered`);
      const request = method.requestFor(payable);
      const refusal =
        request === undefined || encodeJson(request) !== challenge.request
          ? "the challenge is for another amount or recipient"
          : expiryError(challenge, now());
      const result = await method.accept(payable, { ...credential, refusal });
      if (result.kind === "refused") return refused(result.reason);
      const receipt = receiptHeader(method.name, result.reference, result.at);
      const successHeaders = { "payment-receipt": receipt, "cache-control": "private" };
      return { kind: "paid", headers: {}, successHeaders };
    },
    nextStep: (path, bought) => ({
      method: "POST",
      url: path,
      why: `Or pay with Machine Payments (MPP): fulfill a Payment challenge of the WWW-Authenticate header and repeat this request with the Authorization: Payment header, and your API key in x-api-key. This buys ${bought}`,
    }),
  };
}

function refused(reason: string): ProtocolResult {
  return { kind: "refused", reason, headers: {} };
}

function expiryError(challenge: PaymentChallenge, now: number): string | undefined {
  return expiresAt(challenge) > now ? undefined : "the challenge has expired";
}

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
