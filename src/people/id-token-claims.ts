// Decides whom an identity provider's claims stand for. An email counts only where the provider says that it is proven:
// some let any administrator write any address into that claim.

import { emailError } from "../base/email.ts";
import { Fault } from "../base/fault.ts";
import { isSafeText, replaceUnsafe } from "../base/safe-text.ts";
import type { Identity } from "./people.ts";
import { type IdentityProvider, identityProviderOf } from "./identity-providers.ts";

export type IdClaims = Readonly<Record<string, unknown>>;

const NAME_MAX = 200;

export interface TenantRule {
  readonly issuer: string;
  /** Organizations whose people may sign in; empty for no rule. */
  readonly allowedTenants: readonly string[];
}

export function identityFromClaims(claims: IdClaims, rule: TenantRule): Identity {
  const provider = identityProviderOf(rule.issuer);
  checkTenant(claims, rule, provider);
  const { iss, sub, email, name } = claims;
  if (typeof iss !== "string" || typeof sub !== "string" || !isSafeText(sub))
    throw new Fault("upstream_error", "the ID token names no subject");
  if (typeof email !== "string" || email === "")
    throw forbidden(
      "no email in the claims",
      `${provider.name} did not tell your email address. The operator must allow the scope "email".`,
    );
  if (emailError(email) !== undefined)
    throw forbidden(
      "the email claim is not an email address",
      `${provider.name} sent an email address that is not valid, so it cannot be used here. Use another account there.`,
    );
  if (!isVerified(claims, provider))
    throw forbidden(
      "email is not verified",
      `${provider.name} does not say that ${email} is verified, so it cannot be used here. Verify the address there and sign in again.`,
    );
  return {
    issuer: iss,
    subject: sub,
    email,
    name: typeof name === "string" && name !== "" ? replaceUnsafe(name).slice(0, NAME_MAX) : null,
  };
}

/** Whether the ID token says an email, and whether it is proven. */
export function hasEmailClaims(claims: IdClaims, provider: IdentityProvider): boolean {
  const [email, ...proofs] = emailClaims(provider);
  return claims[email] !== undefined && proofs.some((proof) => claims[proof] !== undefined);
}

/**
 * The ID token's claims with those that were fetched; what the token says wins. Of the email and its proof both are taken
 * from one of them: an address that the one names is not proven by what the other says.
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
  const own = provider.verifiedClaim === undefined ? undefined : claims[provider.verifiedClaim];
  return own === true || own === 1 || own === "1" || own === "true";
}

/** Entra names a tenant, Google a domain, WorkOS and Auth0 an organization. */
function checkTenant(claims: IdClaims, rule: TenantRule, provider: IdentityProvider): void {
  const { allowedTenants } = rule;
  if (allowedTenants.length === 0) {
    if (provider.isShared?.(new URL(rule.issuer)) !== true) return;
    throw forbidden(
      "shared issuer without a list",
      "Sign-in is open to no organization yet: the operator must set OIDC_ALLOWED_TENANTS.",
    );
  }
  const tenant = [claims["tid"], claims["hd"], claims["org_id"]].find(
    (claim) => typeof claim === "string",
  );
  if (typeof tenant === "string" && allowedTenants.includes(tenant)) return;
  throw forbidden(
    `tenant ${String(tenant)} is not allowed`,
    "Your organization may not sign in here. Use an account of an organization that the operator allows.",
  );
}

function forbidden(detail: string, message: string): Fault {
  return new Fault("forbidden", detail, { message });
}
