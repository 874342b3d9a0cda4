// Helpers of the Machine Payments tests: the official client, and credentials made by hand.

import { Challenge, Credential, Receipt } from "mppx";
import { evm, Mppx, stripe, tempo } from "mppx/client";
import type { FakeStripe } from "../../support/fakes/stripe.ts";
import type { TempoChain, TempoWallet } from "../../support/fakes/tempo-chain.ts";
import type { Wallet } from "../../support/fakes/x402-facilitator.ts";

/** The domain of the fake chain's token. */
const AUTHORIZATION = { name: "USDC", version: "2" };

export interface MppClient {
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>;
  /** The requests that were sent, as header lists. */
  readonly sent: Headers[];
  readonly credentialFor: (response: Response) => Promise<string>;
}

/** The official client with the method `evm`. */
export function createEvmClient(wallet: Wallet): MppClient {
  return createClient(evm.charge({ account: wallet, authorization: AUTHORIZATION }));
}

/** The official client with the method `stripe`, which issues its tokens at the fake Stripe. */
export function createStripeClient(
  fake: Pick<FakeStripe, "url" | "env">,
  paymentMethod = "pm_works",
): MppClient {
  return createClient(stripeMethod(fake, paymentMethod));
}

export function stripeMethod({ url, env }: Pick<FakeStripe, "url" | "env">, method = "pm_works") {
  return stripe.charge({
    paymentMethod: method,
    createToken: async ({ amount, currency, expiresAt, networkId, paymentMethod }) => {
      const response = await fetch(`${url}/v1/shared_payment/issued_tokens`, {
        method: "POST",
        headers: { authorization: `Bearer ${env["STRIPE_SECRET_KEY"]}` },
        body: new URLSearchParams({
          payment_method: paymentMethod ?? "",
          "usage_limits[currency]": currency,
          "usage_limits[max_amount]": amount,
          "usage_limits[expires_at]": String(expiresAt),
          "seller_details[network_id]": networkId ?? "",
        }),
      });
      return ((await response.json()) as { readonly id: string }).id;
    },
  });
}

/** The official client with the method `tempo`. It asks the node itself, without the gateway's proxy. */
export function createTempoClient(
  chain: TempoChain,
  wallet: TempoWallet,
  mode?: "push" | "pull",
): MppClient {
  return createClient(tempoMethod(chain, wallet, mode));
}

export function tempoMethod(chain: TempoChain, wallet: TempoWallet, mode?: "push" | "pull") {
  const options = mode === undefined ? {} : { mode };
  const getClient = () => chain.client() as never;
  return tempo.charge({ account: wallet, getClient, ...options });
}

type ClientMethod =
  | ReturnType<typeof evm.charge>
  | ReturnType<typeof stripeMethod>
  | ReturnType<typeof tempoMethod>;

function createClient(method: ClientMethod): MppClient {
  const sent: Headers[] = [];
  const recordingFetch: typeof fetch = Object.assign(
    (input: string | URL | Request, init?: RequestInit) => {
      sent.push(new Headers(init?.headers));
      return fetch(input, init);
    },
    { preconnect: fetch.preconnect },
  );
  const client = Mppx.create({ polyfill: false, fetch: recordingFetch, methods: [method] });
  return {
    fetch: (url: string, init: RequestInit) => client.fetch(url, init),
    sent,
    credentialFor: (response: Response) => client.createCredential(response),
  };
}

export function challengesIn(headers: Headers): readonly Challenge.Challenge[] {
  return Challenge.fromHeadersList(headers);
}

export function receiptIn(response: Pick<Response, "headers">): Receipt.Receipt {
  return Receipt.fromResponse(response as Response);
}

/** Changes a credential as a client could. */
export function alterCredential(
  credential: string,
  change: (parsed: Credential.Credential) => object,
): string {
  const parsed = Credential.deserialize(credential);
  return Credential.serialize({ ...parsed, ...change(parsed) });
}
