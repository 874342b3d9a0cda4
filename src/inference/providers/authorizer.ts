// Request signing for provider accounts that need more than an API key in a header.

interface RequestToSign {
  readonly url: string;
  readonly method: "POST" | "GET";
  readonly body: string;
}

type SignResult =
  | { readonly kind: "signed"; readonly headers: Readonly<Record<string, string>> }
  /** The token endpoint rejected the account. */
  | { readonly kind: "rejected"; readonly response: Response };

export interface Authorizer {
  readonly sign: (request: RequestToSign) => Promise<SignResult>;
  /** The provider rejected the signature: drop cached tokens and keys. */
  readonly onRejected: () => void;
}
