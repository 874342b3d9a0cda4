// How the gateway's own account signs a request, where a key in a header is not how it is done.

export interface RequestToSign {
  readonly url: string;
  readonly method: "POST" | "GET";
  readonly body: string;
}

export type SignResult =
  | { readonly kind: "signed"; readonly headers: Readonly<Record<string, string>> }
  /** Whoever gives out the tokens refused the account. */
  | { readonly kind: "refused"; readonly response: Response };

export interface Authorizer {
  readonly sign: (request: RequestToSign) => Promise<SignResult>;
  /** The provider did not take what was signed: nothing that was kept is used again. */
  readonly onRejected: () => void;
}
