// Maps an identity provider's claims to an identity. An email is accepted only if the provider says that it is verified:
// some providers let any tenant administrator set any address.

import { Fault } from "../base/fault.ts";
import { emailError } from "../base/text/email.ts";
import { isSafeText, replaceUnsafe } from "../base/text/safe-text.ts";
import { type IdentityProvider, identityProviderOf } from "./identity-providers.ts";
import type { Identity } from "./people.ts";

export type IdClaims = Readonly<Record<string, unknown>>;

const NAME_MAX = 200;
/** As OpenID Connect Core requires. A longer one does not fit an index of PostgreSQL. */
const SUBJECT_MAX = 255;

export interface TenantRule {
  readonly issuer: string;
  /** Organizations that may sign in; empty for no restriction. */
  readonly allowedTenants: readonly string[];
}

export function identityFromClaims(claims: IdClaims, rule: TenantRule): Identity {
  const provider = identityProviderOf(rule.issuer);
  checkTenant(claims, rule, provider);
  const { iss, sub, email, name } = claims;
  if (typeof iss !== "string" || typeof sub !== "string" || !isSubject(sub))
    throw new Fault("upstream_error", "the ID token has no valid iss or sub claim");
  if (typeof email !== "string" || email === "")
    throw forbidden(
      "no email in the claims",
      `${provider.name} did not send your email address. The operator must allow the scope "email".`,
    );
  if (emailError(email) !== undefined)
    throw forbidden(
      "the email claim is not an email address",
      `${provider.name} sent an email address that is not valid. Use another account there.`,
    );
  if (!isVerified(claims, provider))
    throw forbidden(
      "email is not verified",
      `${provider.name} does not say that ${email} is verified. Verify the address there, then sign in again.`,
    );
  return {
    issuer: iss,
    subject: sub,
    email,
    name: typeof name === "string" && name !== "" ? replaceUnsafe(name).slice(0, NAME_MAX) : null,
  };
}

function isSubject(sub: string): boolean {
  return sub.length <= SUBJECT_MAX && isSafeText(sub);
}

/** Whether the ID token has an email and a claim about its verification. */
export function hasEmailClaims(claims: IdClaims, provider: IdentityProvider): boolean {
  const [email, ...verifiedClaims] = emailClaims(provider);
  return claims[email] !== undefined && verifiedClaims.some((claim) => claims[claim] !== undefined);
}

/**
 * Merges the claims; the ID token wins. The email and its verification come from the same source: userinfo must not
 * verify an address that the ID token names, nor the reverse.
 */
export function mergeClaims(
  token: IdClaims,
  userinfo: IdClaims,
  provider: IdentityProvider,
): IdClaims {
  const source = userinfo["email"] === undefined ? token : userinfo;
  const email = emailClaims(provider).map((name) => [name, source[name]]);
  return { ...userinfo, ...token, ...Object.fromEntries(email) };
}

function emailClaims({ verifiedClaim }: IdentityProvider): readonly [string, ...string[]] {
  return ["email", "email_verified", ...(verifiedClaim === undefined ? [] : [verifiedClaim])];
}

function isVerified(claims: IdClaims, provider: IdentityProvider): boolean {
  if (claims["email_verified"] === true) return true;
  const verified =
    provider.verifiedClaim === undefined ? undefined : claims[provider.verifiedClaim];
  return verified === true || verified === 1 || verified === "1" || verified === "true";
}

/** Entra sends a tenant (`tid`), Google a domain (`hd`), WorkOS and Auth0 an organization (`org_id`). */
function checkTenant(claims: IdClaims, rule: TenantRule, provider: IdentityProvider): void {
  const { allowedTenants } = rule;
  if (allowedTenants.length === 0) {
    if (provider.isShared?.(new URL(rule.issuer)) !== true) return;
    throw forbidden(
      "shared issuer without OIDC_ALLOWED_TENANTS",
      "No organization is allowed to sign in yet. The operator must set OIDC_ALLOWED_TENANTS.",
    );
  }
  const tenant = [claims["tid"], claims["hd"], claims["org_id"]].find(
    (claim) => typeof claim === "string",
  );
  if (typeof tenant === "string" && allowedTenants.includes(tenant)) return;
  throw forbidden(
    `tenant ${String(tenant)} is not allowed`,
    "Your organization is not allowed to sign in here. Use an account of an organization that the operator allows.",
  );
}

function forbidden(detail: string, message: string): Fault {
  return new Fault("forbidden", detail, { message });
}
