// x402 as one of the protocols in which an agent pays.

import { type PaymentProtocol, totalCentsOf } from "../payments/payment-protocol.ts";
import {
  paymentRequiredHeader,
  paymentRequirementsFor,
  paymentResponseHeader,
} from "./x402-messages.ts";
import { acceptPayment, type X402Deps } from "./x402-payments.ts";

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
