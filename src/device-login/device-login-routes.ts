// The program's side of a sign-in with a browser: POST /oauth/device_authorization and POST /oauth/token (RFC 8628), and the
// settings that Claude Code reads afterwards. /oauth2/token is for claims alone.

import { createHash } from "node:crypto";
import { z } from "zod";
import { Fault } from "../base/fault.ts";
import { matchesEtag } from "../http/etag.ts";
import { isOmitted, oauthError, oauthErrorResponse } from "../http/oauth.ts";
import {
  keyRoute,
  oneResponse,
  publicRoute,
  type Route,
  type RouteResponse,
} from "../http/route.ts";
import type { Db } from "../store/db.ts";
import {
  type DeviceLogins,
  INTERVAL_MS,
  KEY_LIFETIME_MS,
  LIFETIME_MS,
  type PolledLogin,
} from "./device-login.ts";

export interface DeviceLoginRouteDeps {
  readonly db: Db;
  readonly deviceLogins: DeviceLogins;
  readonly baseUrl: string;
  /** True without an identity provider: no person could sign in. */
  readonly isSignInDisabled: boolean;
}

export const DEVICE_PATH = "/device";
const GRANT_TYPE = "urn:ietf:params:oauth:grant-type:device_code";
const TAG = "Device sign-in";
const PARAMETER_MAX = 1_000;
const SCOPE = "models:write usage:read";

const parameter = z.string().max(PARAMETER_MAX).optional();

// RFC 6749: unknown parameters are ignored, and an empty one counts as omitted.
const DeviceAuthorizationRequest = z
  .looseObject({
    client_id: parameter.meta({ description: "A name of the program. Not required." }),
    surface: parameter.meta({ description: "What Claude Code sends as its name." }),
  })
  .meta({ id: "DeviceAuthorizationRequest" });

const DeviceAuthorization = z
  .object({
    device_code: z.string().meta({ description: "For POST /oauth/token. Keep it secret." }),
    user_code: z.string().meta({ description: "Show it to the person." }),
    verification_uri: z.string(),
    verification_uri_complete: z.string(),
    expires_in: z.int().meta({ description: "Seconds until both codes expire." }),
    interval: z.int().meta({ description: "Least number of seconds between two polls." }),
  })
  .meta({ id: "DeviceAuthorization" });

const DeviceTokenRequest = z
  .looseObject({
    grant_type: parameter.meta({ description: `Must be \`${GRANT_TYPE}\`.` }),
    device_code: parameter.meta({ description: "Of POST /oauth/device_authorization." }),
  })
  .meta({ id: "DeviceTokenRequest", required: ["grant_type", "device_code"] });

const DeviceToken = z
  .object({
    access_token: z.string().meta({ description: "An API key of the chosen workspace." }),
    token_type: z.literal("Bearer"),
    expires_in: z.int().meta({ description: "Seconds until the key expires." }),
    scope: z.string(),
    email: z.string().meta({ description: "Who approved." }),
  })
  .meta({ id: "DeviceToken" });

export function deviceLoginRoutes(deps: DeviceLoginRouteDeps): readonly Route[] {
  return [authorizationRoute(deps), tokenRoute(deps), settingsRoute()];
}

function authorizationRoute({
  db,
  deviceLogins,
  baseUrl,
  isSignInDisabled,
}: DeviceLoginRouteDeps): Route {
  return publicRoute({
    method: "POST",
    path: "/oauth/device_authorization",
    id: "startDeviceSignIn",
    tag: TAG,
    summary: "Start a sign-in with a browser",
    description:
      "For a program on a person's device, such as Claude Code: it opens `verification_uri_complete` in a browser, shows `user_code`, and polls `POST /oauth/token`. The person signs in, compares the code, and chooses the workspace whose key the program gets.",
    dialect: "oauth",
    bodyType: "form",
    body: DeviceAuthorizationRequest,
    requestExample: { surface: "claude_code" },
    responses: oneResponse("The codes. They expire after ten minutes.", DeviceAuthorization, {
      device_code: "7QmT2VxZ8RkL4NcW9BdF6HjP3SgY5TaE1UoI0KvXw2M",
      user_code: "WDJB-MJHT",
      verification_uri: `${baseUrl}${DEVICE_PATH}`,
      verification_uri_complete: `${baseUrl}${DEVICE_PATH}?user_code=WDJB-MJHT`,
      expires_in: LIFETIME_MS / 1_000,
      interval: INTERVAL_MS / 1_000,
    }),
    faults: ["rate_limited", "provider_not_configured"],
    run: async ({ body, headers, clientIp, now }) => {
      if (isSignInDisabled) throw signInDisabledFault();
      const client = clientName(body.surface ?? body.client_id, headers.get("user-agent"));
      const { deviceCode, userCode } = await db.write((tx) =>
        deviceLogins.start(tx, { client, clientIp, now }),
      );
      const page = `${baseUrl}${DEVICE_PATH}`;
      return {
        status: 200,
        body: {
          device_code: deviceCode,
          user_code: userCode,
          verification_uri: page,
          verification_uri_complete: `${page}?user_code=${userCode}`,
          expires_in: LIFETIME_MS / 1_000,
          interval: INTERVAL_MS / 1_000,
        },
      };
    },
  });
}

function signInDisabledFault(): Fault {
  return new Fault("provider_not_configured", "no identity provider", {
    message:
      "Sign-in is not set up on this gateway. Use an API key instead, or ask the operator to set `OIDC_ISSUER`; retrying does not help.",
  });
}

const CLIENT_NAMES: Readonly<Record<string, string>> = { claude_code: "Claude Code" };
const CLIENT_NAME = /^[A-Za-z0-9][\w. -]{0,39}$/;

/** What the program calls itself: it is shown as such, and proves nothing. */
function clientName(given: string | undefined, userAgent: string | null): string {
  const name = given !== undefined && given !== "" ? given : (userAgent?.split(/[/ (]/)[0] ?? "");
  const known = Object.hasOwn(CLIENT_NAMES, name) ? CLIENT_NAMES[name] : undefined;
  return known ?? (CLIENT_NAME.test(name) ? name : "A program");
}

function tokenRoute({ db, deviceLogins }: DeviceLoginRouteDeps): Route {
  return publicRoute({
    method: "POST",
    path: "/oauth/token",
    id: "pollDeviceSignIn",
    tag: TAG,
    summary: "Poll a sign-in with a browser",
    description: `Send \`grant_type=${GRANT_TYPE}\` and the \`device_code\` every \`interval\` seconds. A code works once: if it is sent again after its key was issued, the key is revoked. There are no refresh tokens: sign in again when the key has expired. Claims are polled at \`POST /oauth2/token\`.`,
    dialect: "oauth",
    bodyType: "form",
    body: DeviceTokenRequest,
    requestExample: {
      grant_type: GRANT_TYPE,
      device_code: "7QmT2VxZ8RkL4NcW9BdF6HjP3SgY5TaE1UoI0KvXw2M",
    },
    responses: {
      ...oneResponse("The key. It is shown once.", DeviceToken, {
        access_token: "pst-rt-…",
        token_type: "Bearer",
        expires_in: KEY_LIFETIME_MS / 1_000,
        scope: SCOPE,
        email: "ada@example.com",
      }),
      ...oauthErrorResponse("DevicePollError", {
        authorization_pending:
          "The person has not decided yet. Poll again after `interval` seconds.",
        slow_down:
          "You poll too often. Wait `interval` seconds, now five longer, between two polls.",
        expired_token: "The code has expired. Start again.",
        access_denied: "The person declined. Stop polling.",
        invalid_grant: "The code is unknown or was used. Start again.",
        invalid_request: "A field is missing.",
        unsupported_grant_type: "`grant_type` is not that of RFC 8628.",
      }),
    },
    faults: ["invalid_request"],
    run: async ({ body, clientIp, now }) => {
      const { grant_type: grantType, device_code: deviceCode } = body;
      if (isOmitted(grantType)) return oauthError("invalid_request", "`grant_type` is required.");
      if (grantType !== GRANT_TYPE)
        return oauthError("unsupported_grant_type", `\`grant_type\` must be ${GRANT_TYPE}.`);
      if (isOmitted(deviceCode)) return oauthError("invalid_request", "`device_code` is required.");
      try {
        return tokenResponse(
          await db.write((tx) => deviceLogins.poll(tx, { deviceCode, clientIp, now })),
        );
      } catch (error) {
        if (!(error instanceof Fault) || error.status >= 500) throw error;
        // The person left the workspace, or lost the role or the allowance, after the approval.
        return oauthError("access_denied", error.publicMessage);
      }
    },
  });
}

function tokenResponse(polled: PolledLogin): RouteResponse {
  switch (polled.status) {
    case "issued":
      return {
        status: 200,
        body: {
          access_token: polled.key,
          token_type: "Bearer",
          expires_in: KEY_LIFETIME_MS / 1_000,
          scope: SCOPE,
          email: polled.email,
        },
      };
    case "pending":
      return oauthError("authorization_pending", "The person has not decided yet.");
    case "too_fast":
      return oauthError("slow_down", "Polling too fast. Use the longer `interval` from now on.", {
        interval: polled.intervalMs / 1_000,
      });
    case "denied":
      return oauthError("access_denied", "The person declined.");
    case "expired":
      return oauthError("expired_token", "The code has expired. Start again.");
    case "unknown":
      return oauthError("invalid_grant", "The code is unknown or was used. Start again.");
  }
}

/** The gateway lists models of all providers for the picker, which Claude Code asks for only if it is told to. */
const SETTINGS = { env: { CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY: "1" } };
/** Claude Code computes the same over the settings that it has: compact JSON with sorted keys. */
const CHECKSUM = `sha256:${createHash("sha256").update(JSON.stringify(SETTINGS)).digest("hex")}`;
const ETAG = `"${CHECKSUM}"`;
const MANAGED_SETTINGS = { uuid: "postern-default", checksum: CHECKSUM, settings: SETTINGS };

function settingsRoute(): Route {
  return keyRoute({
    method: "GET",
    path: "/managed/settings",
    id: "getManagedSettings",
    scope: undefined,
    tag: TAG,
    summary: "Get Claude Code's settings",
    description:
      "What Claude Code reads about once an hour after a sign-in: its `managed-settings.json`. The gateway turns on the list of its models, and nothing else.",
    dialect: "messages",
    responses: {
      200: {
        description: "The settings.",
        schema: z
          .object({ uuid: z.string(), checksum: z.string(), settings: z.looseObject({}) })
          .meta({ id: "ManagedSettings" }),
        example: MANAGED_SETTINGS,
        headers: { etag: "Send it as `if-none-match` to get a 304 if nothing has changed." },
      },
      304: { description: "The client has these settings." },
    },
    faults: [],
    run: ({ headers }) => {
      const known = headers.get("if-none-match");
      // With `*` the client only asks whether there are settings.
      if (known !== null && known !== "*" && matchesEtag(ETAG, known))
        return new Response(null, { status: 304, headers: { etag: ETAG } });
      return {
        status: 200,
        headers: { etag: ETAG, "cache-control": "private, no-cache" },
        body: MANAGED_SETTINGS,
      };
    },
  });
}
