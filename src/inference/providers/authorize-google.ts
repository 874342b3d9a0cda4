// Google service accounts: a JWT assertion signed with the account's key is exchanged for an access token, which is reused
// until shortly before it expires. Concurrent calls share one exchange.

import { createPrivateKey, sign } from "node:crypto";
import { z } from "zod";
import { type Secret, secret } from "../../base/crypto/secret.ts";
import { readBoundedText } from "../../base/streams/bounded-body.ts";
import { MINUTE_MS, SECOND_MS } from "../../base/time.ts";
import type { Authorizer } from "./authorizer.ts";

const ServiceAccount = z.object({
  client_email: z.string().min(1),
  private_key: z.string().min(1),
  private_key_id: z.string().optional(),
  token_uri: z.url().default("https://oauth2.googleapis.com/token"),
  project_id: z.string().optional(),
});
export type ServiceAccount = z.infer<typeof ServiceAccount>;

const TokenReply = z.object({
  access_token: z.string().min(1),
  expires_in: z.number().positive().default(3_600),
});

const SCOPE = "https://www.googleapis.com/auth/cloud-platform";
const ASSERTION_LIFETIME_SECONDS = 3_600;
const RENEW_BEFORE_EXPIRY_MS = 2 * MINUTE_MS;
const TOKEN_REPLY_MAX_BYTES = 65_536;
const TOKEN_TIMEOUT_MS = 10 * SECOND_MS;

/** Parses a service account; undefined if the text is not one or its key is not readable. */
export function readServiceAccount(text: string): ServiceAccount | undefined {
  try {
    const account = ServiceAccount.parse(JSON.parse(text));
    createPrivateKey(account.private_key);
    return account;
  } catch {
    return undefined;
  }
}

export function serviceAccountError(text: string): string | undefined {
  return readServiceAccount(text) === undefined
    ? "must be a Google service account key file (JSON) with `client_email` and a valid `private_key`"
    : undefined;
}

interface AccessToken {
  readonly raw: Secret;
  readonly renewAt: number;
}

export function createGoogleAuthorizer(
  account: ServiceAccount,
  { tokenUrl = account.token_uri, now }: { readonly tokenUrl?: string; readonly now: () => number },
): Authorizer {
  const key = createPrivateKey(account.private_key);
  let token: AccessToken | undefined;
  let pending: Promise<AccessToken | Response> | undefined;
  const fetchToken = async (): Promise<AccessToken | Response> => {
    const response = await fetch(tokenUrl, {
      method: "POST",
      headers: { "content-type": "application/x-www-form-urlencoded" },
      body: new URLSearchParams({
        grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer",
        assertion: signJwtAssertion(account, key, { audience: tokenUrl, now: now() }),
      }),
      redirect: "manual",
      signal: AbortSignal.timeout(TOKEN_TIMEOUT_MS),
    });
    const text = await readBoundedText(response.body, TOKEN_REPLY_MAX_BYTES);
    // A 4xx rejects this account and is passed on as a 401; any other failure may be temporary.
    if (response.status >= 400 && response.status < 500 && response.status !== 429)
      return new Response(text, { status: 401 });
    if (!response.ok) throw new Error(`Google's token endpoint returned ${response.status}`);
    const { access_token: raw, expires_in: seconds } = TokenReply.parse(JSON.parse(text));
    token = { raw: secret(raw), renewAt: now() + seconds * SECOND_MS - RENEW_BEFORE_EXPIRY_MS };
    return token;
  };
  return {
    sign: async () => {
      if (token === undefined || token.renewAt <= now()) {
        pending ??= fetchToken().finally(() => {
          pending = undefined;
        });
        const fetched = await pending;
        if (fetched instanceof Response) return { kind: "rejected", response: fetched.clone() };
        return bearerHeaders(fetched);
      }
      return bearerHeaders(token);
    },
    onRejected: () => {
      token = undefined;
    },
  };
}

function bearerHeaders({ raw }: AccessToken): Awaited<ReturnType<Authorizer["sign"]>> {
  return { kind: "signed", headers: { authorization: `Bearer ${raw.reveal()}` } };
}

// A JWT bearer assertion (RFC 7523), signed with RS256.
function signJwtAssertion(
  account: ServiceAccount,
  key: ReturnType<typeof createPrivateKey>,
  { audience, now }: { readonly audience: string; readonly now: number },
): string {
  const issuedAt = Math.floor(now / SECOND_MS);
  const header = {
    alg: "RS256",
    typ: "JWT",
    ...(account.private_key_id === undefined ? {} : { kid: account.private_key_id }),
  };
  const claims = {
    iss: account.client_email,
    scope: SCOPE,
    aud: audience,
    iat: issuedAt,
    exp: issuedAt + ASSERTION_LIFETIME_SECONDS,
  };
  const signingInput = [header, claims].map(base64UrlJson).join(".");
  const signature = sign("RSA-SHA256", Buffer.from(signingInput), key).toString("base64url");
  return `${signingInput}.${signature}`;
}

function base64UrlJson(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}

/** The API host of a Vertex location. */
export function vertexHost(location: string): string {
  if (location === "global") return "aiplatform.googleapis.com";
  return location === "us" || location === "eu"
    ? `aiplatform.${location}.rep.googleapis.com`
    : `${location}-aiplatform.googleapis.com`;
}
