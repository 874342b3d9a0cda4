// What authenticates a key that has no secret: a public key, whose holder signs each request, or an identity that an OpenID
// Connect issuer states in a token. A key has one credential for as long as it lives, so a stronger one cannot be bypassed.

import { createHash } from "node:crypto";
import { z } from "zod";
import { invalid } from "../base/fault.ts";
import { isObject } from "../base/json.ts";
import { isSafeText } from "../base/text/safe-text.ts";
import { parseWithSchema } from "../http/request/validate.ts";
import type { Scope } from "../http/scopes.ts";
import type { Tx } from "../store/db.ts";

const SUBJECT_MAX = 500;
const CLAIMS_MAX = 5;
/** At least two whole parts, because the next part would else begin with what others may choose. */
const SUBJECT_PREFIX = /^[^*:/]+[:/][^*]*[^*:/][:/]\*$/;

const PublicJwk = z
  .looseObject({
    kty: z.literal("OKP"),
    crv: z.literal("Ed25519"),
    x: z.string().regex(/^[\w-]{43}$/, "must be the 32 bytes of the public key in base64url"),
  })
  .refine((jwk) => !("d" in jwk), {
    message: "is a private key. Do not send it anywhere: make another one, and send its public key",
  });

/** With the name of its field, which errors name. */
const Credential = z.object({
  credential: z.discriminatedUnion("type", [
    z.strictObject({ type: z.literal("public_key"), jwk: PublicJwk }),
    z.strictObject({
      type: z.literal("oidc"),
      issuer: z.url().max(500),
      subject: z.string().min(1).max(SUBJECT_MAX),
      claims: z.record(z.string().min(1).max(100), z.string().min(1).max(SUBJECT_MAX)).default({}),
    }),
  ]),
});

/** Its fields are described on a page of the documentation only, because many documents that models read would repeat them. */
export const NewCredential = z.record(z.string(), z.unknown());
export const CredentialRecord = z.record(z.string(), z.unknown());

interface PublicKeyCredential {
  readonly type: "public_key";
  readonly x: string;
}

export interface OidcCredential {
  readonly type: "oidc";
  readonly issuer: string;
  readonly subject: string;
  readonly claims: Readonly<Record<string, string>>;
  readonly audience: string;
}

/** Payments that this wallet signs. */
interface WalletCredential {
  readonly type: "wallet";
  readonly address: string;
}

export type KeyCredential = PublicKeyCredential | OidcCredential | WalletCredential;
/** What a request can name. The audience is that of the key, once it has an id. */
type RequestedCredential = PublicKeyCredential | Omit<OidcCredential, "audience">;
export type CredentialSettings = RequestedCredential | WalletCredential;

/** A request that its own key must have signed. */
export interface SignedBody {
  readonly request: Request;
  readonly headers: Headers;
  readonly bodyText: string;
  readonly now: number;
}

/** Throws unless the request is signed by this public key: otherwise one could bind the key of another agent to an own account. */
export type ProvePublicKey = (tx: Tx, signed: SignedBody, x: string) => Promise<void>;

export function toCredentialSettings(body: Readonly<Record<string, unknown>>): RequestedCredential {
  const { credential } = parseWithSchema(Credential, { credential: body }, "body");
  if (credential.type === "public_key") return { type: "public_key", x: credential.jwk.x };
  const { type, issuer, subject, claims } = credential;
  const values = [subject, ...Object.entries(claims).flat()];
  if (!values.every(isSafeText) || Object.keys(claims).length > CLAIMS_MAX)
    throw invalid(
      "credential",
      `\`credential\` must have at most ${CLAIMS_MAX} \`claims\`, and no control characters.`,
    );
  if (subject.includes("*") && !SUBJECT_PREFIX.test(subject))
    throw invalid(
      "credential.subject",
      "`credential.subject` may have a `*` only at its end, after at least two parts that end in `:` or `/`: `repo:acme/app:*`, but not `repo:*` or `repo:acme*`, which others can get tokens for.",
    );
  return { type, issuer, subject, claims };
}

/** What a job could leave behind with them, such as a key with a secret, works after its token has expired. */
const SCOPES_THAT_OUTLIVE_TOKENS: ReadonlySet<Scope> = new Set([
  "keys:write",
  "keys:manage",
  "claim:write",
]);

export function scopesOfCredential(
  granted: ReadonlySet<Scope>,
  credential: Pick<KeyCredential, "type"> | null | undefined,
): ReadonlySet<Scope> {
  return credential?.type === "oidc" ? granted.difference(SCOPES_THAT_OUTLIVE_TOKENS) : granted;
}

export function assertScopesOfCredential(
  scopes: readonly Scope[] | null | undefined,
  credential: Pick<KeyCredential, "type"> | null | undefined,
): void {
  const asked = new Set(scopes);
  const [refused] = asked.difference(scopesOfCredential(asked, credential));
  if (refused !== undefined)
    throw invalid(
      "scopes",
      `A key with an issuer cannot have the scope \`${refused}\`: what a job makes with it would outlive its token.`,
    );
}

/** RFC 7638, RFC 8037: the required members in lexicographic order. */
export function thumbprintOf(x: string): string {
  return createHash("sha256")
    .update(JSON.stringify({ crv: "Ed25519", kty: "OKP", x }))
    .digest("base64url");
}

/** For people: in the audit log and in the console. */
export function credentialText(credential: KeyCredential): string {
  if (credential.type === "public_key") return `public key ${thumbprintOf(credential.x)}`;
  if (credential.type === "wallet") return `payments of the wallet ${credential.address}`;
  return `tokens of ${credential.issuer} for ${credential.subject}`;
}

/** What the stored hash of a key without a secret is made from. It is public: it never works as a raw key. */
export function credentialName(credential: KeyCredential): string {
  if (credential.type === "wallet") return walletName(credential.address);
  return credential.type === "public_key"
    ? publicKeyName(thumbprintOf(credential.x))
    : audienceName(credential.audience);
}

export function walletName(address: string): string {
  return `wallet:${address}`;
}

export function publicKeyName(thumbprint: string): string {
  return `public-key:${thumbprint}`;
}

export function audienceName(audience: string): string {
  return `audience:${audience}`;
}

/** What tells a key from others: the ends of its secret, or how it authenticates without one. */
export function secretHint({
  prefix,
  last4,
  credential,
}: {
  readonly prefix: string;
  readonly last4: string;
  readonly credential: KeyCredential | null;
}): string {
  if (credential === null) return `${prefix}…${last4}`;
  return credential.type === "public_key" ? "signed requests" : "workload identity";
}

/** The audience that the text names. */
export function audienceIn(name: string): string | undefined {
  const [, audience] = /^audience:(.*)$/.exec(name) ?? [];
  return audience;
}

/** Whether the text names a credential. A raw key has no colon. */
export function isCredentialName(text: string): boolean {
  return text.includes(":");
}

export function parseCredential(column: unknown): KeyCredential | null {
  if (typeof column !== "string") return null;
  const value: unknown = JSON.parse(column);
  // Safe because only `insertKey` writes the column.
  return isObject(value) ? (value as unknown as KeyCredential) : null;
}

export function toCredentialRecord(
  credential: KeyCredential | null,
): z.infer<typeof CredentialRecord> | null {
  if (credential === null) return null;
  if (credential.type !== "public_key") return { ...credential };
  return { type: "public_key", keyid: thumbprintOf(credential.x) };
}
