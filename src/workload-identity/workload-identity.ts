// Workload identity: a token of an OpenID Connect issuer, such as that of a CI job, is accepted as the short-lived bearer of the key
// whose credential names the issuer and the subject. The audience of the token is that key, so it works for no other.

import { createHash } from "node:crypto";
import type { JSONWebKeySet, JWTPayload } from "jose";
import { z } from "zod";
import { lazy } from "../base/lazy.ts";
import { parseEndpoint, type ResolveHost } from "../base/network/public-endpoint.ts";
import {
  createPublishedKeys,
  getPublicJson,
  type PublishedKeys,
} from "../base/network/published-keys.ts";
import { DAY_MS, MINUTE_MS, SECOND_MS } from "../base/time.ts";
import type { KeyRejection } from "../http/steps/authenticate.ts";
import type { KeySource } from "../keys/key-cache.ts";
import { audienceName, type OidcCredential } from "../keys/key-credential.ts";
import type { Keys } from "../keys/keys.ts";
import type { LiveKey } from "../keys/live-keys.ts";

const CLOCK_SKEW_MS = MINUTE_MS;
/** A token that is valid for longer is as dangerous as a secret. */
const LIFETIME_MAX_MS = DAY_MS;
const TOKEN_CHARACTERS_MAX = 16_384;
/** Signatures only: with a shared secret, the public key of the issuer would verify what anyone can make. */
const ALGORITHMS = [
  "RS256",
  "RS384",
  "RS512",
  "PS256",
  "PS384",
  "PS512",
  "ES256",
  "ES384",
  "EdDSA",
];
/** How long a verified token is not verified again. Its key is still looked up for each request. */
const VERIFIED_MS = 5 * MINUTE_MS;
const VERIFIED_MAX = 10_000;

const JWT = /^eyJ[\w-]*\.[\w-]+\.[\w-]*$/;
const loadJose = lazy(() => import("jose"));

export interface WorkloadIdentity {
  /** The same keys, which are also found by a token of an issuer. */
  readonly withTokens: (keys: Keys) => Keys;
  /** Why a token is rejected; undefined if it is not a token, or works. */
  readonly explain: (keys: Keys, raw: string, now: number) => Promise<KeyRejection | undefined>;
}

interface Verified {
  readonly key: LiveKey;
  readonly expiresAt: number;
}

export function createWorkloadIdentity(options: IssuerKeysOptions): WorkloadIdentity {
  const issuerKeys = createIssuerKeys(options);
  // By the hash of the token, so that no token stays in memory.
  const verified = new Map<
    string,
    { readonly audience: string; readonly expiresAt: number; readonly until: number }
  >();

  const findByToken = async (
    keys: Keys,
    raw: string,
    now: number,
    source: KeySource,
  ): Promise<LiveKey | undefined> => {
    const hash = createHash("sha256").update(raw).digest("base64");
    const known = verified.get(hash);
    if (known !== undefined && now < known.until && now < known.expiresAt) {
      const key = await keys.findByCredential(audienceName(known.audience), now, source);
      return key && expiringAt(key, known.expiresAt);
    }
    const result = await verifyToken({ keys, issuerKeys, raw, now });
    if (typeof result === "string") return undefined;
    if (verified.size >= VERIFIED_MAX) verified.clear();
    const { key, expiresAt } = result;
    if (key.credential?.type === "oidc") {
      const { audience } = key.credential;
      verified.set(hash, { audience, expiresAt, until: now + VERIFIED_MS });
    }
    return expiringAt(key, expiresAt);
  };
  return {
    withTokens: (keys) => ({
      ...keys,
      find: (raw, now, source) =>
        isToken(raw) ? findByToken(keys, raw, now, source) : keys.find(raw, now, source),
    }),
    explain: async (keys, raw, now) => {
      if (!isToken(raw)) return undefined;
      const result = await verifyToken({ keys, issuerKeys, raw, now });
      return typeof result === "string"
        ? {
            reason: `The token was refused: ${result}. See \`/docs/keys-without-secrets\`.`,
            wasLive: false,
          }
        : undefined;
    },
  };
}

function isToken(raw: string): boolean {
  return raw.length <= TOKEN_CHARACTERS_MAX && JWT.test(raw);
}

function expiringAt(key: LiveKey, tokenExpiresAt: number): LiveKey {
  return { ...key, expiresAt: Math.min(key.expiresAt ?? Infinity, tokenExpiresAt) };
}

interface Verification {
  readonly keys: Keys;
  readonly issuerKeys: IssuerKeys;
  readonly raw: string;
  readonly now: number;
}

/** The key of the token, or why it has none. */
async function verifyToken({
  keys,
  issuerKeys,
  raw,
  now,
}: Verification): Promise<Verified | string> {
  const jose = await loadJose();
  let header: ReturnType<typeof jose.decodeProtectedHeader>;
  let claims: JWTPayload;
  try {
    header = jose.decodeProtectedHeader(raw);
    claims = jose.decodeJwt(raw);
  } catch {
    return "it is not a JSON Web Token";
  }
  const key = await findByAudience(keys, claims, now);
  if (key?.credential?.type !== "oidc")
    return "its `aud` is not the `audience` of a live key of this gateway";
  const { credential } = key;
  // Before its keys are read: only issuers that an owner has named get a request.
  if (claims.iss !== credential.issuer) return "its `iss` is not the issuer of the key";
  let keySet: JSONWebKeySet;
  try {
    keySet = await issuerKeys.find(credential.issuer, header.kid, now);
  } catch {
    return "the keys of its issuer could not be read. Try again in a minute";
  }
  try {
    const { payload } = await jose.jwtVerify(raw, jose.createLocalJWKSet(keySet), {
      algorithms: ALGORITHMS,
      issuer: credential.issuer,
      audience: credential.audience,
      currentDate: new Date(now),
      clockTolerance: CLOCK_SKEW_MS / SECOND_MS,
      requiredClaims: ["exp", "iat", "sub"],
    });
    return (
      problemOf(payload, credential, now) ?? {
        key,
        expiresAt: (payload.exp ?? 0) * SECOND_MS + CLOCK_SKEW_MS,
      }
    );
  } catch (error) {
    return error instanceof jose.errors.JOSEError ? reasonOf(error.code) : "it cannot be verified";
  }
}

async function findByAudience(
  keys: Keys,
  { aud }: JWTPayload,
  now: number,
): Promise<LiveKey | undefined> {
  // A token for several audiences could be replayed here by each of them.
  const [audience, second] = typeof aud === "string" ? [aud] : (aud ?? []);
  if (typeof audience !== "string" || second !== undefined) return undefined;
  return await keys.findByCredential(audienceName(audience), now, "store");
}

function problemOf(
  { sub, exp = 0, iat = 0, ...claims }: JWTPayload,
  { subject, claims: required }: OidcCredential,
  now: number,
): string | undefined {
  if (sub === undefined || !matchesSubject(subject, sub))
    return `its \`sub\` ${JSON.stringify(sub?.slice(0, 200))} does not match the \`subject\` of the key`;
  const wrong = Object.keys(required).find((name) => claims[name] !== required[name]);
  if (wrong !== undefined)
    return `its claim \`${wrong}\` does not have the value that the key requires`;
  if (iat * SECOND_MS > now + CLOCK_SKEW_MS) return "it was issued in the future";
  if ((exp - iat) * SECOND_MS > LIFETIME_MAX_MS) return "it is valid for more than a day";
  return undefined;
}

/** Letter case counts. */
function matchesSubject(pattern: string, subject: string): boolean {
  return pattern.endsWith("*") ? subject.startsWith(pattern.slice(0, -1)) : subject === pattern;
}

function reasonOf(code: string): string {
  switch (code) {
    case "ERR_JWT_EXPIRED":
      return "it has expired";
    case "ERR_JOSE_ALG_NOT_ALLOWED":
      return "its algorithm is not accepted: sign it with RSA, ECDSA or Ed25519";
    case "ERR_JWKS_NO_MATCHING_KEY":
      return "its issuer has no such key";
    case "ERR_JWS_SIGNATURE_VERIFICATION_FAILED":
      return "its signature is wrong";
    default:
      return "a required claim is missing or wrong, such as `exp`, `nbf`, `iat` or `sub`";
  }
}

// The public keys of OpenID Connect issuers, found by their discovery documents.

const ISSUERS_MAX = 1_000;

const Discovery = z.looseObject({ issuer: z.string(), jwks_uri: z.string() });
const KeySet = z.object({ keys: z.array(z.looseObject({ kty: z.string() })).max(100) });

interface IssuerKeysOptions {
  /** Development only. */
  readonly allowLoopback: boolean;
  readonly resolve: ResolveHost;
}

interface IssuerKeys {
  /** Throws if the keys cannot be read. With `keyId`, they are read again if they do not have it. */
  readonly find: (issuer: string, keyId: string | undefined, now: number) => Promise<JSONWebKeySet>;
}

function createIssuerKeys(options: IssuerKeysOptions): IssuerKeys {
  // In the order of their creation: the oldest is dropped for a new one.
  const issuers = new Map<string, PublishedKeys<JSONWebKeySet>>();
  const keysOf = (issuer: string): PublishedKeys<JSONWebKeySet> => {
    const known = issuers.get(issuer);
    if (known !== undefined) return known;
    const [oldest] = issuers.keys();
    if (issuers.size >= ISSUERS_MAX && oldest !== undefined) issuers.delete(oldest);
    const created = createPublishedKeys(() => readKeys(issuer, options));
    issuers.set(issuer, created);
    return created;
  };
  return {
    find: async (issuer, keyId, now) => {
      const hasKey = ({ keys }: JSONWebKeySet): boolean =>
        keyId === undefined || keys.some(({ kid }) => kid === keyId);
      const found = await keysOf(issuer)(hasKey, now);
      if (found === undefined) throw new Error("the keys of the issuer could not be read");
      return found;
    },
  };
}

async function readKeys(issuer: string, options: IssuerKeysOptions): Promise<JSONWebKeySet> {
  const document = `${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`;
  const discovery = Discovery.parse(await fetchJson(document, options));
  if (discovery.issuer !== issuer) throw new Error("the document is of another issuer");
  return KeySet.parse(await fetchJson(discovery.jwks_uri, options));
}

async function fetchJson(url: string, options: IssuerKeysOptions): Promise<unknown> {
  const endpoint = parseEndpoint(url, options.allowLoopback);
  if (typeof endpoint === "string") throw new Error(`the URL ${endpoint}`);
  return await getPublicJson(endpoint, "application/json", options.resolve);
}
