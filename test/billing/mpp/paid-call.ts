// A call that must be paid for, and the error that asks for the payment.

import { readWallet } from "../../inference/support/harness.ts";
import type { Gateway, TestAccount } from "../../support/gateway.ts";

/** Costs up to $0.60: more than the starting credit, less than one payment buys. */
export const CALL = {
  model: "openai/gpt-5",
  messages: [{ role: "user", content: "[[sim: tokens=20]] hello" }],
  max_tokens: 60_000,
};

/** Also a stream needs credits for all of its output, and so a payment. */
export const WHOLE_HOLD = { "x-postern-hold": "full" };

export interface ErrorBody {
  readonly error: {
    readonly code: string;
    readonly message: string;
    readonly param?: string;
    readonly payment_error?: string;
    readonly next?: readonly { readonly url: string; readonly why: string }[];
  };
}

interface Payer {
  readonly gateway: Gateway;
  readonly account: TestAccount;
}

/** Calls of the account of the test that runs. */
export function paidCalls(current: () => Payer) {
  const callUrl = (): string => `${current().gateway.url}/v1/chat/completions`;
  const request = (body: object = CALL, payer = current().account): RequestInit => ({
    method: "POST",
    headers: { "x-api-key": payer.key, "content-type": "application/json", ...WHOLE_HOLD },
    body: JSON.stringify(body),
  });
  return {
    callUrl,
    request,
    /** Sends the call with a credential by hand. */
    call: async (credential?: string, payer = current().account) => {
      const init = request(CALL, payer);
      const headers = new Headers(init.headers);
      if (credential !== undefined) headers.set("authorization", credential);
      const response = await fetch(callUrl(), { ...init, headers });
      const body = (await response.json()) as ErrorBody;
      return { status: response.status, body, headers: response.headers };
    },
    paidNano: async (): Promise<bigint> => {
      const { gateway, account } = current();
      return (await readWallet(gateway.server.db, account.id)).paid;
    },
  };
}
