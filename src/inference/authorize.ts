// How the gateway's own account signs a request, where a key in a header is not how it is done.

export interface Signing {
  readonly url: string;
  readonly method: "POST" | "GET";
  readonly body: string;
}

export type Signed =
  | { readonly kind: "signed"; readonly headers: Readonly<Record<string, string>> }
  /** Whoever gives out the tokens refused the account. */
  | { readonly kind: "refused"; readonly response: Response };

export interface Authorize {
  readonly sign: (request: Signing) => Promise<Signed>;
  /** The provider did not take what was signed: nothing that was kept is used again. */
  readonly wasRefused: () => void;
}
