// Requests that an agent signs with its own key instead of sending a bearer key (RFC 9421, Web Bot Auth). The signature must
// cover all that the gateway acts on, is short-lived, and works once.

import { createHash, createPublicKey, timingSafeEqual, verify } from "node:crypto";
import { spendOnce } from "../accounts/proof-of-work.ts";
import { Fault } from "../base/fault.ts";
import { MINUTE_MS, SECOND_MS } from "../base/time.ts";
import { type BodyHash, hashOfBody } from "../http/request/body-hash.ts";
import { isMultipart } from "../http/request/multipart-body.ts";
import type { AuthenticatedKey } from "../http/route.ts";
import type { SignedCaller, SignedRequest } from "../http/steps/authenticate.ts";
import type { KeySource } from "../keys/key-cache.ts";
import { type ProvePublicKey, publicKeyName, thumbprintOf } from "../keys/key-credential.ts";
import type { Keys } from "../keys/keys.ts";
import type { Db, Tx } from "../store/db.ts";
import { type MessageSignature, readSignature, type SignedMessage } from "./http-signature.ts";

/** Tolerated difference between the agent's clock and this machine's. */
const CLOCK_SKEW_MS = MINUTE_MS;
const VALIDITY_MAX_MS = 5 * MINUTE_MS;
const ALGORITHM = "ed25519";
const NONCE_CHARACTERS_MAX = 200;

/** Headers that change what a request does or costs, or which session it is of. */
const COVERED_HEADER =
  /^(?:idempotency-key|x-postern-.+|payment-signature|anthropic-.+|openai-beta|x-openai-.+|x-grok-.+|x-claude-code-.+|x-codex-.+|session[-_]id|conversation_id|thread-id)$/;

export interface SignedRequestDeps {
  readonly db: Db;
  readonly keys: Pick<Keys, "findByCredential">;
  readonly baseUrl: string;
}

export interface SignedRequests {
  /** Undefined for a request that is not signed. Throws for a signature that does not authenticate it. */
  readonly findCaller: (
    request: SignedRequest,
    now: number,
    source: KeySource,
  ) => Promise<SignedCaller | undefined>;
  readonly requireContentDigest: (digest: string | undefined, body: BodyHash) => void;
  readonly provePublicKey: ProvePublicKey;
}

export function createSignedRequests({ db, keys, baseUrl }: SignedRequestDeps): SignedRequests {
  const { host, protocol } = new URL(baseUrl);
  const messageOf = (request: SignedRequest): SignedMessage => ({
    ...request,
    authority: host,
    scheme: protocol.slice(0, -1),
  });
  return {
    findCaller: async (request, now, source) => {
      const message = messageOf(request);
      const signed = readSignature(message);
      if (signed === undefined) return undefined;
      if (typeof signed === "string") throw refused(signed);
      requireCoverage(message, signed);
      requireValidity(signed, now);
      const key = await keys.findByCredential(publicKeyName(signed.keyId), now, source);
      if (key?.credential?.type !== "public_key") throw unknownKey(signed.keyId);
      requireSignature(signed, key.credential.x);
      await db.write((tx) => spendNonce(tx, signed));
      return { key: withoutCredential(key), contentDigest: digestOf(message, signed) };
    },
    requireContentDigest,
    provePublicKey: async (tx, { request, headers, bodyText, now }, x) => {
      const { pathname, search } = new URL(request.url);
      const { method } = request;
      const message = messageOf({ method, path: pathname, query: search.slice(1), headers });
      const signed = readSignature(message, thumbprintOf(x));
      if (signed === undefined)
        throw unproven("the request is not signed by the key of `credential.jwk`");
      if (typeof signed === "string") throw unproven(signed);
      requireCoverage(message, signed);
      requireValidity(signed, now);
      requireSignature(signed, x);
      requireContentDigest(digestOf(message, signed), hashOfBody(Buffer.from(bodyText)));
      await spendNonce(tx, signed);
    },
  };
}

/** What the request handler passes on has no more than for a bearer key. */
function withoutCredential(key: AuthenticatedKey & { readonly credential: unknown }) {
  const { credential: _credential, ...authenticated } = key;
  return authenticated;
}

function requireCoverage(message: SignedMessage, { components, nonce }: MessageSignature): void {
  const has = (...names: readonly string[]): boolean => names.some((name) => components.has(name));
  const missing = [
    has("@method") ? undefined : "@method",
    has("@path", "@request-target", "@target-uri") ? undefined : "@path",
    (message.query ?? "") === "" || has("@query", "@request-target", "@target-uri")
      ? undefined
      : "@query",
    // Another boundary makes other fields of the same body.
    !isMultipart(message.headers) || has("content-type") ? undefined : "content-type",
    ...[...message.headers.keys()].filter((name) => COVERED_HEADER.test(name) && !has(name)),
  ].filter((name) => name !== undefined);
  if (missing.length > 0)
    throw refused(`it does not cover ${missing.map((name) => `\`${name}\``).join(", ")}`);
  if (nonce === undefined || nonce === "" || nonce.length > NONCE_CHARACTERS_MAX)
    throw refused(`its parameter \`nonce\` must have 1 to ${NONCE_CHARACTERS_MAX} characters`);
}

function requireValidity({ algorithm, createdAt, expiresAt }: MessageSignature, now: number): void {
  // RFC 9421 §3.2: an algorithm that contradicts the key fails.
  if (algorithm !== undefined && algorithm !== ALGORITHM)
    throw refused(`its parameter \`alg\` must be "${ALGORITHM}"`);
  if (createdAt > now + CLOCK_SKEW_MS) throw refused("it was created in the future");
  if (expiresAt <= now) throw refused("it has expired");
  if (expiresAt <= createdAt || expiresAt - createdAt > VALIDITY_MAX_MS)
    throw refused(`it must expire within ${VALIDITY_MAX_MS / SECOND_MS} seconds of its creation`);
}

function requireSignature({ base, signature }: MessageSignature, x: string): void {
  const key = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
  if (!verify(null, Buffer.from(base), key, signature))
    throw refused("it does not match the request");
}

/** By the nonce and not by the signature: so no other form of the same signature works again. */
async function spendNonce(
  tx: Tx,
  { keyId, nonce = "", expiresAt }: MessageSignature,
): Promise<void> {
  const id = createHash("sha256").update(`${keyId} ${nonce}`).digest("base64url");
  if (await spendOnce(tx, `nonce.${id}`, expiresAt)) return;
  throw refused("its `nonce` was used before. Sign each request anew");
}

function digestOf(
  { headers }: SignedMessage,
  { components }: MessageSignature,
): string | undefined {
  return components.has("content-digest")
    ? (headers.get("content-digest") ?? undefined)
    : undefined;
}

/** RFC 9530. A body whose digest is not signed could be replaced. */
function requireContentDigest(digest: string | undefined, body: BodyHash): void {
  if (digest === undefined) {
    if (body.length === 0) return;
    throw refused("it does not cover `content-digest`, the SHA-256 of the body");
  }
  const [, encoded] = /(?:^|,\s*)sha-256=:([A-Za-z0-9+/]{43}=):(?=\s*(?:,|$))/.exec(digest) ?? [];
  if (encoded === undefined) throw refused("`content-digest` must have a member `sha-256`");
  if (!timingSafeEqual(body.sha256, Buffer.from(encoded, "base64")))
    throw refused("`content-digest` is not that of the body");
}

const DOCS_STEP = {
  method: "GET",
  url: "/docs/keys-without-secrets.md",
  why: "Read what to sign, with an example.",
} as const;

function unknownKey(keyId: string): Fault {
  return new Fault("invalid_api_key", `no live key for the signature of ${keyId}`, {
    message: `No live API key has the public key ${JSON.stringify(keyId)} that the request names in \`keyid\`, which must be its JWK thumbprint. Create a key or an account with it as \`credential\`.`,
    next: [DOCS_STEP],
  });
}

function refused(reason: string): Fault {
  return new Fault("invalid_api_key", `signature refused: ${reason}`, {
    message: `The request's signature was refused: ${reason}.`,
    next: [DOCS_STEP],
  });
}

function unproven(reason: string): Fault {
  return new Fault("forbidden", `public key without proof: ${reason}`, {
    message: `A public key is bound by a request that it signed itself, and ${reason}. Nothing was created.`,
    param: "credential",
    next: [DOCS_STEP],
  });
}
