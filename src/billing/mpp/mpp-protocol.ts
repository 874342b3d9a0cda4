// Machine Payments (MPP) as one of the protocols in which an agent pays: `WWW-Authenticate: Payment` challenges on a 402,
// and `Authorization: Payment` credentials.

import { encodeJson } from "../../base/canonical-json.ts";
import { isPaymentCredential } from "../../http/request/api-key-header.ts";
import type { PaymentProtocol, ProtocolResult } from "../payments/payment-protocol.ts";
import {
  type PaymentChallenge,
  challengeHeader,
  type Challenger,
  createChallenge,
  expiresAt,
  foreignReason,
  parseCredential,
  receiptHeader,
} from "./challenge.ts";
import type { MachinePaymentMethod } from "./payment-method.ts";

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
