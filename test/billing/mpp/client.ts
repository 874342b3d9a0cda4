// Helpers of the Machine Payments tests: the official client, and credentials made by hand.

import { Challenge, Credential, Receipt } from "mppx";
import { evm, Mppx } from "mppx/client";
import type { Wallet } from "../../support/fakes/x402-facilitator.ts";

export type { Challenge };

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
  const sent: Headers[] = [];
  const recordingFetch: typeof fetch = Object.assign(
    (input: string | URL | Request, init?: RequestInit) => {
      sent.push(new Headers(init?.headers));
      return fetch(input, init);
    },
    { preconnect: fetch.preconnect },
  );
  const client = Mppx.create({
    polyfill: false,
    fetch: recordingFetch,
    methods: [evm.charge({ account: wallet, authorization: AUTHORIZATION })],
  });
  return {
    fetch: (url, init) => client.fetch(url, init),
    sent,
    credentialFor: (response) => client.createCredential(response),
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
