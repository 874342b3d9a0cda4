// Signs requests to Bedrock with AWS Signature Version 4. Only the host and AWS's own headers are signed, because the
// runtime may add others.

import { AwsV4Signer } from "aws4fetch";
import type { Secret } from "../../base/crypto/secret.ts";
import type { Authorizer } from "./authorizer.ts";

export interface AwsAccount {
  readonly region: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: Secret;
  readonly sessionToken: Secret | undefined;
}

export function createAwsAuthorizer(account: AwsAccount, now: () => number): Authorizer {
  // aws4fetch keeps the derived signing key of each day here.
  const cache = new Map<string, ArrayBuffer>();
  const { region, accessKeyId, secretAccessKey, sessionToken } = account;
  return {
    sign: async ({ url, method, body }) => {
      const signer = new AwsV4Signer({
        service: "bedrock",
        region,
        accessKeyId,
        secretAccessKey: secretAccessKey.reveal(),
        ...(sessionToken === undefined ? {} : { sessionToken: sessionToken.reveal() }),
        url,
        method,
        body,
        datetime: new Date(now()).toISOString().replaceAll(/[:-]|\.\d{3}/g, ""),
        cache,
      });
      const { headers } = await signer.sign();
      headers.delete("host");
      if (cache.size > CACHED_KEYS_MAX) cache.clear();
      return { kind: "signed", headers: Object.fromEntries(headers) };
    },
    onRejected: () => cache.clear(),
  };
}

const CACHED_KEYS_MAX = 8;
