// Sign-in with any OpenID Connect issuer: authorization code with PKCE, state and nonce. A pending sign-in is kept in an
// encrypted cookie, so the server stores nothing for sign-ins that are never completed.

import * as oidc from "openid-client";
import {
  deriveKey,
  encrypt,
  decrypt,
  type MasterSecret,
  type DerivedKey,
} from "../base/crypto/encryption.ts";
import type { Secret } from "../base/crypto/secret.ts";
import { Fault } from "../base/fault.ts";
import { createCookieBuilder, readCookie } from "../base/network/cookie.ts";
import { HOUR_MS } from "../base/time.ts";
import {
  hasEmailClaims,
  type IdClaims,
  identityFromClaims,
  mergeClaims,
} from "./id-token-claims.ts";
import { type IdentityProvider, identityProviderOf } from "./identity-providers.ts";
import type { Identity } from "./people.ts";

export interface IdentitySettings {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret?: Secret;
  /** Organizations that may sign in; empty for all that the issuer serves. */
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
  /** Returns the authorization URL and the cookie with the pending sign-in. */
  readonly begin: (
    returnTo: string,
    options: BeginOptions,
    now: number,
  ) => Promise<{ readonly location: string; readonly cookie: string }>;
  /** Completes the sign-in; throws a Fault with a message for the user. */
  readonly finish: (
    search: string,
    cookies: string | null,
    now: number,
  ) => Promise<{ readonly identity: Identity; readonly returnTo: string }>;
  /** The return path of a failed sign-in; `/` if unknown. */
  readonly pendingReturnTo: (cookies: string | null) => string;
  readonly clearCookie: () => string;
  readonly providerName: string;
}

interface BeginOptions {
  readonly switchAccount?: boolean;
  /** The email address that the person has typed. */
  readonly loginHint?: string | undefined;
}

export interface SignInDeps {
  readonly settings: IdentitySettings;
  readonly baseUrl: string;
  readonly master: MasterSecret;
  /** Operators have their own callback path and cookie: a sign-in cannot be completed at the other endpoint. */
  readonly endpoint?: SignInEndpoint;
  /** Sends the requests to the issuer. Absent for the operator's own issuer, which may be in a private network. */
  readonly fetch?: oidc.CustomFetch;
}

export interface SignInEndpoint {
  readonly callbackPath: string;
  readonly cookie: string;
  /** The path attribute of the cookie. */
  readonly path: string;
  /** What a pending sign-in belongs to, such as the id of a workspace's issuer: no other can complete it. */
  readonly binding?: string;
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
  fetch,
}: SignInDeps): SignIn {
  const { cookie, binding = cookie } = endpoint;
  const key = deriveKey(master, "sign-in/v1");
  const cookieBuilder = createCookieBuilder(baseUrl, endpoint.path);
  const redirectUri = `${baseUrl}${endpoint.callbackPath}`;
  const provider = identityProviderOf(settings.issuer);
  const discoverCached = cachedDiscovery(settings, fetch);
  const readPending = (cookies: string | null): PendingSignIn | undefined =>
    decryptPending(key, binding, readCookie(cookies, cookieBuilder.name(cookie)));

  return {
    providerName: provider.name,
    pendingReturnTo: (cookies) => readPending(cookies)?.returnTo ?? "/",
    clearCookie: () => cookieBuilder.clear(cookie),
    begin: async (returnTo, { switchAccount = false, loginHint }, now) => {
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
        ...(loginHint === undefined ? {} : { login_hint: loginHint }),
      });
      const sealed = encrypt(key, binding, JSON.stringify(pending));
      return { location: location.href, cookie: cookieBuilder.set(cookie, sealed, COOKIE_SECONDS) };
    },
    finish: async (search, cookies, now) => {
      const pending = readPending(cookies);
      if (pending === undefined || pending.until <= now)
        throw new Fault("invalid_request", "no sign-in in this browser", {
          message: `This sign-in has expired, or it was started in another browser or at an address other than ${baseUrl}. Sign in again.`,
        });
      const configuration = await discoverCached(now);
      const callback = new URL(`${redirectUri}${search}`);
      const claims = await exchangeCode(configuration, callback, { ...pending, provider });
      return { identity: identityFromClaims(claims, settings), returnTo: pending.returnTo };
    },
  };
}

/** Prevents open redirects: returns a path of this origin, or `/`. */
export function safeReturnPath(path: string | undefined, baseUrl: string): string {
  if (path === undefined || path.length > PATH_MAX || !/^\/[^\\\p{C}]*$/u.test(path)) return "/";
  const base = new URL(baseUrl);
  const url = URL.parse(path, base);
  if (url === null || url.origin !== base.origin || url.pathname.startsWith("//")) return "/";
  return url.pathname + url.search;
}

/** Fetches the metadata of the issuer on first use and again every hour; failures are not cached. */
function cachedDiscovery(
  settings: IdentitySettings,
  fetch: oidc.CustomFetch | undefined,
): (now: number) => Promise<oidc.Configuration> {
  let last:
    | { readonly at: number; readonly configuration: Promise<oidc.Configuration> }
    | undefined;
  return async (now) => {
    if (last === undefined || now - last.at >= DISCOVERY_TTL_MS || now < last.at)
      last = { at: now, configuration: discover(settings, fetch) };
    try {
      return await last.configuration;
    } catch (cause) {
      last = undefined;
      throw new Fault("upstream_error", `discovery at ${settings.issuer} failed`, {
        message: "The identity provider cannot be reached. Try again in a minute.",
        cause,
      });
    }
  };
}

export function discover(
  settings: IdentitySettings,
  fetch?: oidc.CustomFetch,
): Promise<oidc.Configuration> {
  const issuer = new URL(settings.issuer);
  return oidc.discovery(issuer, settings.clientId, undefined, clientAuth(settings.clientSecret), {
    timeout: TIMEOUT_SECONDS,
    ...(fetch === undefined ? {} : { [oidc.customFetch]: fetch }),
    execute: [
      oidc.enableNonRepudiationChecks,
      ...(issuer.protocol === "http:" && isLoopbackUrl(issuer) ? [oidc.allowInsecureRequests] : []),
    ],
  });
}

export function isLoopbackUrl({ hostname }: URL): boolean {
  return /^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname);
}

/** Uses an authentication method that the issuer supports; the default of the standard is Basic. */
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
    // Some issuers send the email only in userinfo.
    const more = await oidc.fetchUserInfo(configuration, tokens.access_token, claims.sub);
    return mergeClaims(claims, more, pending.provider);
  } catch (cause) {
    throw signInFault(cause);
  }
}

function signInFault(cause: unknown): Fault {
  const errorCode = cause instanceof oidc.AuthorizationResponseError ? cause.error : undefined;
  if (errorCode === "access_denied")
    return new Fault("forbidden", "the user canceled the sign-in", {
      message: "The sign-in was canceled. Nothing was changed.",
      cause,
    });
  return new Fault("invalid_request", `sign-in failed: ${errorCode ?? "invalid response"}`, {
    message:
      "The sign-in could not be completed: the response has expired, was already used or belongs to another browser. Sign in again.",
    cause,
  });
}

function decryptPending(
  key: DerivedKey,
  binding: string,
  sealed: string | undefined,
): PendingSignIn | undefined {
  if (sealed === undefined) return undefined;
  try {
    // The cast is safe: only `begin` encrypts with this key.
    return JSON.parse(decrypt(key, binding, sealed)) as PendingSignIn;
  } catch {
    return undefined;
  }
}
