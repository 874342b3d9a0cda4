// The part of the fake Stripe for shared payment tokens: a payer issues one, and the seller charges it once.

import {
  declinedResponse,
  type FakePaymentMethodsDeps,
  type SavedIntent,
  savedIntentJson,
  stripeErrorResponse,
} from "./stripe-payment-methods.ts";

/** What happens to a charge, by the payer's payment method. */
const OUTCOMES: Readonly<Record<string, SavedIntent["status"]>> = {
  pm_works: "succeeded",
  pm_declined: "requires_payment_method",
  pm_needs_action: "requires_action",
  pm_processing: "processing",
};

interface SharedToken {
  readonly id: string;
  readonly method: string;
  readonly cents: number;
  readonly currency: string;
  readonly expiresAt: number;
  readonly networkId: string;
  isUsed: boolean;
}

export interface FakeSharedTokens {
  /** Returns undefined if the request is not handled here. Throws an error response. */
  readonly route: (method: string, path: string, form: URLSearchParams) => unknown;
  /** The profile that tokens must be issued for. */
  readonly networkId: string;
  readonly issueToken: (token?: Partial<Omit<SharedToken, "id" | "isUsed">>) => string;
}

const NETWORK_ID = "profile_of_the_fake_seller";
const VALIDITY_SECONDS = 300;

export function createFakeSharedTokens(
  deps: Omit<FakePaymentMethodsDeps, "url">,
): FakeSharedTokens {
  const { newId, nowSeconds, emitEvent, metadataIn, intents } = deps;
  const tokens = new Map<string, SharedToken>();

  const issueToken: FakeSharedTokens["issueToken"] = (token = {}) => {
    const id = newId("spt");
    tokens.set(id, {
      method: "pm_works",
      cents: 100,
      currency: "usd",
      expiresAt: nowSeconds() + VALIDITY_SECONDS,
      networkId: NETWORK_ID,
      ...token,
      id,
      isUsed: false,
    });
    return id;
  };

  const charge = (form: URLSearchParams): unknown => {
    const token = tokens.get(form.get("shared_payment_granted_token") ?? "");
    const cents = Number(form.get("amount"));
    if (token === undefined || token.networkId !== NETWORK_ID)
      throw declinedResponse("No such shared_payment granted_token.");
    if (token.isUsed || token.expiresAt <= nowSeconds())
      throw declinedResponse("The token was used or has expired.");
    if (cents > token.cents || form.get("currency") !== token.currency)
      throw declinedResponse("The token is for another amount.");
    token.isUsed = true;
    const intent: SavedIntent = {
      id: newId("pi"),
      metadata: metadataIn(form, "metadata"),
      cents,
      taxCents: 0,
      currency: token.currency,
      created: nowSeconds(),
      customer: "",
      method: token.method,
      declineCode: token.method === "pm_declined" ? "card_declined" : undefined,
      status: OUTCOMES[token.method] ?? "requires_payment_method",
    };
    intents.set(intent.id, intent);
    if (intent.status === "succeeded")
      emitEvent("payment_intent.succeeded", savedIntentJson(intent));
    if (intent.declineCode !== undefined)
      throw stripeErrorResponse({
        status: 402,
        type: "card_error",
        message: "Your card was declined.",
        code: intent.declineCode,
        extra: { payment_intent: savedIntentJson(intent) },
      });
    return savedIntentJson(intent);
  };

  const search = (query: string): unknown => {
    const [, key = "", value] = /^metadata\["(\w+)"\]:"([\w-]+)"$/.exec(query) ?? [];
    const found = [...intents.values()].filter(({ metadata }) => metadata[key] === value);
    return { object: "search_result", data: found.map(savedIntentJson), has_more: false };
  };

  return {
    networkId: NETWORK_ID,
    issueToken,
    route: (method, path, form) => {
      if (method === "POST" && path === "/v1/shared_payment/issued_tokens")
        return {
          id: issueToken({
            method: form.get("payment_method") ?? "",
            cents: Number(form.get("usage_limits[max_amount]")),
            currency: form.get("usage_limits[currency]") ?? "",
            expiresAt: Number(form.get("usage_limits[expires_at]")),
            networkId: form.get("seller_details[network_id]") ?? "",
          }),
          object: "shared_payment.issued_token",
        };
      if (
        method === "POST" &&
        path === "/v1/payment_intents" &&
        form.has("shared_payment_granted_token")
      )
        return charge(form);
      if (path === "/v1/payment_intents/search") return search(form.get("query") ?? "");
      return undefined;
    },
  };
}
