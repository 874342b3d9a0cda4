// Sign-in with any OpenID Connect issuer: authorization code with PKCE, state and nonce. What must survive the way to
// the provider and back travels in a sealed cookie, so nothing is kept for visitors who never return.

import * as oidc from "openid-client";
import { createCookieBuilder, readCookie } from "../base/cookie.ts";
import { Fault } from "../base/fault.ts";
import { deriveKey, encrypt, decrypt } from "../base/encryption.ts";
import type { Secret } from "../base/secret.ts";
import { HOUR_MS } from "../base/time.ts";
import type { Identity } from "./people.ts";
import { type IdentityProvider, identityProviderOf } from "./identity-providers.ts";
import {
  hasEmailClaims,
  type IdClaims,
  identityFromClaims,
  mergeClaims,
} from "./id-token-claims.ts";

export interface IdentitySettings {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret?: Secret;
  /** Organizations whose people may sign in; empty for all that the issuer serves. */
  readonly allowedTenants: readonly string[];
}

export const CALLBACK_PATH = "/signin/callback";
export const OPERATOR_CALLBACK_PATH = "/operator/signin/callback";

const CUSTOMER_SIGN_IN: SignInEndpoint = {
  callbackPath: CALLBACK_PATH,
  cookie: "postern_signin",
  path: "/",
};
const COOKIE_SECONDS = 600;
const SCOPE = "openid email profile";
const DISCOVERY_TTL_MS = HOUR_MS;
const TIMEOUT_SECONDS = 10;
const PATH_MAX = 2_000;

export interface SignIn {
  /** Where to send the browser, and the cookie that it takes along. */
  readonly begin: (
    returnTo: string,
    switchAccount: boolean,
    now: number,
  ) => Promise<{ readonly location: string; readonly cookie: string }>;
  /** Whom the provider has signed in; throws a fault that a human can read. */
  readonly finish: (
    search: string,
    cookies: string | null,
    now: number,
  ) => Promise<{ readonly identity: Identity; readonly returnTo: string }>;
  /** Where a sign-in that came to nothing was to lead; the root where nobody knows. */
  readonly pendingReturnTo: (cookies: string | null) => string;
  readonly clearCookie: () => string;
  readonly providerName: string;
}

export interface SignInDeps {
  readonly settings: IdentitySettings;
  readonly baseUrl: string;
  readonly master: Secret;
  /** Another door than the customers', with an address and a cookie of its own: what was begun at one ends at no other. */
  readonly endpoint?: SignInEndpoint;
}

export interface SignInEndpoint {
  readonly callbackPath: string;
  readonly cookie: string;
  /** The part of the site that the cookie is sent to. */
  readonly path: string;
}

interface PendingSignIn {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
  readonly returnTo: string;
  readonly until: number;
}

export function createSignIn({
  settings,
  baseUrl,
  master,
  endpoint = CUSTOMER_SIGN_IN,
}: SignInDeps): SignIn {
  const { cookie } = endpoint;
  const key = deriveKey(master, "sign-in/v1");
  const form = createCookieBuilder(baseUrl, endpoint.path);
  const redirectUri = `${baseUrl}${endpoint.callbackPath}`;
  const provider = identityProviderOf(settings.issuer);
  const discoverCached = cachedDiscovery(settings);
  const readPending = (cookies: string | null): PendingSignIn | undefined =>
    unsealPending(key, cookie, readCookie(cookies, form.name(cookie)));

  return {
    providerName: provider.name,
    pendingReturnTo: (cookies) => readPending(cookies)?.returnTo ?? "/",
    clearCookie: () => form.clear(cookie),
    begin: async (returnTo, switchAccount, now) => {
      const configuration = await discoverCached(now);
      const pending: PendingSignIn = {
        state: oidc.randomState(),
        nonce: oidc.randomNonce(),
        verifier: oidc.randomPKCECodeVerifier(),
        returnTo: safeReturnPath(returnTo, baseUrl),
        until: now + COOKIE_SECONDS * 1_000,
      };
      const location = oidc.buildAuthorizationUrl(configuration, {
        redirect_uri: redirectUri,
        scope: SCOPE,
        state: pending.state,
        nonce: pending.nonce,
        code_challenge: await oidc.calculatePKCECodeChallenge(pending.verifier),
        code_challenge_method: "S256",
        ...(switchAccount ? { prompt: provider.switchPrompt } : {}),
      });
      const sealed = encrypt(key, cookie, JSON.stringify(pending));
      return { location: location.href, cookie: form.set(cookie, sealed, COOKIE_SECONDS) };
    },
    finish: async (search, cookies, now) => {
      const pending = readPending(cookies);
      if (pending === undefined || pending.until <= now)
        throw new Fault("invalid_request", "no sign-in in this browser", {
          message: `This sign-in took too long, or was begun in another browser or at another address than ${baseUrl}. Sign in again.`,
        });
      const configuration = await discoverCached(now);
      const callback = new URL(`${redirectUri}${search}`);
      const claims = await exchangeCode(configuration, callback, { ...pending, provider });
      return { identity: identityFromClaims(claims, settings), returnTo: pending.returnTo };
    },
  };
}

/** A path of this very site, or its root: nobody is sent elsewhere by a crafted link. */
export function safeReturnPath(path: string | undefined, baseUrl: string): string {
  if (path === undefined || path.length > PATH_MAX || !/^\/[^\\\p{C}]*$/u.test(path)) return "/";
  const base = new URL(baseUrl);
  const url = URL.parse(path, base);
  if (url === null || url.origin !== base.origin || url.pathname.startsWith("//")) return "/";
  return url.pathname + url.search;
}

/** Connects to the issuer on first use, and looks at its metadata anew every hour. */
function cachedDiscovery(settings: IdentitySettings): (now: number) => Promise<oidc.Configuration> {
  let last: { readonly at: number; readonly found: Promise<oidc.Configuration> } | undefined;
  return async (now) => {
    if (last === undefined || now - last.at >= DISCOVERY_TTL_MS || now < last.at)
      last = { at: now, found: discover(settings) };
    try {
      return await last.found;
    } catch (cause) {
      last = undefined;
      throw new Fault("upstream_error", `discovery at ${settings.issuer} failed`, {
        message: "The sign-in service cannot be reached. Try again in a minute.",
        cause,
      });
    }
  };
}

export function discover(settings: IdentitySettings): Promise<oidc.Configuration> {
  const issuer = new URL(settings.issuer);
  return oidc.discovery(issuer, settings.clientId, undefined, clientAuth(settings.clientSecret), {
    timeout: TIMEOUT_SECONDS,
    execute: [
      oidc.enableNonRepudiationChecks,
      ...(issuer.protocol === "http:" && isLoopbackUrl(issuer) ? [oidc.allowInsecureRequests] : []),
    ],
  });
}

export function isLoopbackUrl({ hostname }: URL): boolean {
  return /^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname);
}

/** Sends the secret in the way that the issuer says it takes; the standard's default is Basic. */
function clientAuth(clientSecret: Secret | undefined): oidc.ClientAuth {
  if (clientSecret === undefined) return oidc.None();
  const inBody = oidc.ClientSecretPost(clientSecret.reveal());
  const inHeader = oidc.ClientSecretBasic(clientSecret.reveal());
  return (issuer, client, body, headers) => {
    const methods = issuer.token_endpoint_auth_methods_supported ?? ["client_secret_basic"];
    const auth = methods.includes("client_secret_post") ? inBody : inHeader;
    return auth(issuer, client, body, headers);
  };
}

async function exchangeCode(
  configuration: oidc.Configuration,
  callback: URL,
  pending: PendingSignIn & { readonly provider: IdentityProvider },
): Promise<IdClaims> {
  try {
    const tokens = await oidc.authorizationCodeGrant(configuration, callback, {
      pkceCodeVerifier: pending.verifier,
      expectedState: pending.state,
      expectedNonce: pending.nonce,
      idTokenExpected: true,
    });
    const claims = tokens.claims();
    if (claims === undefined) throw new Error("no ID token");
    if (hasEmailClaims(claims, pending.provider)) return claims;
    if (configuration.serverMetadata().userinfo_endpoint === undefined) return claims;
    // Some issuers keep the email out of the ID token.
    const more = await oidc.fetchUserInfo(configuration, tokens.access_token, claims.sub);
    return mergeClaims(claims, more, pending.provider);
  } catch (cause) {
    throw signInFault(cause);
  }
}

function signInFault(cause: unknown): Fault {
  const errorCode = cause instanceof oidc.AuthorizationResponseError ? cause.error : undefined;
  if (errorCode === "access_denied")
    return new Fault("forbidden", "the human refused", {
      message: "You did not finish signing in. Nothing was changed.",
      cause,
    });
  return new Fault("invalid_request", `sign-in failed: ${errorCode ?? "the answer does not fit"}`, {
    message:
      "The sign-in could not be completed: its answer was old, used before or not meant for this browser. Sign in again.",
    cause,
  });
}

function unsealPending(
  key: Uint8Array,
  cookie: string,
  sealed: string | undefined,
): PendingSignIn | undefined {
  if (sealed === undefined) return undefined;
  try {
    // Safe because only `begin` can seal under this key.
    return JSON.parse(decrypt(key, cookie, sealed)) as PendingSignIn;
  } catch {
    return undefined;
  }
}
